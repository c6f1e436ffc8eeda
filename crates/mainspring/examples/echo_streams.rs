//! An echo server with streams: one task per connection.
//!
//! ```text
//! cargo run --example echo_streams
//! ```

use mainspring::net::{TcpListener, TcpStream};
use mainspring::spawn;
use std::io;

async fn echo(stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return stream.close().await,
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:8889").await?;
    println!("listening at {}", listener.local_addr());
    loop {
        let (stream, peer) = listener.accept().await?;
        spawn(async move {
            if let Err(error) = echo(stream).await {
                println!("{peer}: {error}");
            }
        });
    }
}

fn main() -> Result<(), mainspring::Error> {
    mainspring::run(serve())??;
    Ok(())
}
