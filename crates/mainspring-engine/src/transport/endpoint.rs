//! `Endpoint`: the fd of a transport and its closing. `Transport`: the methods that all transports have because of it.
//!
//! The channel is the only owner of the fd. The fd is registered exactly while the transport has an interest, and
//! closed after the one `connection_lost` has run: until then the kernel cannot reuse its number.

use super::{Cx, ProtocolSink, TransportHost};
use crate::Registration;
use crate::poller::Interest;
use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// The fd of a transport and its closing.
pub struct Endpoint<H: TransportHost> {
    /// Set by `close`, `abort` or an error: no more data is delivered.
    closing: Cell<bool>,
    /// Set when `connection_lost` is scheduled: no more data is sent.
    lost: Cell<bool>,
    fd: RawFd,
    /// Declared before the channel, so that it is dropped first: the number must have no owner when the fd is closed.
    registration: Registration<H>,
    channel: RefCell<Option<H::Channel>>,
    /// Boxed, because most connections never have one.
    failure: Cell<Option<Box<H::Error>>>,
}

/// A transport with an fd: [`Stream`](super::Stream), [`Datagram`](super::Datagram), [`ReadPipe`](super::ReadPipe) or
/// [`WritePipe`](super::WritePipe).
pub trait Transport<H: TransportHost> {
    /// The fd and its state.
    #[doc(hidden)]
    fn endpoint(&self) -> &Endpoint<H>;

    /// The fd number, also after it is closed, for messages.
    fn fd(&self) -> RawFd {
        self.endpoint().fd
    }

    /// Lends the fd for one system call; `NotConnected` once it is closed.
    fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.endpoint().with_fd(use_it)
    }

    /// Takes the channel out of an unregistered transport that is dropped without having been closed.
    fn take_channel(&self) -> Option<H::Channel> {
        self.endpoint().take_channel()
    }

    /// Deregisters the fd and takes the channel out.
    fn release(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        self.endpoint().deregister(cx);
        self.endpoint().take_channel()
    }

    /// Shows the channel to the garbage collector, unless it is mutably borrowed.
    fn show_channel(&self, show: &mut dyn FnMut(&H::Channel)) {
        if let Ok(channel) = self.endpoint().channel.try_borrow() {
            channel.iter().for_each(show);
        }
    }

    /// Shows the error for the pending `connection_lost` to the garbage collector.
    fn show_failure(&self, show: &mut dyn FnMut(&H::Error)) {
        let failure = self.endpoint().failure.take();
        failure.iter().for_each(|failure| show(failure));
        self.endpoint().failure.set(failure);
    }

    /// Whether the transport is closing or closed.
    fn is_closing(&self) -> bool {
        self.endpoint().is_closing()
    }

    /// Whether `connection_lost` has run, or will in the next iteration.
    fn is_lost(&self) -> bool {
        self.endpoint().is_lost()
    }

    /// Whether `connection_lost` has run and the fd is closed.
    fn is_finished(&self) -> bool {
        self.endpoint().channel.borrow().is_none()
    }

    /// The registered interest.
    fn interest(&self) -> Interest {
        self.endpoint().interest()
    }
}

impl<H: TransportHost> Endpoint<H> {
    pub(super) fn new(channel: H::Channel) -> Self {
        let fd = channel.as_fd().as_raw_fd();
        Endpoint {
            channel: RefCell::new(Some(channel)),
            fd,
            registration: Registration::default(),
            failure: Cell::new(None),
            closing: Cell::new(false),
            lost: Cell::new(false),
        }
    }

    /// Takes ownership of the fd. Called last in `open`: the host gets the displaced watches and may run user code.
    pub(super) fn own(&self, cx: Cx<'_, H>) {
        self.registration.own(cx.engine, self.fd, cx.host().owner(cx.this));
    }

    /// The registered interest.
    pub(super) fn interest(&self) -> Interest {
        self.registration.interest()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Marks the transport as closing. Returns whether it already was.
    pub(super) fn begin_closing(&self) -> bool {
        self.closing.replace(true)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.get()
    }

    pub(super) fn take_channel(&self) -> Option<H::Channel> {
        self.registration.give_up();
        self.channel.borrow_mut().take()
    }

    /// Replaces the channel by another owner of the same fd. No effect once the channel is gone. `exchange` must not
    /// run user code: the channel is borrowed.
    pub(super) fn replace_channel(&self, exchange: impl FnOnce(H::Channel) -> H::Channel) {
        let mut channel = self.channel.borrow_mut();
        *channel = channel.take().map(exchange);
    }

    /// Whether the channel is borrowed, so that it cannot be taken.
    pub(super) fn is_lent(&self) -> bool {
        self.channel.try_borrow_mut().is_err()
    }

    /// Lends the fd for one system call.
    #[inline]
    pub(super) fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        use_it(self.lend()?.as_fd())
    }

    /// Borrows the channel. Always inlined, for the hot path.
    #[inline(always)]
    pub(super) fn lend(&self) -> io::Result<Ref<'_, H::Channel>> {
        Ref::filter_map(self.channel.borrow(), Option::as_ref).map_err(|_| io::ErrorKind::NotConnected.into())
    }

    /// Adds or removes a direction of interest.
    pub(super) fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> io::Result<()> {
        let now = self.registration.interest();
        self.set_interest(cx, if wanted { now.with(direction) } else { now.without(direction) })
    }

    /// Removes all interest. An error does not matter: the fd is about to be closed.
    pub(super) fn deregister(&self, cx: Cx<'_, H>) {
        let _ = self.set_interest(cx, Interest::NONE);
    }

    fn set_interest(&self, cx: Cx<'_, H>, interest: Interest) -> io::Result<()> {
        self.with_fd(|fd| self.registration.set(cx.engine, fd, cx.this, interest))
    }

    /// Marks the connection as lost by `error`; `false` if it already was. One `connection_lost` must follow.
    pub(super) fn mark_lost(&self, error: Option<H::Error>) -> bool {
        if self.lost.replace(true) {
            return false;
        }
        self.failure.set(error.map(Box::new));
        true
    }

    /// Schedules the one `connection_lost`, with `error`.
    pub(super) fn lose(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        // Set before the host is called, which may re-enter.
        if self.lost.replace(true) {
            return Ok(());
        }
        let call = cx.host().deferred_connection_lost(cx.this, error.as_ref());
        self.failure.set(error.map(Box::new));
        let scheduled = cx.call_soon(call?);
        if scheduled.is_err() {
            // `connection_lost` is not scheduled: allow another attempt.
            self.lost.set(false);
        }
        scheduled
    }

    /// Calls `connection_lost`, closes the fd, and detaches the protocol.
    pub(super) fn finish(
        &self,
        cx: Cx<'_, H>,
        connection_lost: impl FnOnce(Option<H::Error>) -> Result<(), H::Error>,
        detach: impl FnOnce() -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        let result = connection_lost(self.failure.take().map(|failure| *failure));
        self.deregister(cx);
        let channel = self.take_channel();
        drop(channel);
        cx.host().merge_outcomes(result, detach())
    }

    /// As [`Endpoint::finish`], for a stream protocol.
    pub(super) fn finish_with<U: ProtocolSink<H>>(&self, cx: Cx<'_, H>, sink: &U) -> Result<(), H::Error> {
        self.finish(cx, |error| sink.connection_lost(cx, error), || sink.detach(cx))
    }
}
