//! `InPlace`: a value of one thread that is worked on where it is.
//!
//! For what every connection has and every event looks at. To take it out of a `Cell` and to put it back costs more than
//! what is done with it, and the word that a `RefCell` adds is a word for every connection.

use std::cell::UnsafeCell;

/// See the module's text.
#[derive(Default)]
pub(crate) struct InPlace<T>(UnsafeCell<T>);

impl<T> InPlace<T> {
    pub(crate) const fn new(value: T) -> Self {
        InPlace(UnsafeCell::new(value))
    }

    /// Works on the value.
    ///
    /// # Safety
    ///
    /// `work` does not come back to the same value: it runs nothing that its author does not know.
    #[inline(always)]
    pub(crate) unsafe fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the cell is not `Sync`, so no other thread is here, and by the caller's word nobody else on this one: there
        // is no other reference while this one is there.
        work(unsafe { &mut *self.0.get() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_place_is_there_afterwards() {
        let value = InPlace::new(vec![1]);
        // SAFETY: a vector of numbers knows nothing of the place.
        unsafe { value.with(|value| value.push(2)) };
        // SAFETY: as above.
        assert_eq!(unsafe { value.with(std::mem::take) }, [1, 2]);
    }
}
