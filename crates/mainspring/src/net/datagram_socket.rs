//! `DatagramSocket`: a datagram socket that is asked with `await`; `UdpSocket` and `UnixDatagram` are it, each with the
//! addresses and options of its family.
//!
//! # What waits where
//!
//! Nothing waits here. A datagram stays in the kernel's receive buffer until somebody asks for it, and goes straight into
//! the buffer of whoever does; what the kernel has no room for it drops, and for that its own limit (`SO_RCVBUF`) is the only
//! one. Likewise a datagram that the kernel does not take is not queued: its sender waits and tries again. So whatever is
//! given up in between has lost nothing, and sent nothing.
//!
//! # Turns
//!
//! An event of the loop is good for a few datagrams (`transport/burst.rs`), then the loop has its turn, so that a peer that
//! sends without end does not keep it. The kernel is asked to tell as long as somebody waits when it does; an event that
//! nobody waits for ends that.

use super::datagram::{DatagramAddress, Endpoint};
use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::poller::PeerAddress;
use crate::sync::wait_list::WaitList;
use crate::transport::{Burst, Cx, Datagram, DatagramUpper, Received, Refusal};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::{Rc, Weak};

/// See the module's text.
pub(super) struct DatagramSocket<A> {
    endpoint: Rc<Endpoint<Asked>>,
    address: PhantomData<A>,
}

/// What is above the engine's transport: those who wait.
pub(super) struct Asked {
    endpoint: Weak<Endpoint<Asked>>,
    burst: Burst,
    readers: WaitList,
    has_readers: Cell<bool>,
    writers: WaitList,
    /// Why the loop has let go of the socket, if it has.
    failure: RefCell<Option<io::Error>>,
}

impl Asked {
    fn failure(&self) -> Option<io::Error> {
        let failure = self.failure.borrow();
        failure.as_ref().map(|error| match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        })
    }
}

impl DatagramUpper<RustHost> for Asked {
    type Foreign = Infallible;

    /// Something is there: says so to those who wait, and takes nothing.
    fn receive_foreign(&self, cx: Cx<'_, RustHost>) -> Option<Received<Failure>> {
        self.burst.begin();
        if self.has_readers.replace(false) {
            self.readers.wake_all();
        } else if let Some(endpoint) = self.endpoint.upgrade() {
            // Whatever the kernel says to this, the next one who waits asks again.
            let _ = endpoint.machine().want_readable(cx, false);
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

    // What follows never happens to a transport that is asked: it is not opened, and neither receives nor queues by itself.

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

impl<A: DatagramAddress> DatagramSocket<A> {
    /// On a non-blocking datagram socket.
    pub(super) fn new(core: &Rc<Core>, socket: OwnedFd) -> Self {
        let endpoint = Endpoint::new(core, socket, 0, false, |endpoint| Asked {
            endpoint,
            burst: Burst::default(),
            readers: WaitList::new(),
            has_readers: Cell::new(false),
            writers: WaitList::new(),
            failure: RefCell::new(None),
        });
        DatagramSocket { endpoint, address: PhantomData }
    }

    pub(super) fn core(&self) -> io::Result<Rc<Core>> {
        self.endpoint.core().ok_or_else(|| crate::Error::Closed.into())
    }

    /// Works on the engine's transport, unless it or the loop has come to its end.
    fn with<R>(
        &self,
        work: impl FnOnce(&Datagram<RustHost, Asked>, Cx<'_, RustHost>) -> io::Result<R>,
    ) -> io::Result<R> {
        if let Some(failure) = self.asked().failure() {
            return Err(failure);
        }
        self.endpoint.with(work).unwrap_or_else(|| Err(crate::Error::Closed.into()))
    }

    fn asked(&self) -> &Asked {
        self.endpoint.machine().upper()
    }

    /// Lends the socket, for options and names.
    pub(super) fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.endpoint.machine().with_fd(use_it)
    }

    /// Tries once, whether the loop has announced something or not.
    fn attempt<R>(
        &self,
        attempt: impl FnOnce(&Datagram<RustHost, Asked>, Cx<'_, RustHost>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.with(|machine, cx| {
            let burst = &machine.upper().burst;
            let received = attempt(machine, cx);
            match &received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => burst.found_nothing(),
                _ => burst.brought(),
            }
            received
        })
    }

    pub(super) fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, A)> {
        let (count, from) = self.attempt(|machine, cx| machine.try_receive(cx, buffer))?;
        Ok((count, A::from_peer(from)?))
    }

    pub(super) fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.attempt(|machine, cx| machine.try_receive(cx, buffer)).map(|(count, _)| count)
    }

    pub(super) fn try_peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, A)> {
        let (count, from) = self.attempt(|machine, _| machine.try_peek(buffer))?;
        Ok((count, A::from_peer(from)?))
    }

    /// Sends now or not at all.
    pub(super) fn try_send(&self, data: &[u8], to: Option<&PeerAddress>) -> io::Result<usize> {
        self.with(|machine, cx| {
            if machine.is_writing_paused() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            machine.try_send(cx, data, to).map(|()| data.len())
        })
    }

    /// Receives with `attempt` as soon as the loop has announced something.
    pub(super) async fn receive<R>(&self, mut attempt: impl FnMut(&Self) -> io::Result<R>) -> io::Result<R> {
        let received = || {
            if self.asked().burst.has_more() {
                match attempt(self) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => return Some(received),
                }
            }
            self.want_readable().map(Err)
        };
        self.asked().readers.until(received).await
    }

    /// Asks for the loop's next announcement; gives the failure if it cannot.
    fn want_readable(&self) -> Option<io::Error> {
        let wanted = self.with(|machine, cx| machine.want_readable(cx, true));
        self.asked().has_readers.set(wanted.is_ok());
        wanted.err()
    }

    /// Done as soon as the loop has announced something that was not found to be nothing since.
    pub(super) async fn readable(&self) -> io::Result<()> {
        let is_there = || {
            if self.asked().burst.has_more() { Some(Ok(())) } else { self.want_readable().map(Err) }
        };
        self.asked().readers.until(is_there).await
    }

    /// Sends as soon as the kernel takes it.
    pub(super) async fn send(&self, data: &[u8], to: Option<&PeerAddress>) -> io::Result<usize> {
        let sent = || match self.try_send(data, to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            sent => Some(sent),
        };
        self.asked().writers.until(sent).await
    }

    /// Done as soon as the kernel takes more; at once if it has not refused any.
    pub(super) async fn writable(&self) -> io::Result<()> {
        let has_room = || match self.with(|machine, _| Ok(machine.is_writing_paused())) {
            Ok(true) => None,
            is_paused => Some(is_paused.map(drop)),
        };
        self.asked().writers.until(has_room).await
    }

    /// Takes the socket out of the loop's hands.
    pub(super) fn into_fd(self) -> io::Result<OwnedFd> {
        dismantle(&self.endpoint).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The descriptor's number, for messages.
    pub(super) fn number(&self) -> i32 {
        self.endpoint.machine().fd()
    }
}

impl<A> Drop for DatagramSocket<A> {
    fn drop(&mut self) {
        let socket = dismantle(&self.endpoint);
        drop(socket);
    }
}

fn dismantle(endpoint: &Rc<Endpoint<Asked>>) -> Option<OwnedFd> {
    match endpoint.with(|machine, cx| machine.dismantle(cx)) {
        Some(socket) => socket,
        // A loop that is closed has let go of it already.
        None => endpoint.machine().take_channel(),
    }
}
