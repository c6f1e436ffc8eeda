//! The datagram transport: UDP and Unix datagram sockets.
//!
//! Its life cycle is that of a stream: `open`, then `close`, `abort` or an error, and one `connection_lost`. But a
//! system error for one datagram (an unreachable peer, a missing route) does not end the transport: it goes to
//! `error_received`.
//!
//! # Order
//!
//! A datagram is sent at once if the queue is empty. Otherwise it is queued with its destination and sent in order,
//! one system call each. A queued datagram that fails is reported and dropped, and those behind it wait for the next
//! event, so that a thousand failures do not block the loop.
//!
//! In asyncio, calls scheduled by the callback of a datagram run before the next one is delivered, and protocols rely
//! on that (a future that one datagram resolves and its waiter replaces). An event therefore receives a second
//! datagram only if the loop has nothing else to do: the next iteration would do just that. The order is the same,
//! with fewer system calls. The number per event is bounded: see `burst.rs`.
//!
//! For a host whose users poll for datagrams, see `datagram/pollable.rs`.

mod burst;
mod pollable;
mod queue;

pub use burst::Burst;
pub use queue::Queued;

use super::endpoint::{Endpoint, Transport};
use super::{Cx, DeferredCall, FlowControl, TransportHost, WaterMarks, count_lost_write, is_retryable};
use crate::Readiness;
use crate::poller::{Interest, PeerAddress};
use queue::DatagramQueue;
use std::cell::{Cell, RefCell};

/// The longest datagram that is received whole (asyncio's number). UDP datagrams are shorter, Unix ones may be
/// longer.
pub const MAX_DATAGRAM: usize = 256 * 1024;

/// The destination of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination<F> {
    /// The connected peer.
    Connected,
    /// This address.
    Address(PeerAddress),
    /// A destination that only the host can send to: a host name to resolve, or an invalid address.
    Foreign(F),
}

/// Why a datagram was not sent or received.
#[derive(Debug)]
pub enum Refusal<E> {
    /// The call would block.
    WouldBlock,
    /// A system error: it goes to the protocol, and the transport continues.
    System(E),
    /// Another error, which ends the transport.
    Fatal(E),
}

/// The outcome of [`DatagramSink::receive_foreign`]: no datagram, or a delivered one with the protocol's result.
pub type Received<E> = Result<Result<(), E>, Refusal<E>>;

/// The protocol above a datagram transport. Every method may call any method of any transport, this one included.
pub trait DatagramSink<H: TransportHost> {
    /// See [`Destination::Foreign`].
    type Foreign;

    /// The endpoint is ready.
    fn connection_made(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// A datagram arrived.
    fn datagram_received(&self, cx: Cx<'_, H>, data: &[u8], from: PeerAddress) -> Result<(), H::Error>;

    /// A system error of sending or receiving a datagram.
    fn error_received(&self, cx: Cx<'_, H>, error: H::Error) -> Result<(), H::Error>;

    /// Receives and delivers a datagram on a socket with an address family that only the host supports; `None` leaves
    /// it to the transport.
    fn receive_foreign(&self, cx: Cx<'_, H>) -> Option<Received<H::Error>> {
        let _ = cx;
        None
    }

    /// Sends to a foreign destination.
    fn send_foreign(&self, cx: Cx<'_, H>, data: &[u8], to: &Self::Foreign) -> Result<(), Refusal<H::Error>>;

    /// The endpoint is closed; `None` after an orderly close. Called last, and once.
    fn connection_lost(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error>;

    /// The queue is above the high-water mark.
    fn pause_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// The queue is at or below the low-water mark again.
    fn resume_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Drops everything that the protocol holds for this endpoint: the transport has ended.
    fn detach(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;
}

/// A queued datagram.
pub type QueuedDatagram<H, U> =
    Queued<<H as TransportHost>::Chunk, Destination<<U as DatagramSink<H>>::Foreign>>;

/// A datagram endpoint: a UDP or Unix datagram socket, and the protocol above it ([`DatagramSink`]).
pub struct Datagram<H: TransportHost, U: DatagramSink<H>> {
    sink: U,
    endpoint: Endpoint<H>,
    queue: RefCell<DatagramQueue<H::Chunk, Destination<U::Foreign>>>,
    flow: FlowControl,
    reading_paused: Cell<bool>,
    lost_writes: Cell<u32>,
    burst: Burst,
    drops_when_lost: bool,
}

impl<H: TransportHost, U: DatagramSink<H>> Transport<H> for Datagram<H, U> {
    fn endpoint(&self) -> &Endpoint<H> {
        &self.endpoint
    }
}

impl<H: TransportHost, U: DatagramSink<H>> Datagram<H, U> {
    /// A transport on a non-blocking datagram socket. Each queued datagram counts `header` bytes in addition to its
    /// own. Inactive before [`Datagram::open`].
    ///
    /// Between `close` and `connection_lost` the transport still sends datagrams that the kernel takes at once,
    /// unless `drops_when_lost`: asyncio's rules for endpoints without and with a remote address.
    pub fn new(channel: H::Channel, sink: U, header: usize, drops_when_lost: bool) -> Self {
        Datagram {
            sink,
            endpoint: Endpoint::new(channel),
            queue: RefCell::new(DatagramQueue::new(header)),
            flow: FlowControl::default(),
            reading_paused: Cell::new(false),
            lost_writes: Cell::new(1),
            burst: Burst::default(),
            drops_when_lost,
        }
    }

    /// Schedules `connection_made`, and the start of receiving after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::ConnectionMade)?)?;
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::StartReading)?)?;
        self.endpoint.own(cx);
        Ok(())
    }

    /// The protocol.
    pub fn sink(&self) -> &U {
        &self.sink
    }

    /// Whether the transport receives, or will after [`DeferredCall::StartReading`].
    pub fn is_reading(&self) -> bool {
        !self.is_closing() && !self.reading_paused.get()
    }

    /// Whether the protocol is paused by back-pressure.
    pub fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    /// Queued bytes, including headers.
    pub fn write_buffer_size(&self) -> usize {
        self.queue.borrow().weight()
    }

    /// The water marks.
    pub fn water_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    /// Sets the water marks, and pauses the protocol if the queue exceeds the new high mark.
    pub fn set_water_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.flow.set_marks(marks);
        self.maybe_pause_protocol(cx)
    }

    /// Shows the queued datagrams; none while the queue is mutably borrowed. `show` must not run user code.
    pub fn for_each_queued(&self, show: &mut dyn FnMut(&QueuedDatagram<H, U>)) {
        if let Ok(queue) = self.queue.try_borrow() {
            queue.iter().for_each(show);
        }
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        match deferred {
            DeferredCall::ConnectionMade => self.sink.connection_made(cx),
            DeferredCall::StartReading => self.want(cx, Interest::READ, self.is_reading()),
            DeferredCall::ConnectionLost => self.finish(cx),
            _ => Ok(()),
        }
    }

    /// Handles readiness. Errors of the protocol go to the exception handler and do not end the transport.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        // Use the current interest, not that of the event.
        if readiness.inbound && self.endpoint.interest().is_inbound() {
            self.receive_some(cx)?;
        }
        if readiness.outbound && self.endpoint.interest().is_outbound() {
            self.flush(cx)?;
        }
        Ok(())
    }

    /// Stops receiving. Returns `false` if nothing changed.
    pub fn pause_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if !self.is_reading() {
            return Ok(false);
        }
        self.reading_paused.set(true);
        self.want(cx, Interest::READ, false)?;
        Ok(true)
    }

