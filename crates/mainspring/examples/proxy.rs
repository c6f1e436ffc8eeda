//! A TCP proxy with back-pressure: no more is read from one side than the other takes.
//!
//! ```text
//! cargo run --example proxy -- 127.0.0.1:8891 example.org:80
//! ```

use mainspring::net::{ConnectOptions, Stream, StreamReader, StreamWriter, TcpListener};
use mainspring::spawn;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Carries everything from one side to the other, then the end of it.
async fn carry(from: &StreamReader, to: &StreamWriter) -> io::Result<()> {
    loop {
        let some = from.read_some(64 * 1024).await?;
        if some.is_empty() {
            to.write_eof();
            return Ok(());
        }
        // Waits while the other side does not read; meanwhile this side's buffer fills, and its peer waits.
        to.write_all(&some).await?;
    }
}

async fn serve(client: Stream, target: Rc<str>) -> io::Result<()> {
    let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_millis(250));
    let (from_server, to_server) = options.open_connection(&*target).await?;
    let (from_client, to_client) = client.into_split();
    let up = spawn(async move { carry(&from_client, &to_server).await });
    if let Err(error) = carry(&from_server, &to_client).await {
        up.cancel();
        return Err(error);
    }
    up.await.map_err(io::Error::other)?
}

async fn run(listen: &str, target: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("{} leads to {target}", listener.local_addr());
    loop {
        let (client, peer) = listener.accept().await?;
        let target = Rc::from(target);
        spawn(async move {
            if let Err(error) = serve(client.into(), target).await {
                println!("{peer}: {error}");
            }
        });
    }
}

fn main() -> Result<(), mainspring::Error> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [listen, target] = arguments.as_slice() else {
        println!("usage: proxy <address to listen at> <address to lead to>");
        return Ok(());
    };
    mainspring::run(run(listen, target))??;
    Ok(())
}
