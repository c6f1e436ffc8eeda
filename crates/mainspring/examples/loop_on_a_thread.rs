//! A synchronous program with a loop on its own thread: calls, delays and sockets. The program waits for their results or
//! composes them without waiting.
//!
//! `cargo run --example loop_on_a_thread`

use mainspring::Runtime;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().name("background").start()?;

    // A call and its result.
    let thread = runtime.call(|| std::thread::current().name().map(str::to_owned));
    println!("the loop runs on the thread {:?}", thread.wait()?.unwrap_or_default());

    // A peer on another thread that replies in capital letters.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let peer = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut connection, _) = listener.accept()?;
        let mut buffer = [0; 100];
        let count = connection.read(&mut buffer)?;
        connection.write_all(&buffer[..count].to_ascii_uppercase())
    });

    // Connect, send, receive and decode on the loop's thread, without waiting here.
    let handle = runtime.handle();
    let reply = runtime
        .delay(Duration::from_millis(10))
        .and_then({
            let handle = handle.clone();
            move |()| handle.connect(address)
        })
        .and_then(move |socket| {
            let (socket, reading) = (Arc::new(socket), handle.clone());
            let receiving = Arc::clone(&socket);
            handle.write_all(socket, "hello from a loop").and_then(move |()| reading.read(receiving, 100))
        })
        .map(|data| String::from_utf8_lossy(&data).into_owned());
    reply.add_done_callback(|result| println!("done: {}", result.is_ok()));

    println!("the program continues");
    println!("the peer replied {:?}", reply.wait()?);
    peer.join().map_err(|_| "the peer panicked")??;

    // `shutdown` waits for this; dropping the runtime would cancel it.
    drop(runtime.delay(Duration::from_millis(10)).map(|()| println!("the last call")));
    runtime.shutdown()?;
    Ok(())
}
