//! The back end of a closed loop: it holds no fd and refuses every operation.

use super::{Interest, Key, PeerAddress, Poller};
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// The back end of a closed loop.
pub(crate) struct ClosedPoller;

fn refuse<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::NotConnected, "the event loop is closed"))
}

impl Poller for ClosedPoller {
    fn update(&mut self, _: RawFd, _: Key, _: Interest, new: Interest) -> io::Result<()> {
        // Deregistering always succeeds: nothing is registered.
        if new.is_none() { Ok(()) } else { refuse() }
    }

    fn recv(&mut self, _: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<usize> {
        refuse()
    }

    fn send(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<usize> {
        refuse()
    }

    fn send_more(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<usize> {
        refuse()
    }

    fn push(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        refuse()
    }

    fn accept(&mut self, _: BorrowedFd<'_>) -> io::Result<(OwnedFd, PeerAddress)> {
        refuse()
    }

    fn recv_from(&mut self, _: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        refuse()
    }

    fn send_to(&mut self, _: BorrowedFd<'_>, _: &[u8], _: Option<&PeerAddress>) -> io::Result<()> {
        refuse()
    }

    fn read(&mut self, _: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<usize> {
        refuse()
    }

    fn write(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<usize> {
        refuse()
    }
}
