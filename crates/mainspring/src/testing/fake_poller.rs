//! `FakePoller`: a back end with planned faults, injected events and a log of its calls.
//!
//! It wraps the real back end: a call without a planned fault happens on the real descriptors.

use super::fault::{FaultPlan, Op};
use mainspring_engine::poller::Readiness;
use mainspring_engine::testing as engine;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The poller of a loop, for [`Builder::backend`](crate::Builder::backend); created by [`FakePoller`]. It stays on its
/// thread (`!Send`).
///
/// ```
/// use mainspring::testing::{Backend, FakePoller};
///
/// let (backend, _control): (Backend, _) = FakePoller::open()?;
/// let event_loop = mainspring::Builder::new().backend(backend).build()?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Backend(pub(crate) mainspring_engine::poller::Backend);

/// For tests of this crate, which use the types of the engine.
#[doc(hidden)]
impl From<mainspring_engine::poller::Backend> for Backend {
    fn from(backend: mainspring_engine::poller::Backend) -> Self {
        Backend(backend)
    }
}

/// A back end that fails on demand. [`FakeControl`] plans the faults.
///
/// ```
/// use mainspring::testing::{FakePoller, Op};
/// use mainspring::{Builder, Error, sleep};
/// use std::time::Duration;
///
/// let (backend, control) = FakePoller::open()?;
/// let event_loop = Builder::new().backend(backend).build()?;
/// // The kernel has no memory for the next poll.
/// control.fail_next(Op::Park, 12);
/// let slept = event_loop.run_until_complete(sleep(Duration::from_millis(1)));
/// assert!(matches!(slept, Err(Error::Io(_))));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
pub struct FakePoller(());

impl FakePoller {
    /// A fake on top of epoll, and its control. Fails if the system has no descriptor left.
    pub fn open() -> io::Result<(Backend, FakeControl)> {
        let (backend, control) = engine::FakePoller::open()?;
        Ok((Backend(backend), FakeControl(control)))
    }
}

/// Controls a [`FakePoller`]. Clones control the same one. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::testing::FakePoller;
/// use mainspring::{Builder, EventLoop};
///
/// let (backend, control) = FakePoller::open()?;
/// let event_loop = Builder::new().backend(backend).build()?;
/// control.limit_next_send(2);
/// control.limit_next_recv(1);
/// event_loop.run_until_complete(async {
///     let event_loop = EventLoop::current();
///     let (socket, peer) = std::os::unix::net::UnixStream::pair()?;
///     // The kernel takes two bytes, then one.
///     event_loop.sock_sendall(&peer, b"abc").await?;
///     assert_eq!(event_loop.sock_recv(&socket, 100).await?, b"a");
///     assert_eq!(event_loop.sock_recv(&socket, 100).await?, b"bc");
///     std::io::Result::Ok(())
/// })??;
/// assert_eq!(control.pending_faults(), 0);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct FakeControl(engine::FakeControl);

impl FakeControl {
    /// Plans a fault. See [`FaultPlan`].
    pub fn plan(&self, plan: FaultPlan) {
        self.0.plan(plan.engine_plan());
    }

