//! What the loop has its back end do with a descriptor, and the buffer it reads into.

use super::{Engine, Host, READ_SIZE};
use crate::poller::{Key, PeerAddress};
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};

impl<H: Host> Engine<H> {
    /// Claims received bytes; see [`Poller::recv`](crate::poller::Poller::recv).
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::poller::Key;
    /// use std::io::IoSlice;
    /// use std::os::fd::AsFd;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (here, there) = UnixStream::pair()?;
    /// engine.send(there.as_fd(), Key::UNREGISTERED, &[IoSlice::new(b"hel"), IoSlice::new(b"lo")])?;
    /// let received = engine.with_scratch(|buffer| {
    ///     let filled = engine.recv(here.as_fd(), Key::UNREGISTERED, buffer)?;
    ///     Ok::<_, std::io::Error>(buffer[..filled].to_vec())
    /// })?;
    /// assert_eq!(received, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv(&self, fd: BorrowedFd<'_>, key: Key, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().recv(fd, key, buffer)
    }

    /// Sends what the kernel takes; see [`Poller::send`](crate::poller::Poller::send).
    pub fn send(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send(fd, key, chunks)
    }

    /// Sends a part of what is to be one packet; see [`Poller::send_more`](crate::poller::Poller::send_more).
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::poller::Key;
    /// use std::io::{IoSlice, Read};
    /// use std::net::{TcpListener, TcpStream};
    /// use std::os::fd::AsFd;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// engine.send_more(client.as_fd(), Key::UNREGISTERED, &[IoSlice::new(b"hel")])?;
    /// engine.send_more(client.as_fd(), Key::UNREGISTERED, &[IoSlice::new(b"lo")])?;
    /// engine.push(client.as_fd(), Key::UNREGISTERED)?;
    /// let mut received = [0; 5];
    /// listener.accept()?.0.read_exact(&mut received)?;
    /// assert_eq!(&received, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_more(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send_more(fd, key, chunks)
    }

    /// Ends the wait for the rest of a packet; see [`Poller::push`](crate::poller::Poller::push).
    pub fn push(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        self.poller.borrow_mut().push(fd, key)
    }

    /// Reads from a pipe; see [`Poller::read`](crate::poller::Poller::read).
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use std::io::IoSlice;
    /// use std::os::fd::AsFd;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (reader, writer) = std::io::pipe()?;
    /// engine.write(writer.as_fd(), &[IoSlice::new(b"hello")])?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(engine.read(reader.as_fd(), &mut buffer)?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().read(fd, buffer)
    }

    /// Writes to a pipe what the kernel takes; see [`Poller::write`](crate::poller::Poller::write).
    pub fn write(&self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().write(fd, chunks)
    }

    /// Claims a connection; see [`Poller::accept`](crate::poller::Poller::accept).
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::poller::{Key, PeerAddress};
    /// use std::net::{TcpListener, TcpStream};
    /// use std::os::fd::AsFd;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (_connection, peer) = engine.accept(listener.as_fd(), Key::UNREGISTERED)?;
    /// assert_eq!(peer, PeerAddress::Inet(client.local_addr()?));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn accept(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<(OwnedFd, PeerAddress)> {
        self.poller.borrow_mut().accept(fd, key)
    }

    /// Takes one datagram; see [`Poller::recv_from`](crate::poller::Poller::recv_from).
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::poller::{Key, PeerAddress};
    /// use std::net::UdpSocket;
    /// use std::os::fd::AsFd;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (here, there) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// let to = PeerAddress::Inet(here.local_addr()?);
    /// engine.send_to(there.as_fd(), Key::UNREGISTERED, b"hello", Some(&to))?;
    /// let mut buffer = [0; 16];
    /// let (filled, from) = engine.recv_from(here.as_fd(), Key::UNREGISTERED, &mut buffer)?;
    /// assert_eq!((&buffer[..filled], from), (&b"hello"[..], PeerAddress::Inet(there.local_addr()?)));
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let sizes = engine.with_scratch_of(16, |outer| (outer.len(), engine.with_scratch_of(32, |inner| inner.len())));
    /// assert_eq!(sizes, (16, 32));
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
