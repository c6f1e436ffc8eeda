//! `StateCell`: where the state of a primitive is, so that what is done with it is written once: in a `RefCell` for the
//! tasks of one thread, behind a lock for those of many.
//!
//! Either way it is open for a few instructions at a time, and never while foreign code runs: wakers are cloned, called
//! and dropped outside, and so are values of the program.

use mainspring_engine::loom_shim::Mutex;
use std::cell::RefCell;
use std::ops::DerefMut;
use std::sync::PoisonError;

/// A state that is shared, and opened for one at a time.
pub(crate) trait StateCell {
    type State;

    /// Opens it until the answer is dropped. Who opens it twice panics, or waits for ever.
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
        // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
