//! A round of an echo row: the servers of all runtimes run at once and are measured in short slices.
//!
//! All connections stay open, and the client drives one server after the other. So changes of the machine within seconds
//! affect all runtimes alike; these changes are larger than the differences between the runtimes. The servers share the
//! CPU caches, so each slice starts with a warm-up.

use crate::load::Load;
use crate::rows::Runtime;
use crate::runner::{Figure, Server, name_errors, run_client};
use crate::table::median;
use std::io;
use std::thread;
use std::time::Duration;

/// The slices of each server in a round.
const SLICES: usize = 6;
/// The length of a slice, and of the warm-up before it.
const SLICE: Duration = Duration::from_millis(60);
const WARM_UP: Duration = Duration::from_millis(15);
/// The pause after a slice, in which the server becomes idle.
const PAUSE: Duration = Duration::from_millis(3);

/// One server and its figures, one per slice.
struct Measured<'a> {
    runtime: Runtime,
    server: &'a Server,
    load: Load,
    rates: Vec<f64>,
    /// Server CPU time per echo, in nanoseconds.
    cpu: Vec<f64>,
}

impl<'a> Measured<'a> {
    fn new(runtime: Runtime, server: &'a Server, connections: usize) -> io::Result<Self> {
        let mut load = Load::new()?;
        load.connect(server.port, connections)?;
        load.start()?;
        Ok(Measured { runtime, server, load, rates: Vec::new(), cpu: Vec::new() })
    }

    fn run_slice(&mut self) -> io::Result<()> {
        self.load.run(WARM_UP)?;
        let cpu = self.server.cpu_time();
        let echoed = self.load.run(SLICE)?;
        let cpu = self.server.cpu_time() - cpu;
        self.rates.push(echoed.count as f64 / echoed.time.as_secs_f64());
        self.cpu.push(cpu.as_nanos() as f64 / echoed.count as f64);
        thread::sleep(PAUSE);
        Ok(())
    }

    fn figure(&self) -> (Runtime, Figure) {
        (self.runtime, Figure { value: median(&self.rates), cpu: Some(median(&self.cpu)) })
    }
}

/// Returns the medians of the slices of each runtime.
pub fn round(runtimes: &[Runtime], connections: usize) -> io::Result<Vec<(Runtime, Figure)>> {
    let start = |&runtime: &Runtime| Ok((runtime, name_errors(runtime, Server::start(runtime))?));
    let servers: Vec<_> = runtimes.iter().map(start).collect::<io::Result<_>>()?;
    run_client(|| {
        let all = servers
            .iter()
            .map(|(runtime, server)| name_errors(*runtime, Measured::new(*runtime, server, connections)));
        let mut all: Vec<_> = all.collect::<io::Result<_>>()?;
        for _ in 0..SLICES {
            all.iter_mut().try_for_each(|measured| name_errors(measured.runtime, measured.run_slice()))?;
            // So that no server always follows the same one.
            all.reverse();
        }
        Ok(all.iter().map(Measured::figure).collect())
    })
}
