//! `Received`: what has arrived on a connection and was not read yet.
//!
//! A connection has one while something waits in it, so one that is idle keeps no memory for what may come. Some that were
//! read empty are kept for the next who receives anything, on whatever connection of the thread, until a loop is closed
//! there.
//!
//! Most of what arrives is a few bytes that somebody waits for, and reads as a whole in the same pass. Those are a
//! *morsel*, which has a place of its own. Whoever does anything else with it than to read it all finds it in the
//! [`ByteBuffer`].

use super::buffer::ByteBuffer;
use std::cell::RefCell;

/// As much as a morsel can be. Where more has arrived it is not for morsels.
const MORSEL: usize = 1024;

/// So many empty ones are kept at most: about as many connections are served in a pass.
const SPARES: usize = 128;

thread_local! {
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    static SPARE: RefCell<Vec<Box<Received>>> = const { RefCell::new(Vec::new()) };
}

/// See the module's text.
pub(super) struct Received {
    /// How long the morsel is. While it is something, the buffer is empty.
    length: usize,
    buffer: ByteBuffer,
    morsel: [u8; MORSEL],
}

/// Drops the empty ones that are kept on this thread: a loop is being closed.
pub(crate) fn forget_spares() {
    // A thread that is ending has none.
    let spares = SPARE.try_with(RefCell::take);
    drop(spares);
}

impl Received {
    /// An empty one.
    #[inline]
    pub(super) fn spare() -> Box<Self> {
        // A thread that is ending has none.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        spare.unwrap_or_else(Received::new)
    }

    #[cold]
    #[inline(never)]
    fn new() -> Box<Self> {
        Box::new(Received { length: 0, buffer: ByteBuffer::default(), morsel: [0; MORSEL] })
    }

    /// Keeps it, which is empty, for the next who needs one, or drops it.
    #[inline]
    pub(super) fn give_back(self: Box<Self>) {
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARES {
                spare.push(self);
            }
        });
    }

    /// Has `receive` fill the morsel of an empty one.
    #[inline]
    pub(super) fn fill<E>(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let count = receive(&mut self.morsel)?;
        self.length = count.min(MORSEL);
        Ok(self.length)
    }

    /// Whether there may be more where the morsel came from.
    pub(super) fn is_full(&self) -> bool {
        self.length == MORSEL
    }

    /// Reads the whole morsel into `into`. `None` if there is none, or if it does not fit.
    #[inline]
    pub(super) fn read_morsel(&mut self, into: &mut [u8]) -> Option<usize> {
        let morsel = self.morsel.get(..self.length).filter(|morsel| !morsel.is_empty())?;
        into.get_mut(..morsel.len())?.copy_from_slice(morsel);
        Some(std::mem::take(&mut self.length))
    }

    /// All of it, the front of which is at this place in the stream.
    pub(super) fn buffer(&mut self, position: u64) -> &mut ByteBuffer {
        if self.buffer.is_empty() {
            self.buffer.move_to(position);
        }
        if self.length > 0 {
            let length = std::mem::take(&mut self.length);
            self.buffer.push(self.morsel.get(..length).unwrap_or_default());
        }
        &mut self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn morsel(bytes: &[u8]) -> Box<Received> {
        let mut received = Received::spare();
        let filled = received.fill(|room| {
            room[..bytes.len()].copy_from_slice(bytes);
            Ok::<_, Infallible>(bytes.len())
        });
        assert_eq!(filled, Ok(bytes.len()));
        received
    }

    #[test]
    fn a_morsel_is_read_as_a_whole_or_found_in_the_buffer() {
        let mut received = morsel(b"abc");
        assert_eq!(received.read_morsel(&mut [0; 2]), None, "it does not fit");
        let mut place = [0; 3];
        assert_eq!(received.read_morsel(&mut place), Some(3));
        assert_eq!(&place, b"abc");
        assert_eq!(received.read_morsel(&mut place), None, "it is read");

        let mut received = morsel(b"abc");
        let buffer = received.buffer(7);
        assert_eq!((buffer.unread(), buffer.position()), (&b"abc"[..], 7));
        buffer.push(b"de");
        buffer.consume(1);
        let buffer = received.buffer(100);
        assert_eq!((buffer.unread(), buffer.position()), (&b"bcde"[..], 8), "its place is its own");
        assert_eq!(received.read_morsel(&mut [0; 9]), None);
    }

    #[test]
    fn one_that_is_given_back_is_as_good_as_new() {
        let mut received = morsel(&[1; MORSEL]);
        assert!(received.is_full());
        received.buffer(5).consume(MORSEL);
        received.give_back();
        let mut again = Received::spare();
        assert!(!again.is_full());
        assert_eq!(again.read_morsel(&mut [0; 9]), None);
        let buffer = again.buffer(0);
        assert_eq!((buffer.is_empty(), buffer.position()), (true, 0));
        forget_spares();
    }
}
