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

/// How many connections are idle in the row of the memory.
const IDLE: usize = 2_000;
/// A run that was not asked for rounds begins none that would end after this.
const ENOUGH: Duration = Duration::from_secs(225);
const ROUNDS: usize = 15;

#[derive(Default)]
pub struct Options {
    rounds: Option<usize>,
    only: Option<String>,
    beside: Option<Runtime>,
}

impl From<&[&str]> for Options {
    fn from(arguments: &[&str]) -> Self {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match (*argument, arguments.next()) {
                ("--rounds", Some(rounds)) => options.rounds = rounds.parse().ok(),
                ("--only", Some(only)) => options.only = Some((*only).to_owned()),
                ("--beside", Some(name)) if Runtime::named(name).is_some() => {
                    options.beside = Runtime::named(name);
                }
                _ => process::fail("usage: [--rounds N] [--only PART-OF-A-ROW'S-NAME] [--beside RUNTIME]"),
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
    let mut table = Table::new(&rows);
    let begun = Instant::now();
    let rounds = options.rounds.unwrap_or(ROUNDS);
    for round in 0..rounds {
        for &row in &rows {
            let mut runtimes = Runtime::ALL;
            runtimes.rotate_left(round % Runtime::ALL.len());
            let runtimes: Vec<_> = runtimes.into_iter().filter(|&runtime| is_measured(runtime)).collect();
            match figures(&runtimes, row) {
                Ok(figures) => {
                    figures.into_iter().for_each(|(runtime, figure)| table.add(row, runtime, figure))
                }
                Err(error) => process::fail(&format!("{}: {error}", row.title())),
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

/// What one process measured, or what was measured of it.
pub struct Figure {
    pub value: f64,
    /// Nanoseconds of the server's processor for one echo.
    pub cpu: Option<f64>,
}

/// One for each runtime, but for those that have nothing of the kind.
fn figures(runtimes: &[Runtime], row: Row) -> io::Result<Vec<(Runtime, Figure)>> {
    if let Row::Echo(connections) = row {
        return turns::round(runtimes, connections);
    }
    let mut figures = Vec::new();
    for &runtime in runtimes {
        let figure = if row == Row::Memory { memory(runtime).map(Some) } else { measured(runtime, row) };
        figures.extend(on(runtime, figure)?.map(|figure| (runtime, figure)));
    }
    Ok(figures)
}

/// What went wrong, with the name of whom it went wrong on.
pub fn on<T>(runtime: Runtime, outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", runtime.name())))
}

/// Runs what a client does on its own processor: on a thread of its own, for those who are started later must not inherit it.
pub fn as_client<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let client = || {
        process::pin(1);
        work()
    };
    let panicked = |_| Err(io::Error::other("the client panicked"));
    thread::scope(|scope| scope.spawn(client).join()).unwrap_or_else(panicked)
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

fn memory(runtime: Runtime) -> io::Result<Figure> {
    let server = Server::start(runtime)?;
    as_client(|| {
        let mut load = Load::new()?;
        // The first ones bring in what is there once.
        load.connect(server.port, 8)?;
        let before = server.memory();
        load.connect(server.port, IDLE)?;
        let value = server.memory().saturating_sub(before) as f64 / IDLE as f64;
        Ok(Figure { value, cpu: None })
    })
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
