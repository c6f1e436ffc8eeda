//! How a connection is taken off the loop without being closed.

use super::Stream;
use crate::transport::{Cx, TransportHost, Upper};

impl<H: TransportHost, U: Upper<H>> Stream<H, U> {
    /// Ends at once and without a word to the protocol: the loop knows the descriptor no more, and its owner comes back.
    /// The connection itself goes on. What is queued is dropped; what has been sent is on its way, also a piece that was
    /// to share a packet with others. `None` if the connection is over, while its sending end is reserved, and in the middle
    /// of [`Stream::with_fd`].
    pub fn dismantle(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        // The end of one that is lost is on its way, and takes the descriptor with it.
        if self.end.is_lost() || self.reserved.get() || self.end.is_lent() {
            return None;
        }
        self.turn_ended(cx);
        self.end.begin_closing();
        self.end.mark_lost(None);
        self.end.deregister(cx);
        let channel = self.end.take_channel();
        self.write_buffer.clear();
        channel
    }
}
