//! `StateCell`: the storage of a primitive's state, so that its operations are written once. It is a `RefCell` for
//! the tasks of one thread, and a mutex for those of many.
//!
//! It is open for a few instructions at a time, and never while foreign code runs: wakers and user values are cloned,
//! called and dropped outside.

use mainspring_engine::loom_shim::Mutex;
use std::cell::RefCell;
use std::ops::DerefMut;
use std::sync::PoisonError;

/// Shared state with exclusive access.
pub(crate) trait StateCell {
    type State;

    /// Opens the state until the returned guard is dropped. Opening it twice panics or deadlocks.
    fn open(&self) -> impl DerefMut<Target = Self::State>;
}

impl<S> StateCell for RefCell<S> {
    type State = S;

    #[inline(always)]
    fn open(&self) -> impl DerefMut<Target = S> {
        self.borrow_mut()
    }
}

impl<S> StateCell for Mutex<S> {
    type State = S;

    fn open(&self) -> impl DerefMut<Target = S> {
        // No foreign code runs under the lock, so the state behind a poisoned lock is consistent.
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
