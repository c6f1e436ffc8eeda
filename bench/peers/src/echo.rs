//! The echo rows: all servers stand at once, and take turns of a few milliseconds.
//!
//! A machine is now faster, now slower, for seconds at a time. Turns this short meet every runtime with the same of it, so
//! the figures of one round can be compared, whatever those of another are; and the median of the turns leaves out those in
//! which something else had the processor.

use crate::director::{Figure, Server, beside};
use crate::load::{Echoed, Load};
use crate::rows::Runtime;
use crate::table::median;
use std::io;
use std::time::Duration;

/// How often each server's turn comes in a round...
const TURNS: usize = 16;
/// ...and how long it is watched then...
const TURN: Duration = Duration::from_millis(25);
/// ...after so much that is not counted: the replies that waited since the last turn, and caches.
const WARM_UP: Duration = Duration::from_millis(5);

/// One server under load.
struct Contestant {
    runtime: Runtime,
    server: Server,
    load: Load,
    /// Echoes in a second, of each turn.
    rates: Vec<f64>,
    /// Echoes of all turns, and the time of the server's processor for them: the kernel tells it too coarsely to compare
    /// turns by.
    count: u64,
    cpu: Duration,
}

impl Contestant {
    fn new(runtime: Runtime, server: Server, connections: usize) -> io::Result<Self> {
        let mut load = Load::new()?;
        load.connect(server.port, connections)?;
        load.start()?;
        Ok(Contestant { runtime, server, load, rates: Vec::new(), count: 0, cpu: Duration::ZERO })
    }

    fn take_turn(&mut self) -> io::Result<()> {
        self.load.run(WARM_UP)?;
        let cpu = self.server.cpu_time();
        let Echoed { count, time } = self.load.run(TURN)?;
        self.cpu += self.server.cpu_time() - cpu;
        self.count += count;
        self.rates.push(count as f64 / time.as_secs_f64());
        Ok(())
    }

    fn figure(&self) -> (Runtime, Figure) {
        let cpu = self.cpu.as_nanos() as f64 / self.count as f64;
        (self.runtime, Figure { value: median(&self.rates), cpu: Some(cpu) })
    }
}

/// Watches the servers of `runtimes`, each with so many connections.
pub fn measure(runtimes: &[Runtime], connections: usize) -> io::Result<Vec<(Runtime, Figure)>> {
    let servers = runtimes.iter().map(|&runtime| Ok((runtime, Server::start(runtime)?)));
    let servers = servers.collect::<io::Result<Vec<_>>>()?;
    beside(|| {
        let contestants = servers.into_iter();
        let contestants = contestants.map(|(runtime, server)| Contestant::new(runtime, server, connections));
        let mut contestants = contestants.collect::<io::Result<Vec<_>>>()?;
        for _ in 0..TURNS {
            contestants.iter_mut().try_for_each(Contestant::take_turn)?;
            // Nobody always follows the same.
            contestants.rotate_left(1);
        }
        Ok(contestants.iter().map(Contestant::figure).collect())
    })
}
