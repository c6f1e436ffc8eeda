//! A back end with fault injection, for rare answers of the kernel.
//!
//! It wraps a real back end. Calls without a planned fault reach the real fds, so all code that runs on a back end
//! runs on this one. The test's [`FakeControl`] plans faults, injects events, and reads the log of calls.
//!
//! A fault is the final result of a call, after the retries of the real back end: `Interrupted` from `recv`, for
//! example, is more than epoll would ever return.
//!
//! Poller, parker and control share a state. It is never borrowed while the real back end runs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use super::call::{Call, LogEntry};
use super::fault::{FaultPlan, Faults, Op};
use crate::poller::{Backend, Event, Interest, Key, Parker, PeerAddress, Poller, Readiness, open_epoll};

#[derive(Default)]
struct State {
    faults: Faults,
    injected: Vec<Event>,
    keys: HashMap<RawFd, Key>,
    log: Vec<LogEntry>,
}

/// The test's control of a [`FakePoller`]. Clones share one state. It stays on its thread (`!Send`).
#[derive(Clone, Default)]
pub struct FakeControl(Rc<RefCell<State>>);

impl FakeControl {
    /// Plans a fault.
    pub fn plan(&self, plan: FaultPlan) {
        self.0.borrow_mut().faults.plan(plan);
    }

    /// The next `op` on any fd fails with the error number `errno`.
    pub fn fail_next(&self, op: Op, errno: i32) {
        self.plan(FaultPlan::fail(op, errno));
    }

    /// The next `recv` returns at most `bytes`.
    pub fn limit_next_recv(&self, bytes: usize) {
        self.plan(FaultPlan::short_recv(bytes));
    }

    /// The next `send` sends at most `bytes`.
    pub fn limit_next_send(&self, bytes: usize) {
        self.plan(FaultPlan::short_send(bytes));
    }

    /// Removes all plans.
    pub fn clear_faults(&self) {
        self.0.borrow_mut().faults.clear();
    }

    /// The number of plans that have not run out: zero when all planned faults have occurred.
    pub fn pending_faults(&self) -> usize {
        self.0.borrow().faults.len()
    }

    /// Makes the next wait return this event at once, whether or not it is true and `key` is registered. Such a wait
    /// returns injected events only, in the order of injection.
    pub fn inject(&self, key: Key, readiness: Readiness) {
        self.0.borrow_mut().injected.push(Event { key, readiness });
    }

    /// The key that `fd` is registered under.
    pub fn key_of(&self, fd: RawFd) -> Option<Key> {
        self.0.borrow().keys.get(&fd).copied()
    }

    /// The log since it was last taken, oldest call first.
    pub fn log(&self) -> Vec<LogEntry> {
        self.0.borrow().log.clone()
    }

    /// Returns and clears the log.
    pub fn take_log(&self) -> Vec<LogEntry> {
        std::mem::take(&mut self.0.borrow_mut().log)
    }

    /// Performs `call` according to the plans and logs it. `real` gets the most bytes that it may move; `count` maps
    /// its result to the number in the log.
    fn perform<T>(
        &self,
        call: Call,
        real: impl FnOnce(usize) -> io::Result<T>,
        count: impl FnOnce(&T) -> usize,
    ) -> io::Result<T> {
        let limit = self.0.borrow_mut().faults.strike(call.op(), call.fd());
        let answer = limit.and_then(real);
        let result = answer.as_ref().map(count).map_err(|error| error.raw_os_error().unwrap_or(0));
        self.0.borrow_mut().log.push(LogEntry { call, result });
        answer
    }

    /// A receiving call: `real` gets as much of `buffer` as the plans allow.
    fn move_in(
        &self,
        call: Call,
        buffer: &mut [u8],
        real: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let real = |limit: usize| {
            let room = buffer.len().min(limit);
            real(&mut buffer[..room])
        };
        self.perform(call, real, |&bytes| bytes)
    }

    /// A sending call: `real` gets as much of `chunks` as the plans allow.
    fn move_out(
        &self,
        call: Call,
        chunks: &[IoSlice<'_>],
        real: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.perform(call, |limit| real(&first_bytes(chunks, limit)), |&bytes| bytes)
    }
}

/// The back end with fault injection; created with its [`FakeControl`]. It stays on its thread (`!Send`).
pub struct FakePoller {
    inner: Box<dyn Poller>,
    control: FakeControl,
}

impl FakePoller {
    /// A fake on top of epoll.
    pub fn open() -> io::Result<(Backend, FakeControl)> {
        Ok(Self::over(open_epoll()?))
    }

