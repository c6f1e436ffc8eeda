//! Sending, with write coalescing (`write_coalescing.rs`).

use super::Stream;
use crate::transport::{Cx, TransportHost, Upper};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

impl<H: TransportHost, U: Upper<H>> Stream<H, U> {
    #[inline(always)]
    pub(super) fn send(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.coalescing.set_corked(false);
        cx.engine.with_poller(|poller| poller.send(self.end.lend()?.as_fd(), pieces))
    }

    /// Sends a new write of `length` bytes; with `MSG_MORE` if another write is expected in this turn.
    #[inline(always)]
    pub(super) fn send_or_coalesce(
        &self,
        cx: Cx<'_, H>,
        pieces: &[IoSlice<'_>],
        length: usize,
    ) -> io::Result<usize> {
        if self.coalescing.is_more_expected(cx.engine.turn(), length) {
            return self.coalesce(cx, pieces);
        }
        self.send(cx, pieces)
    }

    fn coalesce(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.coalescing.set_corked(true) {
            cx.engine.at_end_of_turn(cx.this.clone());
        }
        self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.send_more(fd, pieces)))
    }

    /// The turn of a coalesced write has ended ([`Engine::at_end_of_turn`]): releases the bytes that the kernel
    /// holds, in case the expected pieces did not come.
    ///
    /// [`Engine::at_end_of_turn`]: crate::Engine::at_end_of_turn
    pub fn turn_ended(&self, cx: Cx<'_, H>) {
        if self.coalescing.set_corked(false) {
            // An error needs no handling: a broken connection has nothing to send, and a Unix socket, which ignores
            // `MSG_MORE`, holds nothing.
            let _ = self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.push(fd)));
        }
    }
}