    /// Receives again. Returns `false` if nothing changed.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.is_closing() || !self.reading_paused.replace(false) {
            return Ok(false);
        }
        self.want(cx, Interest::READ, true)?;
        Ok(true)
    }

    /// Sends a datagram at once if the queue is empty and the kernel takes it, else later. `keep` returns the chunk
    /// with `data` for the queue, `None` if there is no memory, which is an error. `Err` may also be an error of
    /// `error_received`, as in asyncio.
    pub fn send_to(
        &self,
        cx: Cx<'_, H>,
        data: &[u8],
        destination: Destination<U::Foreign>,
        keep: impl FnOnce() -> Option<H::Chunk>,
    ) -> Result<(), H::Error> {
        if self.endpoint.is_lost() && (self.drops_when_lost || self.is_finished()) {
            return count_lost_write(cx, &self.lost_writes);
        }
        if self.queue.borrow().is_empty() {
            match self.send(cx, data, &destination) {
                Ok(()) => return Ok(()),
                Err(Refusal::WouldBlock) => {}
                Err(Refusal::System(error)) => return self.sink.error_received(cx, error),
                Err(Refusal::Fatal(error)) => return self.write_failed(cx, error),
            }
        }
        if self.endpoint.is_lost() {
            // The transport has ended: a queued datagram would never be sent.
            return Ok(());
        }
        let Some(chunk) = keep() else { return Err(cx.out_of_memory()) };
        if !self.queue.borrow_mut().try_reserve_one() {
            return Err(cx.out_of_memory());
        }
        self.queue.borrow_mut().push(Queued { chunk, destination });
        self.want(cx, Interest::WRITE, true)?;
        self.maybe_pause_protocol(cx)
    }

    /// Closes in order: stops receiving, sends queued data, then calls `connection_lost`.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.endpoint.begin_closing() {
            return Ok(());
        }
        if self.queue.borrow().is_empty() {
            self.endpoint.deregister(cx);
            return self.endpoint.lose(cx, None);
        }
        self.want(cx, Interest::READ, false)
    }

    /// Closes at once: drops queued data. `connection_lost` gets `error`.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        if self.endpoint.is_lost() {
            return Ok(());
        }
        let unsent = self.queue.borrow_mut().take();
        self.endpoint.begin_closing();
        self.endpoint.deregister(cx);
        let scheduled = self.endpoint.lose(cx, error);
        drop(unsent);
        scheduled
    }

    /// Receives one datagram, and more if that keeps the order: see the module's documentation.
    fn receive_some(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.burst.begin();
        loop {
            if !self.receive(cx)? {
                self.burst.found_nothing();
                return Ok(());
            }
            self.burst.brought();
            if !self.burst.has_more() || cx.engine.is_busy() || !self.endpoint.interest().is_inbound() {
                return Ok(());
            }
        }
    }

    /// Receives one datagram or error; `false` if there was none.
    fn receive(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if let Some(received) = self.sink.receive_foreign(cx) {
            match received {
                Ok(delivered) => self.delivered(cx, delivered)?,
                Err(Refusal::WouldBlock) => return Ok(false),
                Err(Refusal::System(error)) => self.deliver_error(cx, error)?,
                Err(Refusal::Fatal(error)) => {
                    self.fatal(cx, error, "Fatal read error on datagram transport")?;
                }
            }
            return Ok(true);
        }
        cx.engine.with_read_buffer_of(MAX_DATAGRAM, |scratch| {
            match self.endpoint.with_fd(|fd| cx.engine.with_poller(|poller| poller.recv_from(fd, scratch))) {
                Ok((length, from)) => {
                    cx.engine.add_received(length);
                    let data = scratch.get(..length).unwrap_or_default();
                    self.delivered(cx, self.sink.datagram_received(cx, data, from))?;
                }
                Err(error) if is_retryable(&error) => return Ok(false),
                Err(error) => self.deliver_error(cx, cx.host().os_error(error))?,
            }
            Ok(true)
        })
    }

    fn delivered(&self, cx: Cx<'_, H>, result: Result<(), H::Error>) -> Result<(), H::Error> {
        report(cx, result, "protocol.datagram_received() failed")
    }

    /// Sends queued data.
    fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        loop {
            // Removed from the queue while it is sent: a foreign destination runs user code.
            let first = self.queue.borrow_mut().pop();
            let Some(first) = first else { break };
            match self.send(cx, first.chunk.as_ref(), &first.destination) {
                Ok(()) => {}
                Err(Refusal::WouldBlock) => {
                    if !self.endpoint.is_lost() {
                        self.queue.borrow_mut().put_back(first);
                    }
                    break;
                }
                // Still registered for writing: the next event continues, and resumes the protocol.
                Err(Refusal::System(error)) => return self.deliver_error(cx, error),
                Err(Refusal::Fatal(error)) => return self.write_failed(cx, error),
            }
        }
        self.maybe_resume_protocol(cx)?;
        // The protocol may have sent, closed or aborted when it was resumed.
        if !self.queue.borrow().is_empty() || self.flow.is_paused() || self.endpoint.is_lost() {
            return Ok(());
        }
        self.want(cx, Interest::WRITE, false)?;
        // If deregistering failed, the transport has already ended.
        if !self.is_closing() || self.endpoint.is_lost() {
            return Ok(());
        }
        // Called from the loop, not from the protocol, so `connection_lost` can run at once.
        self.endpoint.mark_lost(None);
        self.finish(cx)
    }

    fn send(
        &self,
        cx: Cx<'_, H>,
        data: &[u8],
        destination: &Destination<U::Foreign>,
    ) -> Result<(), Refusal<H::Error>> {
        let address = match destination {
            Destination::Connected => None,
            Destination::Address(address) => Some(address),
            Destination::Foreign(foreign) => return self.sink.send_foreign(cx, data, foreign),
        };
        let sent =
            self.endpoint.with_fd(|fd| cx.engine.with_poller(|poller| poller.send_to(fd, data, address)));
        sent.inspect(|()| cx.engine.add_sent(data.len())).map_err(|error| match error {
            error if is_retryable(&error) => Refusal::WouldBlock,
            error => Refusal::System(cx.host().os_error(error)),
        })
    }

    /// Gives an error to the protocol during an event, where it has no caller to return to.
    fn deliver_error(&self, cx: Cx<'_, H>, error: H::Error) -> Result<(), H::Error> {
        report(cx, self.sink.error_received(cx, error), "protocol.error_received() failed")
    }

    fn maybe_pause_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.grown(cx, self.write_buffer_size(), || self.sink.pause_writing(cx))
    }

    fn maybe_resume_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.shrunk(cx, self.write_buffer_size(), || self.sink.resume_writing(cx))
    }

    fn write_failed(&self, cx: Cx<'_, H>, error: H::Error) -> Result<(), H::Error> {
        self.fatal(cx, error, "Fatal write error on datagram transport")
    }

    fn fatal(&self, cx: Cx<'_, H>, error: H::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.abort(cx, Some(error))
    }

    fn finish(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let connection_lost = |error| self.sink.connection_lost(cx, error);
        self.endpoint.finish(cx, connection_lost, || self.sink.detach(cx))
    }

    fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> Result<(), H::Error> {
        match self.endpoint.want(cx, direction, wanted) {
            Ok(()) => Ok(()),
            Err(error) => {
                let error = cx.host().os_error(error);
                self.fatal(cx, error, "Fatal error: the socket cannot be watched")
            }
        }
    }
}

/// Reports an error of the protocol to the exception handler.
fn report<H: TransportHost>(
    cx: Cx<'_, H>,
    result: Result<(), H::Error>,
    message: &str,
) -> Result<(), H::Error> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => cx.host().report(cx.this, error, message),
    }
}