    /// A fake on top of `inner`.
    pub fn over(inner: Backend) -> (Backend, FakeControl) {
        let control = FakeControl::default();
        let backend = Backend {
            poller: Box::new(FakePoller { inner: inner.poller, control: control.clone() }),
            parker: Box::new(FakeParker { inner: inner.parker, control: control.clone() }),
        };
        (backend, control)
    }
}

impl Poller for FakePoller {
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()> {
        let call = Call::Update { fd, key, old, new };
        self.control.perform(call, |_| self.inner.update(fd, key, old, new), |()| 0)?;
        let keys = &mut self.control.0.borrow_mut().keys;
        if new.is_none() {
            keys.remove(&fd);
        } else {
            keys.insert(fd, key);
        }
        Ok(())
    }

    fn pollable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.pollable_fd()
    }

    fn recv(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let call = Call::Recv { fd: fd.as_raw_fd(), room: buffer.len() };
        self.control.move_in(call, buffer, |buffer| self.inner.recv(fd, buffer))
    }

    fn send(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        let call = Call::Send { fd: fd.as_raw_fd(), chunks: lengths(chunks) };
        self.control.move_out(call, chunks, |chunks| self.inner.send(fd, chunks))
    }

    fn send_more(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        let call = Call::SendMore { fd: fd.as_raw_fd(), chunks: lengths(chunks) };
        self.control.move_out(call, chunks, |chunks| self.inner.send_more(fd, chunks))
    }

    fn push(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let call = Call::Push { fd: fd.as_raw_fd() };
        self.control.perform(call, |_| self.inner.push(fd), |()| 0)
    }

    fn accept(&mut self, fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, PeerAddress)> {
        let call = Call::Accept { fd: fd.as_raw_fd() };
        let number = |(connection, _): &(OwnedFd, _)| connection.as_raw_fd().unsigned_abs() as usize;
        self.control.perform(call, |_| self.inner.accept(fd), number)
    }

    fn recv_from(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        let call = Call::RecvFrom { fd: fd.as_raw_fd(), room: buffer.len() };
        self.control.perform(call, |_| self.inner.recv_from(fd, buffer), |&(bytes, _)| bytes)
    }

    fn send_to(
        &mut self,
        fd: BorrowedFd<'_>,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        let (fd_number, length) = (fd.as_raw_fd(), data.len());
        let call = Call::SendTo { fd: fd_number, length, destination: destination.cloned() };
        self.control.perform(call, |_| self.inner.send_to(fd, data, destination), |()| length)
    }

    fn read(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let call = Call::Read { fd: fd.as_raw_fd(), room: buffer.len() };
        self.control.move_in(call, buffer, |buffer| self.inner.read(fd, buffer))
    }

    fn write(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        let call = Call::Write { fd: fd.as_raw_fd(), chunks: lengths(chunks) };
        self.control.move_out(call, chunks, |chunks| self.inner.write(fd, chunks))
    }
}

/// The lengths of `chunks`, for the log.
fn lengths(chunks: &[IoSlice<'_>]) -> Vec<usize> {
    chunks.iter().map(|chunk| chunk.len()).collect()
}

/// The first `limit` bytes of `chunks`.
fn first_bytes<'a>(chunks: &'a [IoSlice<'_>], limit: usize) -> Vec<IoSlice<'a>> {
    let mut left = limit;
    let mut first = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let taken = chunk.len().min(left);
        first.push(IoSlice::new(&chunk[..taken]));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    first
}

struct FakeParker {
    inner: Box<dyn Parker>,
    control: FakeControl,
}

impl Parker for FakeParker {
    fn park(
        &mut self,
        timeout: Option<Duration>,
        max_events: usize,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let before = events.len();
        let real = |_| {
            let injected = std::mem::take(&mut self.control.0.borrow_mut().injected);
            if injected.is_empty() {
                self.inner.park(timeout, max_events, events)?;
            } else {
                events.extend(injected);
            }
            Ok(events.len() - before)
        };
        self.control.perform(Call::Park { timeout }, real, |&brought| brought)?;
        Ok(())
    }
}
