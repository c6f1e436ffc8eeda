//! `rust-workloads [NAME…]`: workloads of the Rust API, for `bench/instructions`.
//!
//! Each runs three times on a loop of its own: to warm up, and twice with counts whose difference leaves out what a run
//! costs once. Callgrind writes its counts at the beginning of `workload_boundary` and starts again at zero. For each
//! workload the program prints its name, the process and the two counts.

use mainspring::net::UnixStream;
use mainspring::sync::{Event, mpsc};
use mainspring::{EventLoop, sleep, spawn, yield_now};
use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

/// The name of each workload, and its operations in the shorter of the two runs.
const WORKLOADS: [(&str, usize); 7] = [
    ("spawn", 10_000),
    ("yield", 20_000),
    ("timers.cancel", 20_000),
    ("timers.fire", 10_000),
    ("channel", 10_000),
    ("echo", 1_000),
    ("sleep", 1_000),
];
const TASKS: usize = 100;
const TIMERS: usize = 50;
const MESSAGE: [u8; 1024] = [b'x'; 1024];

fn main() -> Outcome {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = WORKLOADS.map(|(name, _)| name.to_string()).into();
    }
    for name in names {
        let found = WORKLOADS.into_iter().find(|(known, _)| *known == name);
        let (name, few) = found.ok_or_else(|| format!("there is no workload {name}"))?;
        let many = 3 * few;
        mainspring::run(measure(name, few, many))??;
        println!("{name} {} {few} {many}", std::process::id());
    }
    Ok(())
}

async fn measure(name: &str, few: usize, many: usize) -> Outcome {
    run(name, few).await?;
    workload_boundary();
    run(name, few).await?;
    workload_boundary();
    run(name, many).await?;
    workload_boundary();
    Ok(())
}

/// Where callgrind ends a count and begins the next.
#[inline(never)]
fn workload_boundary() {
    black_box(());
}

async fn run(name: &str, count: usize) -> Outcome {
    match name {
        "spawn" => spawn_and_join(count).await,
        "yield" => yield_in_turn(count).await,
        "timers.cancel" => cancel_timers(count),
        "timers.fire" => fire_timers(count).await,
        "channel" => ping_pong(count).await,
        "echo" => echo(count).await,
        "sleep" => sleep_at_once(count).await,
        _ => Err(format!("there is no workload {name}").into()),
    }
}

async fn spawn_and_join(count: usize) -> Outcome {
    let mut tasks = Vec::with_capacity(TASKS);
    for _ in 0..count / TASKS {
        tasks.extend((0..TASKS).map(|number| spawn(async move { number })));
        for task in tasks.drain(..) {
            black_box(task.await?);
        }
    }
    Ok(())
}

async fn yield_in_turn(count: usize) -> Outcome {
    let yields = count / TASKS;
    let yielder = move || async move {
        for _ in 0..yields {
            yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| spawn(yielder())).collect();
    for task in tasks {
        task.await?;
    }
    Ok(())
}

fn cancel_timers(count: usize) -> Outcome {
    let event_loop = EventLoop::current();
    for _ in 0..count {
        event_loop.call_later(Duration::from_secs(60), || ())?.cancel();
    }
    Ok(())
}

async fn fire_timers(count: usize) -> Outcome {
    let event_loop = EventLoop::current();
    // In batches: the cost of a timer depends on how many are due, and on where the clock is in the timer wheel.
    for _ in 0..count / TIMERS {
        let fired = Rc::new(Event::new());
        for _ in 1..TIMERS {
            event_loop.call_later(Duration::ZERO, || ())?;
        }
        let last = Rc::clone(&fired);
        event_loop.call_later(Duration::ZERO, move || last.set())?;
        fired.wait().await;
    }
    Ok(())
}

async fn sleep_at_once(count: usize) -> Outcome {
    for _ in 0..count {
        sleep(Duration::ZERO).await;
    }
    Ok(())
}

async fn ping_pong(count: usize) -> Outcome {
    let (ping, mut pings) = mpsc::channel(1);
    let (pong, mut pongs) = mpsc::channel(1);
    let server = spawn(async move {
        while let Some(number) = pings.recv().await {
            if pong.send(number).await.is_err() {
                return;
            }
        }
    });
    for number in 0..count {
        ping.send(number).await?;
        black_box(pongs.recv().await);
    }
    drop(ping);
    Ok(server.await?)
}

async fn echo(count: usize) -> Outcome {
    let (here, there) = std::os::unix::net::UnixStream::pair()?;
    let (client, server) = (UnixStream::from_std(here)?, UnixStream::from_std(there)?);
    let serving = spawn(async move {
        let mut buffer = [0; MESSAGE.len()];
        while let Ok(length @ 1..) = server.read(&mut buffer).await {
            if server.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    });
    let mut reply = [0; MESSAGE.len()];
    for _ in 0..count {
        client.write_all(&MESSAGE).await?;
        let mut received = 0;
        while received < reply.len() {
            received += client.read(&mut reply[received..]).await?;
        }
    }
    drop(client);
    Ok(serving.await?)
}
