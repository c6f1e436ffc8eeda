//! Real children, watched with a pidfd and with a thread.
#![cfg(not(loom))]
// It is the watch that waits for them here, which the lint cannot know.
#![allow(clippy::zombie_processes)]

#[macro_use]
extern crate test_support;

use std::io;
use std::process::{Child, Command, Stdio};

use mainspring_engine::child::{ChildExit, ChildWatch};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

type Open = fn(i32) -> io::Result<ChildWatch>;

const WAYS: [Open; 2] = [ChildWatch::open, ChildWatch::open_with_thread];

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

fn shell(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()
}

/// A child that runs until its standard input, which the test holds, is closed.
fn runs_until_closed() -> Child {
    shell("read line; exit 7")
}

fn is_readable(watch: &ChildWatch, timeout: Option<&Timespec>) -> bool {
    poll(&mut [PollFd::new(watch, PollFlags::IN)], timeout).unwrap() == 1
}

/// Waits on the descriptor, then reaps.
fn end_of(watch: &ChildWatch) -> ChildExit {
    assert!(is_readable(watch, None));
    watch.try_wait().unwrap().unwrap()
}

fn exists(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

#[test]
fn a_child_that_exits_gives_its_status() {
    for open in WAYS {
        for (script, status) in [("exit 0", 0), ("exit 3", 3), ("exit 255", 255)] {
            let exit = end_of(&open(pid_of(&shell(script))).unwrap());
            assert_eq!(exit, ChildExit::Exited(status));
            assert_eq!(exit.returncode(), status);
        }
    }
}

#[test]
fn a_child_that_a_signal_ends_gives_its_number_below_zero() {
    for open in WAYS {
        for signal in [Signal::TERM, Signal::KILL, Signal::ABORT] {
            let child = runs_until_closed();
            let watch = open(pid_of(&child)).unwrap();
            kill_process(Pid::from_child(&child), signal).unwrap();
            let exit = end_of(&watch);
            assert_eq!(exit, ChildExit::Signaled(signal.as_raw()));
            assert_eq!(exit.returncode(), -signal.as_raw());
        }
    }
}

#[test]
fn looking_at_a_childs_end_leaves_it_to_be_waited_for() {
    for open in WAYS {
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
fn a_child_that_runs_is_not_readable_and_has_no_end() {
    for open in WAYS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert_eq!(watch.pid(), pid_of(&child));
        assert!(!is_readable(&watch, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })));
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child.stdin.take());
        assert_eq!(end_of(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn a_child_that_is_stopped_has_not_ended() {
    for open in WAYS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child.stdin.take());
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        assert_eq!(end_of(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn a_child_keeps_its_pid_until_it_is_waited_for_and_leaves_no_zombie_then() {
    for open in WAYS {
        let watch = open(pid_of(&shell("exit 3"))).unwrap();
        assert!(is_readable(&watch, None));
        assert!(exists(watch.pid()));
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Exited(3)));
        assert!(!exists(watch.pid()));
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Exited(3)));
    }
}

#[test]
fn a_child_that_ended_before_the_watch_began_is_seen() {
    for open in WAYS {
        let child = shell("exit 4");
        // Readable when the child is a zombie, and never reaped by this first watch.
        let first = ChildWatch::open(pid_of(&child)).unwrap();
        assert!(is_readable(&first, None));
        drop(first);
        assert_eq!(end_of(&open(pid_of(&child)).unwrap()), ChildExit::Exited(4));
    }
}

#[test]
fn a_child_that_somebody_else_waited_for_has_an_unknown_end() {
    for open in WAYS {
        let mut child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        let exit = end_of(&watch);
        assert_eq!(exit, ChildExit::Unknown);
        assert_eq!(exit.returncode(), 255);

        let late = open(pid_of(&child)).unwrap();
        assert_eq!(end_of(&late), ChildExit::Unknown);
    }
}

#[test]
fn watching_one_child_does_not_reap_another() {
    for open in WAYS {
        let mut other = shell("exit 5");
        assert_eq!(end_of(&open(pid_of(&shell("exit 6"))).unwrap()), ChildExit::Exited(6));
        drop(other.stdin.take());
        assert_eq!(other.wait().unwrap().code(), Some(5));
    }
}

#[test]
fn a_signal_is_sent_to_a_child_and_to_nobody_once_it_was_waited_for() {
    for open in WAYS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        assert!(watch.send_signal(Signal::CONT.as_raw()).unwrap());
        assert!(watch.send_signal(Signal::TERM.as_raw()).unwrap());
        assert!(is_readable(&watch, None));
        // A zombie has its number still, and takes it.
        assert!(watch.send_signal(Signal::KILL.as_raw()).unwrap());
        assert_eq!(watch.try_wait().unwrap(), Some(ChildExit::Signaled(Signal::TERM.as_raw())));
        assert!(!watch.send_signal(Signal::KILL.as_raw()).unwrap());
    }
}

#[test]
fn no_signal_is_sent_to_a_child_that_somebody_else_waited_for() {
    for open in WAYS {
        let mut child = shell("exit 0");
        let watch = open(pid_of(&child)).unwrap();
        child.wait().unwrap();
        assert!(!watch.send_signal(Signal::TERM.as_raw()).unwrap());
    }
}

#[test]
fn a_forked_copy_of_this_process_sends_its_parents_children_nothing() {
    for open in WAYS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        // SAFETY: the copy makes system calls and ends; it allocates nothing and takes no lock.
        let sent = match unsafe { libc::fork() } {
            0 => {
                let sent = watch.send_signal(libc::SIGKILL);
                // SAFETY: ends the copy at once, without what the test's own process does at its end.
                unsafe { libc::_exit(if matches!(sent, Ok(false)) { 0 } else { 1 }) }
            }
            copy => end_of(&ChildWatch::open(copy).unwrap()),
        };
        assert_eq!(sent, ChildExit::Exited(0));
        assert_eq!(watch.try_wait().unwrap(), None);
        drop(child);
        assert_eq!(end_of(&watch), ChildExit::Exited(7));
    }
}

#[test]
fn a_real_time_signal_reaches_a_child_and_what_is_no_signal_is_refused() {
    for open in WAYS {
        let child = runs_until_closed();
        let watch = open(pid_of(&child)).unwrap();
        for signum in [0, -1, 32, 65] {
            assert_eq!(watch.send_signal(signum).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(watch.send_signal(libc::SIGRTMIN()).unwrap());
        assert_eq!(end_of(&watch), ChildExit::Signaled(libc::SIGRTMIN()));
        assert!(!watch.has_dumped_core());
    }
}

#[test]
fn what_cannot_be_one_process_is_refused() {
    for open in WAYS {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
