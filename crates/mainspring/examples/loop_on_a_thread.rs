//! A program that is not asynchronous, with a loop on a thread that serves it: calls, delays and sockets whose results
//! are waited for, or composed without anybody waiting.
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

    // A peer that answers in capital letters, on a thread of its own.
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let peer = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut connection, _) = listener.accept()?;
        let mut heard = [0; 100];
        let count = connection.read(&mut heard)?;
        connection.write_all(&heard[..count].to_ascii_uppercase())
    });

    // Connect, send, receive and turn into text: all of it on the loop's thread, none of it waited for here.
    let handle = runtime.handle();
    let answer = runtime
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
    answer.add_done_callback(|result| println!("done: {}", result.is_ok()));

    println!("meanwhile, the program does something else");
    println!("the peer says {:?}", answer.wait()?);
    peer.join().map_err(|_| "the peer panicked")??;

    // What was accepted comes to its end before this returns. To drop the runtime would cancel it.
    drop(runtime.delay(Duration::from_millis(10)).map(|()| println!("the last one")));
    runtime.shutdown()?;
    Ok(())
}
