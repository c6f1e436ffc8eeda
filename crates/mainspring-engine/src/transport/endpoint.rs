//! `Endpoint`: what every transport has of its descriptor, and how it parts from it.
//!
//! The descriptor has one owner, the channel. It is registered with the kernel exactly while something is wanted of it,
//! and closed after the one `connection_lost` has run: until then its number cannot be given to somebody else.

use super::{Cx, TransportHost, Upper};
use crate::Registration;
use crate::poller::Interest;
use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// See the module's text.
pub(super) struct Endpoint<H: TransportHost> {
    /// Set by `close`, `abort` or a failure: nothing is delivered any more.
    closing: Cell<bool>,
    /// Set when `connection_lost` is scheduled: nothing is sent any more.
    lost: Cell<bool>,
    fd: RawFd,
    /// Before the channel, which it is dropped before: a number that is free has no owner.
    registration: Registration,
    channel: RefCell<Option<H::Channel>>,
    /// Boxed, because most connections never have one.
    failure: Cell<Option<Box<H::Error>>>,
}

impl<H: TransportHost> Endpoint<H> {
    pub fn new(channel: H::Channel) -> Self {
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

    /// Makes the descriptor the transport's own, in the end of its beginning: those who watched it are told, and may do
    /// anything.
    pub fn own(&self, cx: Cx<'_, H>) {
        self.registration.own(cx.engine, self.fd);
    }

    /// The descriptor's number; still told after it is closed, for messages.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// What the kernel is asked for at this moment.
    pub fn interest(&self) -> Interest {
        self.registration.interest()
    }

    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Marks the transport as closing; whether it was already.
    pub fn begin_closing(&self) -> bool {
        self.closing.replace(true)
    }

    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Whether `connection_lost` has run and the descriptor is closed.
    pub fn is_finished(&self) -> bool {
        self.channel.borrow().is_none()
    }

    pub fn take_channel(&self) -> Option<H::Channel> {
        self.registration.give_up();
        self.channel.borrow_mut().take()
    }

    /// Puts another owner of the same descriptor in the channel's place. Nothing happens once the channel is gone.
    /// `exchange` must not call out: the channel is borrowed.
    pub fn replace_channel(&self, exchange: impl FnOnce(H::Channel) -> H::Channel) {
        let mut channel = self.channel.borrow_mut();
        *channel = channel.take().map(exchange);
    }

    /// Shows the channel to the garbage collector, unless it is being changed at this moment.
    pub fn show_channel(&self, show: &mut dyn FnMut(&H::Channel)) {
        if let Ok(channel) = self.channel.try_borrow() {
            channel.iter().for_each(show);
        }
    }

    /// Shows what the connection was lost by, likewise.
    pub fn show_failure(&self, show: &mut dyn FnMut(&H::Error)) {
        let failure = self.failure.take();
        failure.iter().for_each(|failure| show(failure));
        self.failure.set(failure);
    }

    /// Whether the descriptor is lent at this moment, so that it cannot be taken away.
    pub fn is_lent(&self) -> bool {
        self.channel.try_borrow_mut().is_err()
    }

    /// Lends the descriptor for one system call.
    #[inline]
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        use_it(self.lend()?.as_fd())
    }

    /// The channel, until what is lent is dropped; for what is called too often for [`Endpoint::with_fd`], which the compiler
    /// may make a call of.
    #[inline(always)]
    pub fn lend(&self) -> io::Result<Ref<'_, H::Channel>> {
        Ref::filter_map(self.channel.borrow(), Option::as_ref).map_err(|_| io::ErrorKind::NotConnected.into())
    }

    /// Adds a direction to what is wanted of the kernel, or takes it out.
    pub fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> io::Result<()> {
        let now = self.registration.interest();
        self.set_interest(cx, if wanted { now.with(direction) } else { now.without(direction) })
    }

    /// Wants nothing more. The descriptor is closed in a moment: what the kernel makes of this does not matter.
    pub fn deregister(&self, cx: Cx<'_, H>) {
        let _ = self.set_interest(cx, Interest::NONE);
    }

    fn set_interest(&self, cx: Cx<'_, H>, interest: Interest) -> io::Result<()> {
        self.with_fd(|fd| self.registration.set(cx.engine, fd, cx.this, interest))
    }

    /// Marks the connection as lost by `error`; `false` if it was already. `connection_lost` is to follow, once.
    pub fn mark_lost(&self, error: Option<H::Error>) -> bool {
        if self.lost.replace(true) {
            return false;
        }
        self.failure.set(error.map(Box::new));
        true
    }

    /// Schedules the one `connection_lost`, which will be told `error`.
    pub fn lose(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        // Before the face is asked, which may come back here.
        if self.lost.replace(true) {
            return Ok(());
        }
        let call = cx.host().lost_notice(cx.this, error.as_ref());
        self.failure.set(error.map(Box::new));
        let scheduled = cx.call_soon(call?);
        if scheduled.is_err() {
            // Nobody will tell the end: it can be asked for again.
            self.lost.set(false);
        }
        scheduled
    }

    /// The end: tells the protocol what the connection was lost by, closes the descriptor, and lets go of the protocol.
    pub fn finish(
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

    /// The end of a transport with a protocol of streams above.
    pub fn finish_with<U: Upper<H>>(&self, cx: Cx<'_, H>, upper: &U) -> Result<(), H::Error> {
        self.finish(cx, |error| upper.connection_lost(cx, error), || upper.detach(cx))
    }
}
