//! `Morsel`: a few bytes on their way from the kernel to who waits for them.
//!
//! One is received while the kernel's events are sorted, and read in the same pass as a rule. What is not read then stays
//! until it is, or until more arrives.

use std::cell::RefCell;

/// As much as a morsel holds. Where more has arrived it is not for morsels.
const SIZE: usize = 1020;

/// So many empty ones are kept at most: about as many connections are served in a pass.
const SPARES: usize = 128;

thread_local! {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    static SPARE: RefCell<Vec<Box<Morsel>>> = const { RefCell::new(Vec::new()) };
}

/// See the module's text.
pub(super) struct Morsel {
    length: usize,
    bytes: [u8; SIZE],
}

/// Drops the empty ones that are kept on this thread.
pub(super) fn forget_spares() {
    // A thread that is ending has none.
    let spares = SPARE.try_with(RefCell::take);
    drop(spares);
}

impl Morsel {
    /// An empty one.
    pub(super) fn spare() -> Box<Self> {
        // A thread that is ending has none.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        spare.unwrap_or_else(|| Box::new(Morsel { length: 0, bytes: [0; SIZE] }))
    }

    /// Keeps it for the next who needs one, or drops it.
    pub(super) fn give_back(self: Box<Self>) {
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(self);
            }
        });
    }

    /// Has `receive` fill it.
    #[inline]
    pub(super) fn fill<E>(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.length = 0;
        let count = receive(&mut self.bytes)?;
        self.length = count.min(SIZE);
        Ok(self.length)
    }

    /// Whether there may be more where it came from.
    pub(super) fn is_full(&self) -> bool {
        self.length == SIZE
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
