//! A TCP proxy with back-pressure: it reads from one side only as fast as the other side accepts.
//!
//! ```text
//! cargo run --example proxy -- 127.0.0.1:8891 example.org:80
//! ```

use mainspring::net::{ConnectOptions, TcpListener, TcpStream, copy_bidirectional};
use mainspring::spawn;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Copies data in both directions, until both sides have ended or one fails.
async fn forward(client: TcpStream, target: Rc<str>) -> io::Result<(u64, u64)> {
    let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_millis(250));
    let server = options.connect(&*target).await?;
    // If one side does not read, the buffer of the other side fills, and its peer must wait.
    copy_bidirectional(&client, &server).await
}

async fn run(listen: &str, target: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("{} forwards to {target}", listener.local_addr());
    loop {
        let (client, peer) = listener.accept().await?;
        let target = Rc::from(target);
        spawn(async move {
            match forward(client, target).await {
                Ok((up, down)) => println!("{peer}: {up} bytes up, {down} down"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}

fn main() -> Result<(), mainspring::Error> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [listen, target] = arguments.as_slice() else {
        println!("usage: proxy <listen address> <target address>");
        return Ok(());
    };
    mainspring::run(run(listen, target))??;
    Ok(())
}
