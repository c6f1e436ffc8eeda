//! How a connection sends, and how several writes come to share a packet: see `coalescing.rs`.

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

    /// Sends a new write, of `length` bytes: into a packet with what this turn is expected to write after it, if it is.
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

    /// The turn is over in which something was kept ([`Engine::at_end_of_turn`]). The pieces that were expected may not have
    /// come: what is kept for them goes without.
    ///
    /// [`Engine::at_end_of_turn`]: crate::Engine::at_end_of_turn
    pub fn turn_ended(&self, cx: Cx<'_, H>) {
        if self.coalescing.set_corked(false) {
            // A connection that can no longer be told has nothing more to tell its peer; and a socket that knows no
            // packets (a Unix one) kept nothing.
            let _ = self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.push(fd)));
        }
    }
}
