//! A process supervisor: restarts each program when it exits. The delay before a restart doubles while the program exits
//! quickly. Ctrl-C or SIGTERM ends all programs and their child processes, first with SIGTERM, then with SIGKILL.
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

const MIN_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The delay is reset after a run of this length.
const STABLE_RUN: Duration = Duration::from_secs(10);

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut scripts: Vec<String> = std::env::args().skip(1).collect();
    if scripts.is_empty() {
        scripts = vec!["echo working; sleep 2".to_owned(), "exit 3".to_owned()];
    }
    mainspring::run(async move {
        let stop = Rc::new(Event::new());
        let supervisors: Vec<_> =
            scripts.into_iter().map(|script| spawn(keep_running(script, Rc::clone(&stop)))).collect();
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        select(interrupt.recv(), terminate.recv()).await;
        println!("stopping");
        stop.set();
        for supervisor in supervisors {
            supervisor.await.map_err(io::Error::other)?;
        }
        io::Result::Ok(())
    })??;
    Ok(())
}

/// Restarts the program until `stop` is set.
async fn keep_running(script: String, stop: Rc<Event>) {
    let mut delay = MIN_DELAY;
    while !stop.is_set() {
        let started = now();
        match run_once(&script, &stop).await {
            Ok(status) => println!("`{script}` exited: {status}"),
            Err(error) => println!("`{script}` failed to run: {error}"),
        }
        if now() - started >= STABLE_RUN {
            delay = MIN_DELAY;
        }
        select(sleep(delay), stop.wait()).await;
        delay = (delay * 2).min(MAX_DELAY);
    }
}

/// Runs the program until it exits or `stop` is set. Its child processes end with it.
async fn run_once(script: &str, stop: &Event) -> io::Result<ExitStatus> {
    // Its own process group, so that Ctrl-C reaches only the supervisor.
    let child = Command::shell(script).stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Group::led_by(&child);
    println!("`{script}` runs as process {}", child.pid());
    if let Either::First(ended) = select(child.wait(), stop.wait()).await {
        return ended;
    }
    group.end().await;
    child.wait().await
}

/// The process group of a program: the program and its child processes. Drop kills the remaining ones.
///
/// The group id is not reused while one of the processes lives.
struct Group(Option<Pid>);

impl Group {
    fn led_by(child: &Child) -> Self {
        Group(child.pid().try_into().ok().and_then(Pid::from_raw))
    }

    /// Sends SIGTERM and waits until all have exited; after `GRACE` sends SIGKILL.
    async fn end(&self) {
        self.signal(Signal::TERM);
        let all_exited = async {
            // The kernel does not report the exit of processes that are not our children.
            while self.0.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                sleep(POLL_INTERVAL).await;
            }
        };
        if timeout(GRACE, all_exited).await.is_err() {
            self.signal(Signal::KILL);
        }
    }

    fn signal(&self, signal: Signal) {
        // Fails if no process is left.
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

    /// Runs a script whose fd 3 is a pipe to the test, and calls `then` when it has written a line. Returns when all
    /// processes with the pipe have exited.
    fn supervised(name: &str, script: &str, then: impl FnOnce(&Event) + 'static) -> io::Result<ExitStatus> {
        let pipe = temporary(name);
        let created = std::process::Command::new("mkfifo").arg(&pipe).status()?;
        assert!(created.success());
        let script = format!("exec 3>'{}'; {script}", pipe.display());
        let ended = mainspring::run(async move {
            let stop = Rc::new(Event::new());
            let running = spawn({
                let stop = Rc::clone(&stop);
                async move { run_once(&script, &stop).await }
            });
            let opened = pipe.clone();
            let (mut output, mut reader) = mainspring::to_thread(move || {
                let mut reader = BufReader::new(File::open(opened)?);
                let mut output = String::new();
                reader.read_line(&mut output)?;
                io::Result::Ok((output, reader))
            })
            .await
            .map_err(io::Error::other)??;
            std::fs::remove_file(&pipe)?;
            assert_eq!(output, "started\n");
            then(&stop);
            // The pipe ends when no process of the group is left. A survivor writes a line before.
            let read = move || reader.read_to_string(&mut output).map(|_| output);
            assert_eq!(mainspring::to_thread(read).await.map_err(io::Error::other)??, "started\n");
            running.await.map_err(io::Error::other)?
        });
        ended.map_err(io::Error::other)?
    }

    fn temporary(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("mainspring-supervisor-{name}-{}", std::process::id()))
    }

    #[test]
    fn stopping_a_script_ends_its_child_processes() {
        let script = "(sleep 30; echo survived >&3) & echo started >&3; wait";
        let status = supervised("ended", script, Event::set).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn child_processes_that_outlive_a_script_are_killed() {
        let script = "trap '' TERM; (sleep 30; echo survived >&3) & echo started >&3; exit 3";
        let status = supervised("left", script, |_| {}).unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
