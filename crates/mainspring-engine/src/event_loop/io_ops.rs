//! What the loop has its back end do with a descriptor, and the buffer it reads into.

use super::{Engine, Host, READ_SIZE};
use crate::poller::{Key, PeerAddress};
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

impl<H: Host> Engine<H> {
    /// Claims received bytes; see [`Poller::recv`](crate::poller::Poller::recv).
    pub fn recv(&self, fd: BorrowedFd<'_>, key: Key, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().recv(fd, key, buffer)
    }

    /// Sends what the kernel takes; see [`Poller::send`](crate::poller::Poller::send).
    pub fn send(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send(fd, key, chunks)
    }

    /// Sends a part of what is to be one packet; see [`Poller::send_more`](crate::poller::Poller::send_more).
    pub fn send_more(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send_more(fd, key, chunks)
    }

    /// Ends the wait for the rest of a packet; see [`Poller::push`](crate::poller::Poller::push).
    pub fn push(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        self.poller.borrow_mut().push(fd, key)
    }

    /// Reads from a pipe; see [`Poller::read`](crate::poller::Poller::read).
    pub fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().read(fd, buffer)
    }

    /// Writes to a pipe what the kernel takes; see [`Poller::write`](crate::poller::Poller::write).
    pub fn write(&self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().write(fd, chunks)
    }

    /// Claims a connection; see [`Poller::accept`](crate::poller::Poller::accept).
    pub fn accept(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<(OwnedFd, PeerAddress)> {
        self.poller.borrow_mut().accept(fd, key)
    }

    /// Takes one datagram; see [`Poller::recv_from`](crate::poller::Poller::recv_from).
    pub fn recv_from(
        &self,
        fd: BorrowedFd<'_>,
        key: Key,
        buffer: &mut [u8],
    ) -> io::Result<(usize, PeerAddress)> {
        self.poller.borrow_mut().recv_from(fd, key, buffer)
    }

    /// Sends one datagram; see [`Poller::send_to`](crate::poller::Poller::send_to).
    pub fn send_to(
        &self,
        fd: BorrowedFd<'_>,
        key: Key,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        self.poller.borrow_mut().send_to(fd, key, data, destination)
    }

    /// Lends the loop's read buffer to `use_it`, which may call out: the buffer is out of the engine meanwhile,
    /// and a second borrower gets one of its own.
    pub fn with_scratch<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        self.with_scratch_of(READ_SIZE, use_it)
    }

    /// Lends so many bytes of the loop's read buffer, which grows to that size.
    pub fn with_scratch_of<R>(&self, size: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if scratch.len() < size {
            // Zeroed pages, which cost nothing until something is received into them.
            scratch = vec![0; size].into_boxed_slice();
        }
        let result = use_it(scratch.get_mut(..size).unwrap_or_default());
        self.scratch.set(Some(scratch));
        result
    }
}
