//! mainspring beside tokio, smol and monoio: the same work, one thread each, measured in turns.
//!
//! `cargo bench -p mainspring --bench peers`; `-- --rounds 40` for a longer look, `-- --only echo` for some rows.
//! What is measured, and how, is told in `docs/peers.md`.
//!
//! This program is both sides. Without a word it is the director: round by round it starts itself once for
//! every runtime and row, in an order that rotates, and reads the figure from what it started. Every figure is
//! therefore a fresh process's, and none finds the heap that another has left.

mod bell;
mod director;
mod load;
mod on_mainspring;
mod on_monoio;
mod on_smol;
mod on_tokio;
mod process;
mod rows;
mod table;
mod timers;
mod turns;

use rows::{Row, Runtime};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// A task that joins, and how many are alive at a time.
const TASKS: usize = 1_000;
const TASK_BATCHES: usize = 50;
/// Tasks that give way to each other, and how often each does.
const YIELDERS: usize = 100;
const YIELDS: usize = 1_000;
const TIMERS: usize = 1_000_000;
const ROUND_TRIPS: usize = 100_000;
const WAKE_UPS: u64 = 10_000;
/// What a connection reads into.
const BUFFER: usize = 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--measure", runtime, row] => {
            process::prepare_measured();
            match (Runtime::named(runtime), Row::named(row)) {
                (Some(runtime), Some(row)) => match measure(runtime, row) {
                    Some(nanos) => println!("{nanos}"),
                    None => println!("none"),
                },
                _ => process::fail("no such runtime or row"),
            }
        }
        ["--serve", runtime] => {
            process::prepare_measured();
            match Runtime::named(runtime) {
                Some(runtime) => serve(runtime),
                None => process::fail("no such runtime"),
            }
        }
        others => director::run(&director::Options::from(others)),
    }
}

/// Nanoseconds for one operation: the best of a few times, the first of which is to get warm. `None` if the runtime has
/// nothing of the kind.
fn measure(runtime: Runtime, row: Row) -> Option<f64> {
    let (operations, times) = match row {
        Row::SpawnJoin => (TASKS * TASK_BATCHES, 4),
        Row::Yield => (YIELDERS * YIELDS, 4),
        Row::Timers => (TIMERS, 2),
        Row::Channel => (ROUND_TRIPS, 4),
        Row::WakeUp => (WAKE_UPS as usize, 3),
        Row::Echo(_) | Row::Memory => process::fail("that is measured from outside"),
    };
    let once = || match runtime {
        Runtime::Mainspring => on_mainspring::work(row),
        Runtime::Tokio => on_tokio::work(row),
        Runtime::Smol => on_smol::work(row),
        Runtime::Monoio => on_monoio::work(row),
    };
    let best = (0..times).filter_map(|_| once()).min()?;
    Some(best.as_nanos() as f64 / operations as f64)
}

/// Echoes whatever comes, until it is killed.
fn serve(runtime: Runtime) {
    match runtime {
        Runtime::Mainspring => on_mainspring::serve(),
        Runtime::Tokio => on_tokio::serve(),
        Runtime::Smol => on_smol::serve(),
        Runtime::Monoio => on_monoio::serve(),
    }
}

/// Where servers listen: on a port that is free.
const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Tells the director where the server listens.
fn announce(address: SocketAddr) {
    println!("{}", address.port());
}

/// How long `work` takes. Called inside of a runtime that is up already.
async fn timed(work: impl Future<Output = ()>) -> std::time::Duration {
    let begun = Instant::now();
    work.await;
    begun.elapsed()
}
