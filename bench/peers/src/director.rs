//! The director: who is measured when, and what comes of it.

use crate::load::Load;
use crate::process;
use crate::rows::{Row, Runtime};
use crate::table::Table;
use crate::turns;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long an echo row is watched, and how long it may get warm before.
const WATCHED: Duration = Duration::from_millis(400);
const WARM_UP: Duration = Duration::from_millis(100);
/// How many connections are idle in the row of the memory.
const IDLE: usize = 2_000;
/// A run that was not asked for rounds begins none that would end after this.
const ENOUGH: Duration = Duration::from_secs(225);
const ROUNDS: usize = 15;
/// More would take longer than a server lives.
const MAX_TURNS: usize = 300;

#[derive(Default)]
pub struct Options {
    rounds: Option<usize>,
    only: Option<String>,
    beside: Option<Runtime>,
    turns: Option<usize>,
}

impl From<&[&str]> for Options {
    fn from(arguments: &[&str]) -> Self {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match (*argument, arguments.next()) {
                ("--rounds", Some(rounds)) => options.rounds = rounds.parse().ok(),
                ("--turns", Some(turns))
                    if turns.parse::<usize>().is_ok_and(|turns| (1..=MAX_TURNS).contains(&turns)) =>
                {
                    options.turns = turns.parse().ok();
                }
                ("--only", Some(only)) => options.only = Some((*only).to_owned()),
                ("--beside", Some(name)) if Runtime::named(name).is_some() => {
                    options.beside = Runtime::named(name);
                }
                _ => process::fail(
                    "usage: [--rounds N] [--only PART-OF-A-ROW'S-NAME] [--beside RUNTIME] [--turns N, of 300]",
                ),
            }
        }
        options
    }
}

pub fn run(options: &Options) {
    let wanted = |row: &Row| match &options.only {
        Some(name) if Row::named(name).is_some() => row.name() == name,
        Some(part) => row.name().contains(part.as_str()),
        None => true,
    };
    let is_measured = |runtime: Runtime| match options.beside {
        Some(peer) => runtime == Runtime::Mainspring || runtime == peer,
        None => true,
    };
    let rows: Vec<Row> = Row::ALL.into_iter().filter(wanted).collect();
    process::prepare_director();
    if let Some(turns) = options.turns {
        return in_turns(&rows, options.beside.unwrap_or(Runtime::Tokio), turns);
    }
    let mut table = Table::new(&rows);
    let begun = Instant::now();
    let rounds = options.rounds.unwrap_or(ROUNDS);
    for round in 0..rounds {
        for &row in &rows {
            for turn in 0..Runtime::ALL.len() {
                let runtime = Runtime::ALL[(turn + round) % Runtime::ALL.len()];
                if !is_measured(runtime) {
                    continue;
                }
                match figure(runtime, row) {
                    Ok(Some(figure)) => table.add(row, runtime, figure),
                    Ok(None) => {}
                    Err(error) => process::fail(&format!("{} on {}: {error}", row.title(), runtime.name())),
                }
            }
        }
        eprint!("\rround {} of {rounds}, {} s ", round + 1, begun.elapsed().as_secs());
        let one_more = begun.elapsed() + begun.elapsed() / (round as u32 + 1);
        if options.rounds.is_none() && one_more > ENOUGH {
            break;
        }
    }
    eprintln!();
    print!("{table}");
}

/// Measures the echo rows by [`turns`] instead.
fn in_turns(rows: &[Row], beside: Runtime, count: usize) {
    let connections = rows.iter().filter_map(|row| match row {
        Row::Echo(connections) => Some(*connections),
        _ => None,
    });
    for connections in connections {
        // On a thread of its own for the sake of its processor.
        let client = move || turns::run([Runtime::Mainspring, beside], connections, count);
        let outcome = thread::spawn(client).join();
        if !matches!(outcome, Ok(Ok(()))) {
            process::fail(&format!("{connections} connections in turns: {outcome:?}"));
        }
    }
}

/// What one process measured, or what was measured of it.
pub struct Figure {
    pub value: f64,
    /// Nanoseconds of the server's processor for one echo.
    pub cpu: Option<f64>,
}

/// `None` if the runtime has nothing of the kind.
fn figure(runtime: Runtime, row: Row) -> io::Result<Option<Figure>> {
    // The client has a thread of its own for the sake of its processor, which the servers must not inherit.
    let beside = |measure: &(dyn Fn(&Server) -> io::Result<Figure> + Sync)| {
        let server = Server::start(runtime)?;
        let client = || {
            process::pin(1);
            measure(&server).map(Some)
        };
        let panicked = |_| Err(io::Error::other("the client panicked"));
        thread::scope(|scope| scope.spawn(client).join()).unwrap_or_else(panicked)
    };
    match row {
        Row::Echo(connections) => beside(&|server| echo(server, connections)),
        Row::Memory => beside(&memory),
        row => measured(runtime, row),
    }
}

fn measured(runtime: Runtime, row: Row) -> io::Result<Option<Figure>> {
    let output = myself(&["--measure", runtime.name(), row.name()])?.stderr(Stdio::inherit()).output()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "none" => Ok(None),
        figure => match figure.parse() {
            Ok(value) => Ok(Some(Figure { value, cpu: None })),
            Err(_) => Err(io::Error::other("the measurement gave no figure")),
        },
    }
}

fn echo(server: &Server, connections: usize) -> io::Result<Figure> {
    let mut load = Load::new()?;
    load.connect(server.port, connections)?;
    load.start()?;
    load.run(WARM_UP)?;
    let cpu = server.cpu_time();
    let echoed = load.run(WATCHED)?;
    let cpu = server.cpu_time() - cpu;
    let value = echoed.count as f64 / echoed.time.as_secs_f64();
    Ok(Figure { value, cpu: Some(cpu.as_nanos() as f64 / echoed.count as f64) })
}

fn memory(server: &Server) -> io::Result<Figure> {
    let mut load = Load::new()?;
    // The first ones bring in what is there once.
    load.connect(server.port, 8)?;
    let before = server.memory();
    load.connect(server.port, IDLE)?;
    let value = server.memory().saturating_sub(before) as f64 / IDLE as f64;
    Ok(Figure { value, cpu: None })
}

fn myself(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// An echo server in a process of its own, which ends with this.
pub struct Server {
    process: Child,
    pub port: u16,
}

impl Server {
    pub fn start(runtime: Runtime) -> io::Result<Self> {
        let mut process = myself(&["--serve", runtime.name()])?.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(port) => Ok(Server { process, port }),
            Err(_) => Err(io::Error::other("the server did not say its port")),
        }
    }

    pub fn cpu_time(&self) -> Duration {
        process::cpu_time(self.process.id())
    }

    fn memory(&self) -> u64 {
        process::memory(self.process.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, and is collected either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
