//! `Pollable`: the protocol sink of a datagram transport that is awaited. It holds waiters and no datagrams.

use super::endpoint::Endpoint;
use crate::host::{Failure, RustHost};
use crate::net::clone_error;
use crate::sync::wait_list::WaitList;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Burst, Cx, DatagramSink, Received, Refusal};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::rc::Weak;

/// The waiters, and the number of datagrams that the last event still allows.
pub(in crate::net) struct Pollable {
    endpoint: Weak<Endpoint<Pollable>>,
    pub(in crate::net) burst: Burst,
    pub(in crate::net) readers: WaitList,
    pub(in crate::net) has_readers: Cell<bool>,
    pub(in crate::net) writers: WaitList,
    /// Set when the loop has released the socket.
    failure: RefCell<Option<io::Error>>,
}

impl Pollable {
    pub(in crate::net) fn new(endpoint: Weak<Endpoint<Pollable>>) -> Self {
        Pollable {
            endpoint,
            burst: Burst::default(),
            readers: WaitList::new(),
            has_readers: Cell::new(false),
            writers: WaitList::new(),
            failure: RefCell::new(None),
        }
    }

    pub(in crate::net) fn failure(&self) -> Option<io::Error> {
        self.failure.borrow().as_ref().map(clone_error)
    }
}

impl DatagramSink<RustHost> for Pollable {
    type Foreign = Infallible;

    /// The socket is readable: wakes the readers and leaves the datagrams in the kernel.
    fn receive_foreign(&self, cx: Cx<'_, RustHost>) -> Option<Received<Failure>> {
        self.burst.begin();
        if self.has_readers.replace(false) {
            self.readers.wake_all();
        } else if let Some(endpoint) = self.endpoint.upgrade() {
            // A failure can be ignored: the next reader registers the interest again.
            let _ = endpoint.transport().want_readable(cx, false);
        }
        Some(Err(Refusal::WouldBlock))
    }

    fn resume_writing(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.writers.wake_all();
        Ok(())
    }

    fn connection_lost(&self, _: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        let failure = failure.map_or_else(|| io::ErrorKind::NotConnected.into(), io::Error::from);
        *self.failure.borrow_mut() = Some(failure);
        self.readers.wake_all();
        self.writers.wake_all();
        Ok(())
    }

    // The engine does not call the following methods: a transport that is polled is never opened, and neither
    // receives nor queues by itself.

    fn connection_made(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        Ok(())
    }

    fn datagram_received(&self, _: Cx<'_, RustHost>, _: &[u8], _: PeerAddress) -> Result<(), Failure> {
        Ok(())
    }

    fn error_received(&self, _: Cx<'_, RustHost>, failure: Failure) -> Result<(), Failure> {
        Err(failure)
    }

    fn send_foreign(&self, _: Cx<'_, RustHost>, _: &[u8], to: &Infallible) -> Result<(), Refusal<Failure>> {
        match *to {}
    }

    fn pause_writing(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        Ok(())
    }

    fn detach(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        Ok(())
    }
}
