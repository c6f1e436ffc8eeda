//! The buffer that the loop receives into, and access to the poller.

use super::{Engine, Host, READ_SIZE};
use crate::poller::Poller;
use std::cell::RefMut;

impl<H: Host> Engine<H> {
    /// The back end, for one system call. The guard must be dropped before anything calls out.
    #[inline(always)]
    pub fn poller(&self) -> RefMut<'_, Box<dyn Poller>> {
        self.poller.borrow_mut()
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
