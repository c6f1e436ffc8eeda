//! A descriptor that a signal handler may use at any moment, and that can still be closed.
//!
//! The danger is a handler that has read the number, is delayed, and writes when the number belongs to somebody
//! else. So the handler raises `users`, *then* reads the number; whoever shuts the gate clears the number,
//! *then* waits until there are no users. A sequentially consistent fence stands at both "then"s, so the handler
//! sees the gate shut or is seen by the one who shuts it. A handler that finds the gate shut does not count
//! itself at all, so the wait is for handlers already under way, however many signals come.

use std::os::fd::RawFd;

use crate::loom_shim::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::loom_shim::atomic::{AtomicI32, AtomicUsize, fence};
use crate::loom_shim::yield_now;

const SHUT: RawFd = -1;

/// A gate to a descriptor. Opened and shut under a lock of its owner; used without.
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

    /// Lets users in. What the caller wrote before is seen by every user.
    pub(super) fn open(&self, fd: RawFd) {
        self.fd.store(fd, Release);
    }

    /// Lets nobody in any more, and returns when everybody is out: then the descriptor may be closed.
    pub(super) fn shut(&self) {
        self.fd.store(SHUT, Relaxed);
        fence(SeqCst);
        while self.users.load(Acquire) != 0 {
            yield_now();
        }
    }

    /// Calls `user` with the descriptor if the gate is open; it stays open meanwhile. Async-signal-safe if
    /// `user` is.
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
    fn nobody_uses_a_descriptor_after_its_gate_was_shut() {
        loom::model(|| {
            let gate = Arc::new(Gate::new_shut());
            let is_closed = Arc::new(AtomicBool::new(false));
            gate.open(7);
            let handler = {
                let (gate, is_closed) = (Arc::clone(&gate), Arc::clone(&is_closed));
                thread::spawn(move || {
                    gate.enter(|fd| {
                        assert_eq!(fd, 7);
                        assert!(!is_closed.load(Relaxed), "written to a descriptor that was closed");
                    });
                })
            };
            gate.shut();
            is_closed.store(true, Relaxed);
            handler.join().unwrap();
        });
    }

    #[test]
    fn a_user_sees_what_was_written_before_its_gate_was_opened() {
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
