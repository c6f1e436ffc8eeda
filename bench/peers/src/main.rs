//! Compares mainspring with tokio, smol and monoio: the same work, one thread each, interleaved.
//!
//! `cargo bench -p mainspring --bench peers`; `-- --rounds 40` for more rounds, `-- --only echo` for some rows.
//! `docs/peers.md` describes the rows and the method.
//!
//! The program is both the runner and the measured process. As the runner, it starts itself once per round for every
//! runtime and row, in rotating order, and reads the figure from the child's output. So every figure comes from a fresh
//! process with a clean heap.

mod load;
mod on_mainspring;
mod on_monoio;
mod on_smol;
mod on_tokio;
mod process;
mod rows;
mod runner;
mod slices;
mod table;
mod thread_wake;
mod timers;

use rows::{Row, Runtime};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

/// The number of tasks alive at a time, and the number of such batches.
const TASKS: usize = 1_000;
const TASK_BATCHES: usize = 50;
/// The number of tasks that yield, and how often each does.
const YIELDERS: usize = 100;
const YIELDS: usize = 1_000;
const TIMERS: usize = 1_000_000;
const ROUND_TRIPS: usize = 100_000;
const WAKE_UPS: u64 = 10_000;
/// The size of a connection's receive buffer.
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
        others => runner::run(&runner::Options::from(others)),
    }
}

/// Nanoseconds per operation: the best of several repetitions, the first of which is a warm-up. `None` if the runtime
/// lacks the feature.
fn measure(runtime: Runtime, row: Row) -> Option<f64> {
    let (operations, times) = match row {
        Row::SpawnJoin => (TASKS * TASK_BATCHES, 4),
        Row::Yield => (YIELDERS * YIELDS, 4),
        Row::Timers => (TIMERS, 2),
        Row::Channel => (ROUND_TRIPS, 4),
        Row::WakeUp => (WAKE_UPS as usize, 3),
        Row::Echo(_) | Row::Memory => process::fail("this row is measured by the runner"),
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

/// Runs an echo server until the process is killed.
fn serve(runtime: Runtime) {
    match runtime {
        Runtime::Mainspring => on_mainspring::serve(),
        Runtime::Tokio => on_tokio::serve(),
        Runtime::Smol => on_smol::serve(),
        Runtime::Monoio => on_monoio::serve(),
    }
}

/// The address of servers: any free port.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Prints the port of the server for the runner.
fn print_port(address: SocketAddr) {
    println!("{}", address.port());
}

/// The time that `work` takes, inside a running runtime.
async fn timed(work: impl Future<Output = ()>) -> std::time::Duration {
    let start = Instant::now();
    work.await;
    start.elapsed()
}
