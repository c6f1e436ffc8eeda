//! The lower half of a transport: the owner of its descriptor, what the kernel is asked about it, and how far its
//! life has come.
//!
//! | flag | set when | then |
//! | --- | --- | --- |
//! | `closing` | by `close`, `abort` or a failure | nothing is delivered any more |
//! | `lost` | when `connection_lost` is scheduled or called | what is written is counted and dropped |
//! | `reading_paused` | by `pause_reading` | nothing is received until `resume_reading` |

use super::{Cx, Notice, TransportHost};
use crate::engine::Registration;
use crate::poller::{Interest, Key};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// From so many writes on a lost connection on, each one is worth a warning (asyncio's number).
const WARN_AFTER_LOST_WRITES: u32 = 5;

/// See the module's text.
pub(super) struct Endpoint<H: TransportHost> {
    channel: RefCell<Option<H::Channel>>,
    fd: RawFd,
    registration: Registration,
    failure: Cell<Option<H::Error>>,
    lost_writes: Cell<u32>,
    closing: Cell<bool>,
    lost: Cell<bool>,
    reading_paused: Cell<bool>,
}

impl<H: TransportHost> Endpoint<H> {
    pub fn new(channel: H::Channel) -> Self {
        let fd = channel.as_fd().as_raw_fd();
        Endpoint {
            channel: RefCell::new(Some(channel)),
            fd,
            registration: Registration::default(),
            failure: Cell::new(None),
            lost_writes: Cell::new(0),
            closing: Cell::new(false),
            lost: Cell::new(false),
            reading_paused: Cell::new(false),
        }
    }

    /// Schedules `connection_made`, and the start of reading after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::ConnectionMade)?);
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::StartReading)?);
        Ok(())
    }

    /// The descriptor's number; still told after it is closed.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    pub fn take_channel(&self) -> Option<H::Channel> {
        self.channel.borrow_mut().take()
    }

    pub fn put_channel(&self, channel: H::Channel) {
        let former = self.channel.borrow_mut().replace(channel);
        drop(former);
    }

    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Whether the descriptor is gone.
    pub fn is_finished(&self) -> bool {
        self.channel.borrow().is_none()
    }

    pub fn is_reading(&self) -> bool {
        !self.closing.get() && !self.reading_paused.get()
    }

    pub fn interest(&self) -> Interest {
        self.registration.interest()
    }

    /// Begins to close; `false` if that has begun before.
    pub fn begin_closing(&self) -> bool {
        !self.closing.replace(true)
    }

    /// Pauses reading; `false` if it is paused or closing already. The kernel is the caller's to tell.
    pub fn pause_reading(&self) -> bool {
        self.is_reading() && !self.reading_paused.replace(true)
    }

    /// Resumes reading; `false` if it is not paused, or closing.
    pub fn resume_reading(&self) -> bool {
        !self.closing.get() && self.reading_paused.replace(false)
    }

    /// Schedules the one `connection_lost`.
    pub fn lose(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        if self.lost.get() {
            return Ok(());
        }
        self.mark_lost(error);
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::ConnectionLost)?);
        Ok(())
    }

    /// Counts as lost from here on; `connection_lost` is the caller's to call.
    pub fn mark_lost(&self, error: Option<H::Error>) {
        self.lost.set(true);
        self.lost_writes.set(1);
        self.failure.set(error);
    }

    /// What `connection_lost` is to be told.
    pub fn take_failure(&self) -> Option<H::Error> {
        self.failure.take()
    }

    /// Something was written although the connection is gone.
    pub fn written_after_loss(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let writes = self.lost_writes.get();
        if writes >= WARN_AFTER_LOST_WRITES {
            cx.host().warn_write_after_loss(cx.this)?;
        }
        self.lost_writes.set(writes.saturating_add(1));
        Ok(())
    }

    /// Takes the descriptor out of the kernel's set and closes it.
    pub fn finish(&self, cx: Cx<'_, H>) {
        // What the kernel makes of this no longer matters.
        let _ = self.set_interest(cx, Interest::NONE);
        let channel = self.take_channel();
        drop(channel);
    }

    /// Adds a direction to what the kernel is asked, or takes it away.
    pub fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> io::Result<()> {
        let now = self.registration.interest();
        let interest = if wanted { now.with(direction) } else { now.without(direction) };
        self.set_interest(cx, interest)
    }

    pub fn set_interest(&self, cx: Cx<'_, H>, interest: Interest) -> io::Result<()> {
        self.with_fd(|fd, _| self.registration.set(cx.engine, fd, cx.this, interest))
    }

    /// Uses the descriptor, and the key to claim with. `use_it` must not call out.
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>, Key) -> io::Result<R>) -> io::Result<R> {
        match self.channel.borrow().as_ref() {
            Some(channel) => use_it(channel.as_fd(), self.registration.key()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
