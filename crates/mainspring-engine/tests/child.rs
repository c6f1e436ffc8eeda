//! Real children, watched with a pidfd or with a thread.
#![cfg(not(loom))]
// The watch reaps the children here, which the lint cannot see.
#![allow(clippy::zombie_processes)]

#[macro_use]
extern crate test_support;

use std::io;
use std::process::{Child, Command, Stdio};

use mainspring_engine::child::{ChildExit, ChildWatch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

type Open = fn(i32) -> io::Result<ChildWatch>;

const OPEN_FUNCTIONS: [Open; 2] = [ChildWatch::open, ChildWatch::open_with_thread];

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

fn shell(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
}

/// A child that runs until the test closes its stdin.
fn runs_until_closed() -> Child {
    shell("read line; exit 7")
}

fn is_readable(watch: &ChildWatch, timeout: Option<&Timespec>) -> bool {
    poll(&mut [PollFd::new(watch, PollFlags::IN)], timeout).unwrap() == 1
}

/// Waits for the fd to become readable, then reaps.
fn wait_for_exit(watch: &ChildWatch) -> ChildExit {
    assert!(is_readable(watch, None));
    watch.try_wait().unwrap().unwrap()
}

fn exists(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

#[test]
fn an_exited_child_has_its_status() {
    for open in OPEN_FUNCTIONS {
        for (script, status) in [("exit 0", 0), ("exit 3", 3), ("exit 255", 255)] {
            let exit = wait_for_exit(&open(pid_of(&shell(script))).unwrap());
            assert_eq!(exit, ChildExit::Exited(status));
            assert_eq!(exit.returncode(), status);
        }
    }
}

#[test]
fn a_killed_child_has_the_negative_signal_number() {
    for open in OPEN_FUNCTIONS {
        for signal in [Signal::TERM, Signal::KILL, Signal::ABORT] {
            let child = runs_until_closed();
            let watch = open(pid_of(&child)).unwrap();
            kill_process(Pid::from_child(&child), signal).unwrap();
            let exit = wait_for_exit(&watch);
            assert_eq!(exit, ChildExit::Signaled(signal.as_raw()));
            assert_eq!(exit.returncode(), -signal.as_raw());
        }
    }
}

#[test]
fn peeking_at_the_exit_does_not_reap() {
    for open in OPEN_FUNCTIONS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert_eq!(watch.look().unwrap(), None);
        drop(child.stdin.take());
        assert!(is_readable(&watch, None));
        for _ in 0..2 {
            assert_eq!(watch.look().unwrap(), Some(ChildExit::Exited(7)));
        }
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(watch.look().unwrap(), Some(ChildExit::Unknown));
    }
}

#[test]
fn a_running_child_is_not_readable_and_has_no_status() {
    for open in OPEN_FUNCTIONS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert_eq!(watch.pid(), pid_of(&child));
        assert!(!is_readable(&watch, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })));
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child.stdin.take());
        assert_eq!(wait_for_exit(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn a_stopped_child_has_not_exited() {
    for open in OPEN_FUNCTIONS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child.stdin.take());
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        assert_eq!(wait_for_exit(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn a_child_keeps_its_pid_until_it_is_reaped() {
    for open in OPEN_FUNCTIONS {
        let watch = open(pid_of(&shell("exit 3"))).unwrap();
        assert!(is_readable(&watch, None));
        assert!(exists(watch.pid()));
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Exited(3)));
        assert!(!exists(watch.pid()));
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Exited(3)));
    }
}

#[test]
fn a_child_that_exited_before_the_watch_is_seen() {
    for open in OPEN_FUNCTIONS {
        let child = shell("exit 4");
        // Readable when the child is a zombie. This first watch never reaps.
        let first = ChildWatch::open(pid_of(&child)).unwrap();
        assert!(is_readable(&first, None));
        drop(first);
        assert_eq!(wait_for_exit(&open(pid_of(&child)).unwrap()), ChildExit::Exited(4));
    }
}

#[test]
fn a_child_reaped_elsewhere_has_an_unknown_status() {
    for open in OPEN_FUNCTIONS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        let exit = wait_for_exit(&watch);
        assert_eq!(exit, ChildExit::Unknown);
        assert_eq!(exit.returncode(), 255);

        let late = open(pid_of(&child)).unwrap();
        assert_eq!(wait_for_exit(&late), ChildExit::Unknown);
    }
}

#[test]
fn watching_one_child_does_not_reap_another() {
    for open in OPEN_FUNCTIONS {
        let mut other = shell("exit 5");
        assert_eq!(wait_for_exit(&open(pid_of(&shell("exit 6"))).unwrap()), ChildExit::Exited(6));
        drop(other.stdin.take());
        assert_eq!(other.wait().unwrap().code(), Some(5));
    }
}

#[test]
fn no_signal_is_sent_after_the_child_was_reaped() {
    for open in OPEN_FUNCTIONS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert!(watch.send_signal(Signal::CONT.as_raw()).unwrap());
        assert!(watch.send_signal(Signal::TERM.as_raw()).unwrap());
        assert!(is_readable(&watch, None));
        // A zombie still has its pid and accepts the signal.
        assert!(watch.send_signal(Signal::KILL.as_raw()).unwrap());
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Signaled(Signal::TERM.as_raw())));
        assert!(!watch.send_signal(Signal::KILL.as_raw()).unwrap());
    }
}

#[test]
fn no_signal_is_sent_to_a_child_reaped_elsewhere() {
    for open in OPEN_FUNCTIONS {
        let mut child = shell("exit 0");
        let watch = open(pid_of(&child)).unwrap();
        child.wait().unwrap();
        assert!(!watch.send_signal(Signal::TERM.as_raw()).unwrap());
    }
}

#[test]
fn a_forked_process_sends_no_signal_to_children_of_its_parent() {
    for open in OPEN_FUNCTIONS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        // SAFETY: the child process only makes system calls and exits; it allocates nothing and takes no lock.
        let sent = match unsafe { libc::fork() } {
            0 => {
                let sent = watch.send_signal(libc::SIGKILL);
                // SAFETY: exits at once, without the exit handlers of the test process.
                unsafe { libc::_exit(if matches!(sent, Ok(false)) { 0 } else { 1 }) }
            }
            copy => wait_for_exit(&ChildWatch::open(copy).unwrap()),
        };
        assert_eq!(sent, ChildExit::Exited(0));
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child);
        assert_eq!(wait_for_exit(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn real_time_signals_are_sent_and_invalid_numbers_are_refused() {
    for open in OPEN_FUNCTIONS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        for signum in [0, -1, 32, 65] {
            assert_eq!(watch.send_signal(signum).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(watch.send_signal(libc::SIGRTMIN()).unwrap());
        assert_eq!(wait_for_exit(&watch), ChildExit::Signaled(libc::SIGRTMIN()));
        assert!(!watch.has_dumped_core());
    }
}

#[test]
fn invalid_pids_are_refused() {
    for open in OPEN_FUNCTIONS {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
