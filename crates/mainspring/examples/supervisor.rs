//! Keeps programs running: each is started again when it ends, after a pause that doubles as long as it ends soon.
//! Ctrl-C or SIGTERM ends them all, and whatever they have started, politely at first.
//!
//! `cargo run --example supervisor -- "sleep 5" "echo hello; exit 3"`

use mainspring::process::{Child, Command, ExitStatus, Stdio};
use mainspring::signal::{SignalKind, signal};
use mainspring::sync::Event;
use mainspring::time::now;
use mainspring::{Either, select, sleep, spawn, timeout};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::io;
use std::rc::Rc;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A program that ran for so long has not failed at once.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// How long a program has to end before it is killed, with all it has started.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

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

/// Runs the program, until it ends or is ended because it is time to stop. Whatever it has started goes with it.
async fn run_once(script: &str, stop: &Event) -> io::Result<ExitStatus> {
    // In a group of its own, so that Ctrl-C is ours to pass on.
    let child = Command::shell(script).stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Group::led_by(&child);
    println!("`{script}` runs as process {}", child.pid());
    if let Either::First(ended) = select(child.wait(), stop.wait()).await {
        return ended;
    }
    group.end().await;
    child.wait().await
}

/// A program and whatever it has started. What is left of them is killed when this is dropped.
///
/// The group's number is nobody else's as long as one of them lives.
struct Group(Option<Pid>);

impl Group {
    fn led_by(child: &Child) -> Self {
        Group(child.pid().try_into().ok().and_then(Pid::from_raw))
    }

    /// Asks all of them to end, and waits until they have or it is too long.
    async fn end(&self) {
        self.signal(Signal::TERM);
        let all_gone = async {
            // Of those that are not our own children the system does not tell.
            while self.0.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                sleep(LOOK_AGAIN).await;
            }
        };
        if timeout(GRACE, all_gone).await.is_err() {
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        // The error says that nobody is left.
        let _ = self.0.map(|group| kill_process_group(group, signal));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read};
    use std::path::PathBuf;

    /// Runs a script whose descriptor 3 is a pipe to us, and does `then` when it has written a line to it. Returns when all
    /// who have the pipe are gone.
    fn supervised(name: &str, script: &str, then: impl FnOnce(&Event) + 'static) -> io::Result<ExitStatus> {
        let pipe = temporary(name);
        let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
        assert!(made.success());
        let script = format!("exec 3>'{}'; {script}", pipe.display());
        let ended = mainspring::run(async move {
            let stop = Rc::new(Event::new());
            let running = spawn({
                let stop = Rc::clone(&stop);
                async move { run_once(&script, &stop).await }
            });
            let opened = pipe.clone();
            let (mut told, mut reader) = mainspring::to_thread(move || {
                let mut reader = BufReader::new(File::open(opened)?);
                let mut told = String::new();
                reader.read_line(&mut told)?;
                io::Result::Ok((told, reader))
            })
            .await
            .map_err(io::Error::other)??;
            std::fs::remove_file(&pipe)?;
            assert_eq!(told, "started\n");
            then(&stop);
            // The end of the pipe: nobody of the group is left. Who lives on says so before.
            let read = move || reader.read_to_string(&mut told).map(|_| told);
            assert_eq!(mainspring::to_thread(read).await.map_err(io::Error::other)??, "started\n");
            running.await.map_err(io::Error::other)?
        });
        ended.map_err(io::Error::other)?
    }

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("mainspring-supervisor-{name}-{}", std::process::id()))
    }

    #[test]
    fn what_a_script_has_started_is_ended_with_it() {
        let script = "(sleep 30; echo survived >&3) & echo started >&3; wait";
        let status = supervised("ended", script, Event::set).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn what_a_script_leaves_behind_goes_when_it_does() {
        let script = "trap '' TERM; (sleep 30; echo survived >&3) & echo started >&3; exit 3";
        let status = supervised("left", script, |_| {}).unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
