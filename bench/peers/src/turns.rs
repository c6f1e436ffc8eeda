//! Two echo servers at once, in short turns: for rows where the machine's own changes are larger than the difference.
//!
//! Both servers are up, with all their connections, and the client serves now one, now the other. What changes within
//! seconds meets both alike. What they take from each other is the caches: each finds them filled by the other.

use crate::director::Server;
use crate::load::Load;
use crate::process;
use crate::rows::Runtime;
use crate::table::median;
use std::io;
use std::thread;
use std::time::Duration;

/// A turn, and how long its server may get warm before.
const TURN: Duration = Duration::from_millis(60);
const WARM_UP: Duration = Duration::from_millis(15);
/// In which a server comes to rest.
const REST: Duration = Duration::from_millis(3);

/// What was measured of one of them, turn by turn.
struct Side {
    server: Server,
    load: Load,
    rates: Vec<f64>,
    /// Nanoseconds of the server's processor for one echo.
    cpu: Vec<f64>,
}

impl Side {
    fn new(server: Server, connections: usize) -> io::Result<Self> {
        let mut load = Load::new()?;
        load.connect(server.port, connections)?;
        load.start()?;
        Ok(Side { server, load, rates: Vec::new(), cpu: Vec::new() })
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
}

/// Prints what the first of the two makes of so many turns beside the second.
pub fn run(runtimes: [Runtime; 2], connections: usize, turns: usize) -> io::Result<()> {
    let [first, second] = runtimes.map(Server::start);
    let servers = (first?, second?);
    // Not before they are started: they would inherit it, and share the client's processor.
    process::pin(1);
    let (mut first, mut second) = (Side::new(servers.0, connections)?, Side::new(servers.1, connections)?);
    for turn in 0..turns {
        // Who begins has no advantage of it.
        let order = if turn % 2 == 0 { [&mut first, &mut second] } else { [&mut second, &mut first] };
        for side in order {
            side.turn()?;
        }
    }
    let [one, other] = runtimes.map(Runtime::name);
    let ratio = |one: &[f64], other: &[f64]| {
        median(&one.iter().zip(other).map(|(one, other)| one / other).collect::<Vec<_>>())
    };
    println!("{connections} connections, {turns} turns: {one} beside {other}, medians");
    println!(
        "echoes/s {:.0} beside {:.0}, ratio {:.3}",
        median(&first.rates),
        median(&second.rates),
        ratio(&first.rates, &second.rates)
    );
    println!(
        "processor's time for an echo, ns {:.0} beside {:.0}, ratio {:.3}",
        median(&first.cpu),
        median(&second.cpu),
        ratio(&first.cpu, &second.cpu)
    );
    Ok(())
}
