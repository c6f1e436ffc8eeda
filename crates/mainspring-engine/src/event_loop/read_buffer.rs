//! The receive buffer, and access to the poller.

use super::{Engine, Host, READ_SIZE};
use crate::poller::Poller;

impl<H: Host> Engine<H> {
    /// Makes one system call through the back end. `call` must not call out: the back end is borrowed.
    #[inline(always)]
    pub fn with_poller<R>(&self, call: impl FnOnce(&mut dyn Poller) -> R) -> R {
        call(&mut **self.poller.borrow_mut())
    }

    /// Lends the receive buffer to `use_it`, which may run user code: the buffer is out of the engine meanwhile, and
    /// a nested borrower allocates its own.
    pub fn with_read_buffer<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        self.with_read_buffer_of(READ_SIZE, use_it)
    }

    /// Lends `size` bytes of the receive buffer, which grows to that size.
    pub fn with_read_buffer_of<R>(&self, size: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if scratch.len() < size {
            // The allocator returns zeroed pages, which occupy no memory until something is received into them.
            scratch = vec![0; size].into_boxed_slice();
        }
        let result = use_it(scratch.get_mut(..size).unwrap_or_default());
        self.scratch.set(Some(scratch));
        result
    }
}
