//! The runner: measures all runtimes on all rows, round by round, and prints the table.

use crate::load::Load;
use crate::process;
use crate::rows::{Row, Runtime};
use crate::slices;
use crate::table::Table;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of idle connections of the memory row.
const IDLE_CONNECTIONS: usize = 2_000;
/// Without `--rounds`, no round starts that would end after this time.
const MAX_RUN_TIME: Duration = Duration::from_secs(225);
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
                _ => process::fail("usage: [--rounds N] [--only PART-OF-ROW-NAME] [--beside RUNTIME]"),
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
    process::prepare_runner();
    let mut table = Table::new(&rows);
    let start = Instant::now();
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
        eprint!("\rround {} of {rounds}, {} s ", round + 1, start.elapsed().as_secs());
        let one_more = start.elapsed() + start.elapsed() / (round as u32 + 1);
        if options.rounds.is_none() && one_more > MAX_RUN_TIME {
            break;
        }
    }
    eprintln!();
    print!("{table}");
}

/// The result of one measured process.
pub struct Figure {
    pub value: f64,
    /// Server CPU time per echo, in nanoseconds.
    pub cpu: Option<f64>,
}

/// One figure per runtime, except for runtimes that lack the feature.
fn figures(runtimes: &[Runtime], row: Row) -> io::Result<Vec<(Runtime, Figure)>> {
    if let Row::Echo(connections) = row {
        return slices::round(runtimes, connections);
    }
    let mut figures = Vec::new();
    for &runtime in runtimes {
        let figure = if row == Row::Memory { memory(runtime).map(Some) } else { measured(runtime, row) };
        figures.extend(name_errors(runtime, figure)?.map(|figure| (runtime, figure)));
    }
    Ok(figures)
}

/// Adds the name of the runtime to an error.
pub fn name_errors<T>(runtime: Runtime, outcome: io::Result<T>) -> io::Result<T> {
    outcome.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", runtime.name())))
}

/// Runs the client on its own CPU. Uses a new thread, because processes started later must not inherit the affinity.
pub fn run_client<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let client = || {
        process::pin(1);
        work()
    };
    let panicked = |_| Err(io::Error::other("the client panicked"));
    thread::scope(|scope| scope.spawn(client).join()).unwrap_or_else(panicked)
}

fn measured(runtime: Runtime, row: Row) -> io::Result<Option<Figure>> {
    let output =
        own_command(&["--measure", runtime.name(), row.name()])?.stderr(Stdio::inherit()).output()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "none" => Ok(None),
        figure => match figure.parse() {
            Ok(value) => Ok(Some(Figure { value, cpu: None })),
            Err(_) => Err(io::Error::other("the measured process printed no figure")),
        },
    }
}

fn memory(runtime: Runtime) -> io::Result<Figure> {
    let server = Server::start(runtime)?;
    run_client(|| {
        let mut load = Load::new()?;
        // The first connections cause one-time allocations.
        load.connect(server.port, 8)?;
        let before = server.memory();
        load.connect(server.port, IDLE_CONNECTIONS)?;
        let value = server.memory().saturating_sub(before) as f64 / IDLE_CONNECTIONS as f64;
        Ok(Figure { value, cpu: None })
    })
}

fn own_command(arguments: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// An echo server in its own process. Drop kills it.
pub struct Server {
    process: Child,
    pub port: u16,
}

impl Server {
    pub fn start(runtime: Runtime) -> io::Result<Self> {
        let mut process = own_command(&["--serve", runtime.name()])?.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(port) => Ok(Server { process, port }),
            Err(_) => Err(io::Error::other("the server printed no port")),
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
        // `kill` fails if the process has exited; `wait` reaps it in any case.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
