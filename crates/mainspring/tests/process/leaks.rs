//! No leaks of fds, threads or children. Counted in a separate process, so that other tests do not interfere.

use crate::endless;
use crate::support::{new_loop, run_on};
use mainspring::EventLoop;
use mainspring::pipe::{reader, writer};
use mainspring::process::{Command, Stdio, SubprocessProtocol};
use mainspring::signal::{SignalKind, signal};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const MARK: &str = "MAINSPRING_LEAKS";

#[test]
fn no_fd_thread_or_child_is_leaked() {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leaks::leak_program", "--nocapture", "--quiet"])
        .env(MARK, "1")
        .stdin(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

/// Not a test: the program that the test above runs.
#[test]
fn leak_program() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let threads = threads().len();
    // The first round creates resources that live as long as the process.
    use_every_feature();
    let before = fds_after_cleanup(threads);
    for _ in 0..10 {
        use_every_feature();
    }
    assert_eq!(fds_after_cleanup(threads), before);
}

fn threads() -> Vec<PathBuf> {
    fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path()).collect()
}

/// Waits until the last child is reaped and the reaper thread has ended: the number of threads is `threads` again.
fn fds_after_cleanup(threads_before: usize) -> usize {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let threads = threads();
        let children = |thread: &PathBuf| fs::read_to_string(thread.join("children")).unwrap_or_default();
        let children: String = threads.iter().map(children).collect();
        if children.is_empty() && threads.len() == threads_before {
            return fs::read_dir("/proc/self/fd").unwrap().count();
        }
        assert!(Instant::now() < deadline, "not cleaned up: {children} {threads:?}");
        std::thread::yield_now();
    }
}

struct Quiet;
impl SubprocessProtocol for Quiet {}

fn use_every_feature() {
    let event_loop = new_loop();
    let left_running = run_on(&event_loop, use_processes(&event_loop));
    let (transport, _) = run_on(&event_loop, event_loop.subprocess_exec(&mut endless(), || Quiet)).unwrap();
    transport.kill().unwrap();
    event_loop.shutdown_executor();
    event_loop.close().unwrap();
    drop((transport, left_running));
}

async fn use_processes(event_loop: &EventLoop) -> mainspring::process::Child {
    let mut child = piped("cat").spawn().unwrap();
    child.communicate(Some(b"hello")).await.unwrap();
    // Unread pipes, a killed process, and a process that exits by itself.
    drop(piped("yes").spawn().unwrap());
    drop(piped("yes").kill_on_drop(true).spawn().unwrap());
    drop(piped("cat").spawn().unwrap());
    drop(piped("cat").output());
    assert!(Command::new("/there/is/no/such/program").spawn().is_err());
    let started = event_loop.subprocess_exec(&mut Command::new("true"), || Quiet);
    started.await.unwrap();
    drop(event_loop.subprocess_exec(&mut endless(), || Quiet));
    drop(signal(SignalKind::user_defined1()).unwrap());
    let (read, write) = std::io::pipe().unwrap();
    drop((reader(read).unwrap(), writer(write).unwrap()));
    drop(reader(fs::File::open("/dev/null").unwrap()).unwrap());
    writer(fs::File::create("/dev/null").unwrap()).unwrap().write(b"gone");
    endless().kill_on_drop(true).spawn().unwrap()
}

fn piped(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}
