//! The buffer that the loop receives into, and access to the poller.

use super::{Engine, Host, READ_SIZE};
use crate::poller::Poller;

impl<H: Host> Engine<H> {
    /// Makes one system call through the back end. `call` must not call out: the back end is borrowed.
    #[inline(always)]
    pub fn with_poller<R>(&self, call: impl FnOnce(&mut dyn Poller) -> R) -> R {
        call(&mut **self.poller.borrow_mut())
    }

    /// Lends the loop's read buffer to `use_it`, which may call out: the buffer is out of the engine meanwhile,
    /// and a second borrower gets one of its own.
    pub fn with_scratch<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        self.with_scratch_of(READ_SIZE, use_it)
    }

    /// Lends so many bytes of the loop's read buffer, which grows to that size.
    pub fn with_scratch_of<R>(&self, size: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if scratch.len() < size {
            // Zeroed pages, which cost nothing until something is received into them.
            scratch = vec![0; size].into_boxed_slice();
        }
        let result = use_it(scratch.get_mut(..size).unwrap_or_default());
        self.scratch.set(Some(scratch));
        result
    }
}
