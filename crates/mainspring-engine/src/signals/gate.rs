//! An fd that a signal handler may use at any moment, and that can still be closed.
//!
//! The danger: a handler reads the fd number, is delayed, and writes after the kernel has reused the number.
//! Therefore the handler increments `users`, *then* reads the number; the closing thread clears the number, *then*
//! waits until `users` is zero. A sequentially consistent fence separates the two steps on both sides, so either the
//! handler sees the gate shut, or the closing thread sees the handler. A handler that finds the gate shut does not
//! increment `users`, so the wait covers only handlers that are already running, however many signals arrive.

use std::os::fd::RawFd;

use crate::loom_shim::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom_shim::atomic::{AtomicI32, AtomicUsize, fence};
use crate::loom_shim::yield_now;

const SHUT: RawFd = -1;

/// A gate to an fd. Its owner opens and shuts it under a lock; handlers use it without.
#[derive(Debug)]
pub(super) struct Gate {
    fd: AtomicI32,
    users: AtomicUsize,
}

impl Gate {
    #[cfg(not(loom))]
    pub(super) const fn new_shut() -> Self {
        Gate { fd: AtomicI32::new(SHUT), users: AtomicUsize::new(0) }
    }

    #[cfg(loom)]
    pub(super) fn new_shut() -> Self {
        Gate { fd: AtomicI32::new(SHUT), users: AtomicUsize::new(0) }
    }

    #[cfg(not(loom))]
    pub(super) fn is_shut(&self) -> bool {
        self.fd.load(Relaxed) == SHUT
    }

    /// Opens the gate. Every user sees what the caller wrote before.
    pub(super) fn open(&self, fd: RawFd) {
        self.fd.store(fd, Release);
    }

    /// Shuts the gate and waits until all users have left: then the fd may be closed.
    pub(super) fn shut(&self) {
        self.fd.store(SHUT, Relaxed);
        fence(SeqCst);
        while self.users.load(Acquire) != 0 {
            yield_now();
        }
    }

    /// Calls `user` with the fd if the gate is open; the fd stays open meanwhile. Async-signal-safe if `user` is.
    pub(super) fn enter(&self, user: impl FnOnce(RawFd)) {
        if self.fd.load(Relaxed) == SHUT {
            return;
        }
        self.users.fetch_add(1, Relaxed);
        fence(SeqCst);
        let fd = self.fd.load(Acquire);
        if fd != SHUT {
            user(fd);
        }
        self.users.fetch_sub(1, Release);
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test --release --lib models`
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    #[test]
    fn no_handler_uses_an_fd_after_its_gate_was_shut() {
        loom::model(|| {
            let gate = Arc::new(Gate::new_shut());
            let is_closed = Arc::new(AtomicBool::new(false));
            gate.open(7);
            let handler = {
                let (gate, is_closed) = (Arc::clone(&gate), Arc::clone(&is_closed));
                thread::spawn(move || {
                    gate.enter(|fd| {
                        assert_eq!(fd, 7);
                        assert!(!is_closed.load(Relaxed), "the handler used a closed fd");
                    });
                })
            };
            gate.shut();
            is_closed.store(true, Relaxed);
            handler.join().unwrap();
        });
    }

    #[test]
    fn a_user_sees_writes_before_its_gate_was_opened() {
        loom::model(|| {
            let gate = Arc::new(Gate::new_shut());
            let owner = Arc::new(AtomicI32::new(1));
            gate.open(1);
            let handler = {
                let (gate, owner) = (Arc::clone(&gate), Arc::clone(&owner));
                thread::spawn(move || gate.enter(|fd| assert_eq!(owner.load(Relaxed), fd)))
            };
            gate.shut();
            owner.store(2, Relaxed);
            gate.open(2);
            handler.join().unwrap();
        });
    }
}
