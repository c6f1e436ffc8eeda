//! The echo rows: all servers stand at once, and take turns of a few milliseconds.
//!
//! A machine is now faster, now slower, for seconds at a time. Turns this short meet every runtime with the same of it, so
//! the figures of one round can be compared, whatever those of another are.

use crate::director::{Figure, Server, beside};
use crate::load::{Echoed, Load};
use crate::rows::Runtime;
use std::io;
use std::time::Duration;

/// How long each server is watched in a round...
const WATCHED: Duration = Duration::from_millis(400);
/// ...in turns of this length...
const TURN: Duration = Duration::from_millis(25);
/// ...each of which begins with so much that is not counted: the replies that waited since the last one, and caches.
const WARM_UP: Duration = Duration::from_millis(5);

/// One server under load.
struct Contestant {
    runtime: Runtime,
    server: Server,
    load: Load,
    echoed: Echoed,
    cpu: Duration,
}

impl Contestant {
    fn new(runtime: Runtime, server: Server, connections: usize) -> io::Result<Self> {
        let mut load = Load::new()?;
        load.connect(server.port, connections)?;
        load.start()?;
        Ok(Contestant { runtime, server, load, echoed: Echoed::default(), cpu: Duration::ZERO })
    }

    fn take_turn(&mut self) -> io::Result<()> {
        self.load.run(WARM_UP)?;
        let cpu = self.server.cpu_time();
        let Echoed { count, time } = self.load.run(TURN)?;
        self.cpu += self.server.cpu_time() - cpu;
        self.echoed.count += count;
        self.echoed.time += time;
        Ok(())
    }

    fn figure(&self) -> (Runtime, Figure) {
        let count = self.echoed.count as f64;
        let value = count / self.echoed.time.as_secs_f64();
        (self.runtime, Figure { value, cpu: Some(self.cpu.as_nanos() as f64 / count) })
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
        while contestants.iter().any(|contestant| contestant.echoed.time < WATCHED) {
            contestants.iter_mut().try_for_each(Contestant::take_turn)?;
            // Nobody always follows the same.
            contestants.rotate_left(1);
        }
        Ok(contestants.iter().map(Contestant::figure).collect())
    })
}
