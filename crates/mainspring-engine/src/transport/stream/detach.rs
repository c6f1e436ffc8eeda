//! Taking a connection off the loop without closing it.

use super::Stream;
use crate::transport::{Cx, ProtocolSink, TransportHost};

impl<H: TransportHost, U: ProtocolSink<H>> Stream<H, U> {
    /// Ends the transport at once, without a call to the protocol. Deregisters the fd and returns its owner; the
    /// connection stays open. Queued bytes are dropped; bytes that the kernel holds for coalescing are sent. `None`
    /// if the connection is lost, while its sending direction is reserved, and inside
    /// [`Transport::with_fd`](crate::transport::Transport::with_fd).
    pub fn detach_fd(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        // After a loss, the scheduled `connection_lost` closes the fd.
        if self.end.is_lost() || self.reserved.get() || self.end.is_lent() {
            return None;
        }
        self.scope_ended(cx);
        self.end.begin_closing();
        self.end.mark_lost(None);
        self.end.deregister(cx);
        let channel = self.end.take_channel();
        self.write_buffer.clear();
        channel
    }
}
