//! A round of an echo row: the servers of all runtimes at once, in short turns.
//!
//! All are up, with all their connections, and the client serves now one, now the other. So what changes on the machine within
//! seconds meets all of them alike; measured one after the other, that is more than what is between them. What they take
//! from each other is the caches: each finds them filled by the one before, and has some time to get warm.

use crate::director::{Figure, Server, as_client, on};
use crate::load::Load;
use crate::rows::Runtime;
use crate::table::median;
use std::io;
use std::thread;
use std::time::Duration;

/// How many turns each has in a round.
const TURNS: usize = 6;
/// A turn, and how long its server may get warm before.
const TURN: Duration = Duration::from_millis(60);
const WARM_UP: Duration = Duration::from_millis(15);
/// In which a server comes to rest.
const REST: Duration = Duration::from_millis(3);

/// What was measured of one of them, turn by turn.
struct Side<'a> {
    runtime: Runtime,
    server: &'a Server,
    load: Load,
    rates: Vec<f64>,
    /// Nanoseconds of the server's processor for one echo.
    cpu: Vec<f64>,
}

impl<'a> Side<'a> {
    fn new(runtime: Runtime, server: &'a Server, connections: usize) -> io::Result<Self> {
        let mut load = Load::new()?;
        load.connect(server.port, connections)?;
        load.start()?;
        Ok(Side { runtime, server, load, rates: Vec::new(), cpu: Vec::new() })
    }

    fn turn(&mut self) -> io::Result<()> {
        self.load.run(WARM_UP)?;
        let cpu = self.server.cpu_time();
        let echoed = self.load.run(TURN)?;
        let cpu = self.server.cpu_time() - cpu;
        self.rates.push(echoed.count as f64 / echoed.time.as_secs_f64());
        self.cpu.push(cpu.as_nanos() as f64 / echoed.count as f64);
        thread::sleep(REST);
        Ok(())
    }

    fn figure(&self) -> (Runtime, Figure) {
        (self.runtime, Figure { value: median(&self.rates), cpu: Some(median(&self.cpu)) })
    }
}

/// The medians of the turns of each.
pub fn round(runtimes: &[Runtime], connections: usize) -> io::Result<Vec<(Runtime, Figure)>> {
    let start = |&runtime: &Runtime| Ok((runtime, on(runtime, Server::start(runtime))?));
    let servers: Vec<_> = runtimes.iter().map(start).collect::<io::Result<_>>()?;
    as_client(|| {
        let sides =
            servers.iter().map(|(runtime, server)| on(*runtime, Side::new(*runtime, server, connections)));
        let mut sides: Vec<_> = sides.collect::<io::Result<_>>()?;
        for _ in 0..TURNS {
            sides.iter_mut().try_for_each(|side| on(side.runtime, side.turn()))?;
            // Nobody comes after the same one every time.
            sides.reverse();
        }
        Ok(sides.iter().map(Side::figure).collect())
    })
}
