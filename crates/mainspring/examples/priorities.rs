//! The latency of a device next to ten busy tasks, with and without priorities.
//!
//! The device is a socket. A thread writes the time into it every five milliseconds; a reader of the loop subtracts it
//! from the time at which it runs. Each of the ten tasks computes for one millisecond, then yields.
//!
//! `cargo run --release --example priorities`

use mainspring::{Builder, Error, EventLoop, background, sleep, spawn, yield_now};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

const TASKS: usize = 10;
const STEP: Duration = Duration::from_millis(1);
const PERIOD: Duration = Duration::from_millis(5);
const RUN: Duration = Duration::from_secs(1);
const MAX_OVERDUE: Duration = Duration::from_millis(500);

async fn compute() {
    loop {
        let end = Instant::now() + STEP;
        while Instant::now() < end {}
        yield_now().await;
    }
}

/// The latencies of the device, sorted.
fn measure(io_first: bool, in_background: bool) -> Result<Vec<Duration>, Error> {
    let event_loop = Builder::new().io_first(io_first).build()?;
    let (mut device, mut reader) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    let began = Instant::now();
    // Ends when the reader is closed.
    let writer = thread::spawn(move || {
        while device.write_all(&(began.elapsed().as_nanos() as u64).to_ne_bytes()).is_ok() {
            thread::sleep(PERIOD);
        }
    });
    let latencies = Rc::new(RefCell::new(Vec::new()));
    let (seen, watched) = (Rc::clone(&latencies), reader.try_clone()?);
    event_loop.add_reader(&watched, move || {
        let mut sent = [0; 8];
        while reader.read_exact(&mut sent).is_ok() {
            let sent = Duration::from_nanos(u64::from_ne_bytes(sent));
            seen.borrow_mut().push(began.elapsed().saturating_sub(sent));
        }
    })?;
    event_loop.run_until_complete(async move {
        let start = || (0..TASKS).map(|_| spawn(compute())).collect::<Vec<_>>();
        let tasks = if in_background { background(MAX_OVERDUE, start) } else { start() };
        sleep(RUN).await;
        for task in tasks {
            task.cancel();
        }
        EventLoop::current().remove_reader(&watched)
    })??;
    drop(event_loop);
    if writer.join().is_err() {
        eprintln!("the writer panicked");
    }
    let mut latencies = latencies.take();
    latencies.sort_unstable();
    Ok(latencies)
}

fn main() -> Result<(), Error> {
    println!("{:28} {:>10} {:>10}", "", "median", "p99");
    let settings =
        [("no priorities", false, false), ("tasks in background()", false, true), ("io_first", true, false)];
    for (name, io_first, in_background) in settings {
        let latencies = measure(io_first, in_background)?;
        let at = |percent: usize| latencies.get(latencies.len() * percent / 100).copied().unwrap_or_default();
        println!("{name:28} {:>10.2?} {:>10.2?}", at(50), at(99));
    }
    Ok(())
}
