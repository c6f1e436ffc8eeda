//! Real signals. Dispositions belong to the process, so every test has its own signal. Signals are raised on the test's
//! thread: the handler has run when `raise` returns.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mainspring_engine::signals::{SignalPipe, install};

fn raise(signum: i32) {
    // SAFETY: `raise` accepts any number; the tests raise only signals that are caught or ignored.
    assert_eq!(unsafe { libc::raise(signum) }, 0);
}

/// Installs `new`, if given, and returns the previous action.
fn action(signum: i32, new: Option<&libc::sigaction>) -> libc::sigaction {
    let mut old = MaybeUninit::uninit();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `new` is null or a complete action without a handler of the test; `old` has room for one action, which
    // the call fills on success.
    unsafe {
        assert_eq!(libc::sigaction(signum, new, old.as_mut_ptr()), 0);
        old.assume_init()
    }
}

fn ignoring() -> libc::sigaction {
    // SAFETY: all zeros are a valid action: the default one, with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = libc::SIG_IGN;
    action
}

fn pending(pipe: &SignalPipe) -> Vec<u8> {
    let mut signums = Vec::new();
    pipe.read_pending(&mut signums).unwrap();
    signums
}

#[test]
fn a_signal_reaches_the_pipe_as_its_number() {
    let pipe = SignalPipe::new().unwrap();
    let installed = install(libc::SIGUSR1, &pipe).unwrap();
    assert_eq!(installed.signum(), libc::SIGUSR1);
    raise(libc::SIGUSR1);
    raise(libc::SIGUSR1);
    assert_eq!(pending(&pipe), [libc::SIGUSR1 as u8; 2]);
}

#[test]
fn every_listener_gets_the_signal_until_it_is_dropped() {
    let (one, other) = (SignalPipe::new().unwrap(), SignalPipe::new().unwrap());
    let installed = install(libc::SIGUSR2, &one).unwrap();
    let _other_installed = install(libc::SIGUSR2, &other).unwrap();
    raise(libc::SIGUSR2);
    assert_eq!(pending(&one), [libc::SIGUSR2 as u8]);
    assert_eq!(pending(&other), [libc::SIGUSR2 as u8]);
    drop(installed);
    raise(libc::SIGUSR2);
    assert_eq!(pending(&one), []);
    assert_eq!(pending(&other), [libc::SIGUSR2 as u8]);
}

#[test]
fn one_pipe_receives_exactly_the_installed_signals() {
    let (first, second) = (libc::SIGRTMIN(), libc::SIGRTMIN() + 1);
    let (pipe, other) = (SignalPipe::new().unwrap(), SignalPipe::new().unwrap());
    let _installed = [install(first, &pipe).unwrap(), install(second, &pipe).unwrap()];
    let _other_installed = install(second, &other).unwrap();
    raise(second);
    raise(first);
    assert_eq!(pending(&pipe), [second as u8, first as u8]);
    assert_eq!(pending(&other), [second as u8]);
}

#[test]
fn dropping_the_last_listener_restores_the_former_action() {
    let pipe = SignalPipe::new().unwrap();
    // Under `nohup` the signal is ignored.
    let former = action(libc::SIGHUP, None).sa_sigaction;
    for _ in 0..2 {
        let installed = install(libc::SIGHUP, &pipe).unwrap();
        let another = install(libc::SIGHUP, &pipe).unwrap();
        let ours = action(libc::SIGHUP, None);
        assert_ne!(ours.sa_sigaction, former);
        assert_ne!(ours.sa_flags & libc::SA_RESTART, 0);
        drop(installed);
        assert_eq!(action(libc::SIGHUP, None).sa_sigaction, ours.sa_sigaction);
        drop(another);
        assert_eq!(action(libc::SIGHUP, None).sa_sigaction, former);
    }
    action(libc::SIGHUP, Some(&ignoring()));
    drop(install(libc::SIGHUP, &pipe).unwrap());
    assert_eq!(action(libc::SIGHUP, None).sa_sigaction, libc::SIG_IGN);
}

#[test]
fn an_action_installed_over_ours_is_not_replaced() {
    let pipe = SignalPipe::new().unwrap();
    let installed = install(libc::SIGALRM, &pipe).unwrap();
    let ours = action(libc::SIGALRM, Some(&ignoring()));
    drop(installed);
    assert_eq!(action(libc::SIGALRM, None).sa_sigaction, libc::SIG_IGN);

    // Restores the action found earlier: our handler, which has no listener.
    action(libc::SIGALRM, Some(&ours));
    raise(libc::SIGALRM);
    assert_eq!(pending(&pipe), []);

    // The next listener finds our handler installed; removing it restores the action from before the first listener.
    let installed = install(libc::SIGALRM, &pipe).unwrap();
    raise(libc::SIGALRM);
    assert_eq!(pending(&pipe), [libc::SIGALRM as u8]);
    drop(installed);
    assert_eq!(action(libc::SIGALRM, None).sa_sigaction, libc::SIG_DFL);
}

#[test]
fn uncatchable_signals_are_refused_with_a_reason() {
    let pipe = SignalPipe::new().unwrap();
    let refused = |signum: i32| {
        let error = install(signum, &pipe).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        error.to_string()
    };
    assert_eq!(refused(libc::SIGKILL), "sig 9 cannot be caught");
    assert_eq!(refused(libc::SIGSTOP), "sig 19 cannot be caught");
    assert_eq!(refused(0), "invalid signal number 0");
    assert_eq!(refused(1000), "invalid signal number 1000");
    assert!(refused(libc::SIGSEGV).contains("fault"));
}

#[test]
fn a_full_pipe_or_one_without_a_reader_is_harmless() {
    let pipe = SignalPipe::new().unwrap();
    let _installed = install(libc::SIGVTALRM, &pipe).unwrap();
    for _ in 0..10_000 {
        raise(libc::SIGVTALRM);
    }
    assert!(!pending(&pipe).is_empty());
    drop(pipe);
    raise(libc::SIGVTALRM);
}

#[test]
fn a_forked_child_does_not_write_to_the_pipe_of_its_parent() {
    let pipe = SignalPipe::new().unwrap();
    let _installed = install(libc::SIGTERM, &pipe).unwrap();
    let mut command = Command::new("true");
    // SAFETY: the closure only calls `raise`, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| match libc::raise(libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    assert!(command.status().unwrap().success());
    assert_eq!(pending(&pipe), []);
}

#[test]
fn a_reused_fd_gets_no_signal_of_its_former_owner() {
    let is_over = AtomicBool::new(false);
    // Keeps the handler installed after the other listeners are removed.
    let lasting = SignalPipe::new().unwrap();
    let _installed = install(libc::SIGURG, &lasting).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    raise(libc::SIGURG);
                }
            });
        }
        let misdirected: Vec<u8> = (0..500)
            .flat_map(|_| {
                let pipe = SignalPipe::new().unwrap();
                drop(install(libc::SIGURG, &pipe).unwrap());
                drop(pipe);
                let reused = SignalPipe::new().unwrap();
                thread::yield_now();
                pending(&reused)
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(misdirected, []);
    });
}
