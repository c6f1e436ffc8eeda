//! Keeps programs running: each is started again when it ends, after a pause that doubles as long as it ends soon.
//! Ctrl-C or SIGTERM ends them all, politely at first.
//!
//! `cargo run --example supervisor -- "sleep 5" "echo hello; exit 3"`

use mainspring::process::{Child, Command, ExitStatus, Stdio};
use mainspring::signal::{SignalKind, signal};
use mainspring::sync::Event;
use mainspring::time::now;
use mainspring::{Either, select, sleep, spawn, timeout};
use std::io;
use std::rc::Rc;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A program that ran for so long has not failed at once.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// How long a program has to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut scripts: Vec<String> = std::env::args().skip(1).collect();
    if scripts.is_empty() {
        scripts = vec!["echo at work; sleep 2".to_owned(), "exit 3".to_owned()];
    }
    mainspring::run(async move {
        let stop = Rc::new(Event::new());
        let keepers: Vec<_> =
            scripts.into_iter().map(|script| spawn(keep_running(script, Rc::clone(&stop)))).collect();
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        select(interrupt.recv(), terminate.recv()).await;
        println!("stopping");
        stop.set();
        for keeper in keepers {
            keeper.await.map_err(io::Error::other)?;
        }
        io::Result::Ok(())
    })??;
    Ok(())
}

/// Starts the program again and again, until it is time to stop.
async fn keep_running(script: String, stop: Rc<Event>) {
    let mut pause = FIRST_PAUSE;
    while !stop.is_set() {
        let started = now();
        match run_once(&script, &stop).await {
            Ok(status) => println!("`{script}` has ended: {status}"),
            Err(error) => println!("`{script}` cannot be run: {error}"),
        }
        if now() - started >= LONG_ENOUGH {
            pause = FIRST_PAUSE;
        }
        select(sleep(pause), stop.wait()).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs the program, until it ends or is ended because it is time to stop.
async fn run_once(script: &str, stop: &Event) -> io::Result<ExitStatus> {
    // In a group of its own, so that Ctrl-C is ours to pass on.
    let child = Command::shell(script).stdin(Stdio::null()).process_group(0).kill_on_drop(true).spawn()?;
    println!("`{script}` runs as process {}", child.pid());
    match select(child.wait(), stop.wait()).await {
        Either::First(ended) => ended,
        Either::Second(()) => end(&child).await,
    }
}

async fn end(child: &Child) -> io::Result<ExitStatus> {
    child.terminate()?;
    if timeout(GRACE, child.wait()).await.is_err() {
        child.kill().await?;
    }
    child.wait().await
}
