//! Sending, with write coalescing (`write_coalescing.rs`).

use super::Stream;
use crate::transport::{Cx, ProtocolSink, TransportHost};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

impl<H: TransportHost, U: ProtocolSink<H>> Stream<H, U> {
    #[inline(always)]
    pub(super) fn send(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.coalescing.set_corked(false);
        let result = cx.engine.with_poller(|poller| poller.send(self.end.lend()?.as_fd(), pieces));
        cx.engine.count_sent(result)
    }

    /// Sends a new write of `length` bytes; with `MSG_MORE` if another write is expected in this scope.
    #[inline(always)]
    pub(super) fn send_or_coalesce(
        &self,
        cx: Cx<'_, H>,
        pieces: &[IoSlice<'_>],
        length: usize,
    ) -> io::Result<usize> {
        if self.coalescing.is_more_expected(cx.engine.callback_scope(), length) {
            return self.coalesce(cx, pieces);
        }
        self.send(cx, pieces)
    }

    fn coalesce(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.coalescing.set_corked(true) {
            cx.engine.at_scope_end(cx.this.clone());
        }
        let send = |fd: BorrowedFd<'_>| cx.engine.with_poller(|poller| poller.send_more(fd, pieces));
        cx.engine.count_sent(self.end.with_fd(send))
    }

    /// The scope of a coalesced write has ended ([`Engine::at_scope_end`]): releases the bytes that the kernel
    /// holds, in case the expected pieces did not come.
    ///
    /// [`Engine::at_scope_end`]: crate::Engine::at_scope_end
    pub fn scope_ended(&self, cx: Cx<'_, H>) {
        if self.coalescing.set_corked(false) {
            // An error needs no handling: a broken connection has nothing to send, and a Unix socket, which ignores
            // `MSG_MORE`, holds nothing.
            let _ = self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.push(fd)));
        }
    }
}
