//! Child processes and pipes of the Rust API, with real processes.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod commands;
mod connected_pipes;
mod descriptors;
mod dropping;
mod faults;
mod leaks;
mod piped;
mod protocols;
mod signalling;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with tests that use all of it")]
mod support;
mod waiting;

use mainspring::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process that runs until it is killed.
fn endless() -> Command {
    let mut command = Command::new("sleep");
    command.arg("100000").stdin(Stdio::null());
    command
}

/// Whether this process has a child with this id, including zombies.
fn is_our_child(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // "pid (name) state ppid"; the name may contain any character.
    let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
    parent == Some(std::process::id())
}

/// Waits until another thread has reaped the child. Nothing announces that, so it polls.
#[track_caller]
fn assert_is_reaped(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while is_our_child(pid) {
        assert!(Instant::now() < deadline, "process {pid} was not reaped");
        std::thread::yield_now();
    }
}

/// Waits until the process is a zombie, with a pidfd.
fn wait_for_zombie(child: &Child) {
    let pid = rustix::process::Pid::from_raw(child.pid().try_into().unwrap()).unwrap();
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let mut ended = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
    assert_eq!(rustix::event::poll(&mut ended, None).unwrap(), 1);
}
