//! `WriteCoalescing`: pieces that a protocol writes in one turn leave as one packet, and none of them waits.
//!
//! Many protocols write an answer in pieces: a head, then a body. asyncio's `write` sends each at once, and so do we: what
//! the kernel does not take, an error, the size of the buffer are known when `write` returns. But every send makes a
//! packet, and wakes the peer to take it, which costs more than all else about a small write.
//!
//! So a connection that wrote the same number of pieces in its last turns is expected to do so again: all but the last
//! are handed to the kernel with the word that more follows. They are sent, but wait there for the last piece of the
//! turn. If that does not come, the end of the turn lets them go. Nothing is kept on this side that could be lost: if the
//! turn blocks, the kernel sends what it has after 200 ms; if the process ends, at once.

use crate::Turn;
use std::cell::Cell;

/// A piece of more bytes than this leaves by itself: it fills packets of its own.
const MAX_PIECE_BYTES: usize = 8 * 1024;

/// How many pieces the turns of one connection write. Counts end at 255: whoever writes so many fills packets anyway.
#[derive(Default)]
pub(super) struct WriteCoalescing {
    turn: Cell<Turn>,
    /// Pieces written in the turn that is under way.
    count: Cell<u8>,
    /// What to expect of it: the fewer of the two turns before.
    expected: Cell<u8>,
    /// Pieces written in the turn before.
    former: Cell<u8>,
    /// Whether the kernel keeps something until the next piece.
    is_corked: Cell<bool>,
}

impl WriteCoalescing {
    /// One more piece, of `length` bytes: whether another is to be expected in the same turn.
    pub fn is_more_expected(&self, turn: Option<Turn>, length: usize) -> bool {
        let Some(turn) = turn else { return false };
        if self.turn.replace(turn) != turn {
            let ended = self.count.replace(0);
            let before = self.former.replace(ended);
            self.expected.set(ended.min(before));
        }
        let count = self.count.get().saturating_add(1);
        self.count.set(count);
        count < self.expected.get() && length <= MAX_PIECE_BYTES
    }

    /// Whether the kernel keeps something from now on; whether it did before.
    pub fn set_corked(&self, is_corked: bool) -> bool {
        self.is_corked.replace(is_corked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is expected at each piece of turns that write so many.
    fn expectations(turns: &[u8]) -> Vec<Vec<bool>> {
        let coalescing = WriteCoalescing::default();
        let numbers = (1..).map(Turn::numbered);
        let pieces = |(turn, &count): (Turn, &u8)| {
            (0..count).map(|_| coalescing.is_more_expected(Some(turn), 10)).collect()
        };
        numbers.zip(turns).map(pieces).collect()
    }

    #[test]
    fn two_turns_of_as_many_pieces_make_the_third_expected_so() {
        let expected = expectations(&[3, 3, 3, 4]);
        assert_eq!(expected[0], [false; 3]);
        assert_eq!(expected[1], [false; 3]);
        assert_eq!(expected[2], [true, true, false]);
        assert_eq!(expected[3], [true, true, false, false]);
    }

    #[test]
    fn the_fewer_of_two_turns_is_expected() {
        assert_eq!(expectations(&[2, 5, 5])[2], [true, false, false, false, false]);
        assert_eq!(expectations(&[5, 2, 2])[2], [true, false]);
        assert_eq!(expectations(&[2, 1, 2, 2, 2])[3..], [[false, false], [true, false]]);
    }

    #[test]
    fn a_turn_of_a_single_piece_is_never_kept_waiting() {
        assert!(expectations(&[1; 10]).concat().iter().all(|more| !more));
    }

    #[test]
    fn large_pieces_and_writes_outside_of_turns_go_at_once() {
        let coalescing = WriteCoalescing::default();
        for turn in 1..10 {
            assert!(!coalescing.is_more_expected(Some(Turn::numbered(turn)), MAX_PIECE_BYTES + 1));
            assert!(!coalescing.is_more_expected(None, 1));
            assert!(!coalescing.is_more_expected(Some(Turn::numbered(turn)), 1));
        }
    }

    #[test]
    fn countless_pieces_are_counted_without_overflow() {
        let coalescing = WriteCoalescing::default();
        for turn in 1..4 {
            for _ in 0..1000 {
                coalescing.is_more_expected(Some(Turn::numbered(turn)), 1);
            }
        }
        assert!(coalescing.is_more_expected(Some(Turn::numbered(4)), 1));
    }
}
