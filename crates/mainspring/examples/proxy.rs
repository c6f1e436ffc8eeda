//! A TCP proxy with back-pressure: no more is read from one side than the other takes.
//!
//! ```text
//! cargo run --example proxy -- 127.0.0.1:8891 example.org:80
//! ```

use mainspring::net::{ConnectOptions, TcpListener, TcpStream, copy_bidirectional};
use mainspring::spawn;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// Carries everything from either side to the other, until both have ended or one breaks off.
async fn lead(client: TcpStream, target: Rc<str>) -> io::Result<(u64, u64)> {
    let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_millis(250));
    let server = options.connect(&*target).await?;
    // While one side does not read, the other side's buffer fills, and its peer waits.
    copy_bidirectional(&client, &server).await
}

async fn run(listen: &str, target: &str) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("{} leads to {target}", listener.local_addr());
    loop {
        let (client, peer) = listener.accept().await?;
        let target = Rc::from(target);
        spawn(async move {
            match lead(client, target).await {
                Ok((up, down)) => println!("{peer}: {up} bytes up, {down} down"),
                Err(error) => println!("{peer}: {error}"),
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
