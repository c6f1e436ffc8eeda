//! An opened back end with shorthands, and fds for the contract tests.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mainspring_engine::poller::{Backend, Event, Interest, Key, Parker, Poller, Readiness};
use rustix::event::{EventfdFlags, eventfd};

/// Opens the back end under test.
pub type Open = fn() -> Backend;

pub const KEY: Key = Key { slot: 3, generation: 5 };
pub const OTHER_KEY: Key = Key { slot: 3, generation: 6 };

/// An opened back end, with shorthands.
pub struct Rig {
    pub poller: Box<dyn Poller>,
    pub parker: Box<dyn Parker>,
}

impl Rig {
    pub fn new(backend: Backend) -> Self {
        Rig { poller: backend.poller, parker: backend.parker }
    }

    /// Registers `fd` under [`KEY`].
    pub fn register(&mut self, fd: impl AsFd, interest: Interest) {
        self.poller.update(fd.as_fd().as_raw_fd(), KEY, Interest::NONE, interest).unwrap();
    }

    /// Changes the interest of `fd` under [`KEY`].
    pub fn change(&mut self, fd: impl AsFd, old: Interest, new: Interest) {
        self.poller.update(fd.as_fd().as_raw_fd(), KEY, old, new).unwrap();
    }

    /// The events that are available without waiting.
    pub fn events_now(&mut self) -> Vec<Event> {
        self.events_within(Some(Duration::ZERO))
    }

    /// The next events, however long that takes.
    pub fn events(&mut self) -> Vec<Event> {
        self.events_within(None)
    }

    fn events_within(&mut self, timeout: Option<Duration>) -> Vec<Event> {
        let mut events = Vec::new();
        self.parker.park(timeout, usize::MAX, &mut events).unwrap();
        events
    }
}

pub fn event(key: Key, readiness: Readiness) -> Event {
    Event { key, readiness }
}

/// Two connected stream sockets. They are blocking: a back end must not block even so.
pub fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// An fd that stays readable.
pub fn readable() -> OwnedFd {
    eventfd(1, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

/// An fd that is not readable until it is written to.
pub fn silent() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap()
}

/// Closes the file behind `fd` and gives its number to `replacement` in one step, so that no other thread can get the
/// number in between.
pub fn replace(fd: &mut OwnedFd, replacement: &OwnedFd) {
    rustix::io::dup2(replacement, fd).unwrap();
}

/// Opens an fd, passes it to `register`, closes it, and returns a borrow of its number, like a program that closed a
/// file too early. The number is higher than those that other threads of this test get.
pub fn closed(register: impl FnOnce(BorrowedFd<'_>)) -> BorrowedFd<'static> {
    let low = readable();
    // SAFETY: the duplicate is a new fd without another owner.
    let fd = unsafe { OwnedFd::from_raw_fd(libc::fcntl(low.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 900)) };
    register(fd.as_fd());
    drop(low);
    let number = fd.into_raw_fd();
    // SAFETY: the number came from `into_raw_fd`, so it is closed once. The borrow outlives its file on purpose: the
    // kernel returns EBADF, and no memory depends on it.
    unsafe {
        libc::close(number);
        BorrowedFd::borrow_raw(number)
    }
}