    /// The next `op` on any descriptor fails with the error number `errno`.
    ///
    /// ```
    /// use mainspring::testing::{FakePoller, Op};
    ///
    /// let (_backend, control) = FakePoller::open()?;
    /// control.fail_next(Op::Recv, 104);
    /// assert_eq!(control.pending_faults(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn fail_next(&self, op: Op, errno: i32) {
        self.plan(FaultPlan::fail(op, errno));
    }

    /// The next receive returns at most `bytes`.
    pub fn limit_next_recv(&self, bytes: usize) {
        self.plan(FaultPlan::short_recv(bytes));
    }

    /// The next send takes at most `bytes`.
    pub fn limit_next_send(&self, bytes: usize) {
        self.plan(FaultPlan::short_send(bytes));
    }

    /// Cancels all plans.
    ///
    /// ```
    /// use mainspring::testing::{FakePoller, FaultPlan};
    ///
    /// let (_backend, control) = FakePoller::open()?;
    /// control.plan(FaultPlan::short_recv(1).every_time());
    /// control.clear_faults();
    /// assert_eq!(control.pending_faults(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn clear_faults(&self) {
        self.0.clear_faults();
    }

    /// The number of plans that have not failed as many calls as planned.
    pub fn pending_faults(&self) -> usize {
        self.0.pending_faults()
    }

    /// The next poll reports `fd` as readable, whether it is or not, and no real events. Returns `false` if the loop
    /// has not registered `fd`.
    ///
    /// ```
    /// use std::{cell::Cell, os::fd::AsRawFd, rc::Rc};
    ///
    /// let (backend, control) = mainspring::testing::FakePoller::open()?;
    /// let event_loop = mainspring::Builder::new().backend(backend).build()?;
    /// let (socket, _peer) = std::os::unix::net::UnixStream::pair()?;
    /// let calls = Rc::new(Cell::new(0));
    /// let counted = Rc::clone(&calls);
    /// event_loop.add_reader(&socket, move || counted.set(counted.get() + 1))?;
    /// assert!(control.inject_readable(socket.as_raw_fd()));
    /// assert!(!control.inject_writable(-1));
    /// event_loop.run_once()?;
    /// event_loop.run_once()?;
    /// assert_eq!(calls.get(), 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn inject_readable(&self, fd: RawFd) -> bool {
        self.inject(fd, Readiness::INBOUND)
    }

    /// The next poll reports `fd` as writable. Otherwise as [`inject_readable`](FakeControl::inject_readable).
    pub fn inject_writable(&self, fd: RawFd) -> bool {
        self.inject(fd, Readiness::OUTBOUND)
    }

    fn inject(&self, fd: RawFd, readiness: Readiness) -> bool {
        let key = self.0.key_of(fd);
        key.inspect(|&key| self.0.inject(key, readiness)).is_some()
    }

    /// Every call since the log was last taken, oldest first.
    ///
    /// ```
    /// use mainspring::{Builder, sleep, testing::{FakePoller, Op}};
    /// use std::time::Duration;
    ///
    /// let (backend, control) = FakePoller::open()?;
    /// let event_loop = Builder::new().backend(backend).build()?;
    /// event_loop.run_until_complete(sleep(Duration::from_millis(1)))?;
    /// assert!(control.log().iter().any(|entry| entry.call.op() == Op::Park));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn log(&self) -> Vec<LogEntry> {
        self.0.log().into_iter().map(LogEntry::from_engine).collect()
    }

    /// Every call since the log was last taken. The log is empty afterwards.
    ///
    /// ```
    /// let (backend, control) = mainspring::testing::FakePoller::open()?;
    /// let event_loop = mainspring::Builder::new().backend(backend).build()?;
    /// event_loop.run_until_complete(async {})?;
    /// control.take_log();
    /// assert!(control.log().is_empty());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn take_log(&self) -> Vec<LogEntry> {
        self.0.take_log().into_iter().map(LogEntry::from_engine).collect()
    }
}

/// A call of the back end, and its arguments.
///
/// ```
/// use mainspring::testing::{FakePoller, Op};
/// use mainspring::{Builder, EventLoop};
/// use std::os::fd::AsRawFd;
///
/// let (backend, control) = FakePoller::open()?;
/// let event_loop = Builder::new().backend(backend).build()?;
/// let (socket, _peer) = std::os::unix::net::UnixStream::pair()?;
/// event_loop.run_until_complete(async { EventLoop::current().sock_sendall(&socket, b"abc").await })??;
/// event_loop.run_once()?;
/// let log = control.take_log();
/// let sent = log.iter().find(|entry| entry.call.op() == Op::Send).unwrap();
/// assert_eq!((sent.call.fd(), sent.call.bytes(), sent.result), (Some(socket.as_raw_fd()), Some(3), Ok(3)));
/// let polled = log.iter().find(|entry| entry.call.op() == Op::Park).unwrap();
/// assert_eq!((polled.call.fd(), polled.call.bytes()), (None, None));
/// assert!(polled.call.timeout().is_some());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call(engine::Call);

impl Call {
    /// The operation.
    pub const fn op(&self) -> Op {
        Op::from_engine(self.0.op())
    }

    /// The descriptor; `None` for [`Op::Park`].
    pub const fn fd(&self) -> Option<RawFd> {
        self.0.fd()
    }

    /// The size of the buffer to fill, or the number of bytes to send. `None` for operations without data.
    pub fn bytes(&self) -> Option<usize> {
        match &self.0 {
            engine::Call::Recv { room, .. }
            | engine::Call::RecvFrom { room, .. }
            | engine::Call::Read { room, .. } => Some(*room),
            engine::Call::Send { chunks, .. }
            | engine::Call::SendMore { chunks, .. }
            | engine::Call::Write { chunks, .. } => Some(chunks.iter().sum()),
            engine::Call::SendTo { length, .. } => Some(*length),
            _ => None,
        }
    }

    /// The longest time that [`Op::Park`] may block; `None` for no limit, and for other operations.
    pub const fn timeout(&self) -> Option<Duration> {
        match self.0 {
            engine::Call::Park { timeout } => timeout,
            _ => None,
        }
    }
}

/// A call and its result. [`Call`] has an example.
///
/// ```
/// use mainspring::testing::{FakePoller, LogEntry};
///
/// let (backend, control) = FakePoller::open()?;
/// let event_loop = mainspring::Builder::new().backend(backend).build()?;
/// let failed = |entry: &LogEntry| entry.result.is_err();
/// assert!(!control.log().iter().any(failed));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The call.
    pub call: Call,
    /// On success: the number of bytes transferred, of the accepted descriptor, or of events; zero for
    /// [`Op::Update`]. On failure: the error number, or zero if the error is not the system's.
    pub result: Result<usize, i32>,
}

impl LogEntry {
    fn from_engine(entry: engine::LogEntry) -> Self {
        LogEntry { call: Call(entry.call), result: entry.result }
    }
}
