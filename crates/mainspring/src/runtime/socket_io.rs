//! The operations of a runtime on sockets.

use super::RuntimeHandle;
use crate::concurrent::ConcurrentFuture;
use crate::event_loop::EventLoop;
use crate::net::{ConnectOptions, ToAddress, connect};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;

/// How much `read_to_end` receives at a time.
const BLOCK_SIZE: usize = 250 * 1024;

impl RuntimeHandle {
    /// Receives up to `count` bytes from a socket, at most 250 KiB. Waits for at least one. An empty result is the
    /// end of the stream. With an `Arc<TcpStream>` the caller keeps the socket.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// let shout = runtime.read(socket, 100).map(|data| data.to_ascii_uppercase());
    /// peer.write_all(b"hello")?;
    /// assert_eq!(shout.wait()?, b"HELLO");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(
        &self,
        socket: impl AsFd + Send + 'static,
        count: usize,
    ) -> ConcurrentFuture<Vec<u8>, io::Error> {
        self.run_operation(async move |event_loop| event_loop.sock_recv(&socket, count).await)
    }

    /// Receives everything until the peer closes the connection. With an `Arc<TcpStream>` the caller keeps the socket.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// let data = runtime.read_to_end(socket);
    /// peer.write_all(b"hello")?;
    /// peer.write_all(b" world")?;
    /// drop(peer);
    /// assert_eq!(data.wait()?, b"hello world");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_to_end(&self, socket: impl AsFd + Send + 'static) -> ConcurrentFuture<Vec<u8>, io::Error> {
        self.run_operation(async move |event_loop| receive_all(&event_loop, &socket).await)
    }

    /// [`connect`](RuntimeHandle::connect), then [`read_to_end`](RuntimeHandle::read_to_end).
    ///
    /// ```
    /// use std::io::Write;
    /// use std::net::TcpListener;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let data = runtime.read_from(listener.local_addr()?);
    /// listener.accept()?.0.write_all(b"hello")?;
    /// assert_eq!(data.wait()?, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_from(
        &self,
        address: impl ToAddress + Send + 'static,
    ) -> ConcurrentFuture<Vec<u8>, io::Error> {
        self.run_operation(async move |event_loop| {
            let (socket, _) = connect(event_loop.core(), address, &ConnectOptions::default()).await?;
            receive_all(&event_loop, &socket).await
        })
    }

    /// Sends all of `data` to a socket. One task at a time may send: see [`EventLoop::sock_sendall`].
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// runtime.write_all(socket, b"hello").wait()?;
    /// let mut text = String::new();
    /// peer.read_to_string(&mut text)?;
    /// assert_eq!(text, "hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_all(
        &self,
        socket: impl AsFd + Send + 'static,
        data: impl Into<Vec<u8>>,
    ) -> ConcurrentFuture<(), io::Error> {
        let data = data.into();
        self.run_operation(async move |event_loop| event_loop.sock_sendall(&socket, &data).await)
    }

    /// Connects to `address`, trying all addresses of a name. The socket is non-blocking.
    ///
    /// ```
    /// use std::net::TcpListener;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let connected = runtime.connect(listener.local_addr()?);
    /// let connection = connected.wait()?;
    /// assert_eq!(connection.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn connect(
        &self,
        address: impl ToAddress + Send + 'static,
    ) -> ConcurrentFuture<TcpStream, io::Error> {
        self.run_operation(async move |event_loop| {
            let (socket, _) = connect(event_loop.core(), address, &ConnectOptions::default()).await?;
            Ok(socket.into())
        })
    }

    /// Accepts a connection, which is non-blocking. The listener is also made non-blocking.
    ///
    /// ```
    /// use std::net::{TcpListener, TcpStream};
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let accepted = runtime.accept(listener);
    /// let client = TcpStream::connect(address)?;
    /// assert_eq!(accepted.wait()?.1, client.local_addr()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accept(
        &self,
        listener: impl Into<Arc<TcpListener>>,
    ) -> ConcurrentFuture<(TcpStream, SocketAddr), io::Error> {
        let listener = listener.into();
        self.run_operation(async move |event_loop| {
            listener.set_nonblocking(true)?;
            let (connection, peer) = event_loop.sock_accept(&listener).await?;
            let connection = TcpStream::from(connection);
            match peer {
                Some(peer) => Ok((connection, peer)),
                None => connection.peer_addr().map(|peer| (connection, peer)),
            }
        })
    }

    /// Runs an operation of the loop that may fail.
    fn run_operation<T: Send + 'static>(
        &self,
        operation: impl AsyncFnOnce(EventLoop) -> io::Result<T> + Send + 'static,
    ) -> ConcurrentFuture<T, io::Error> {
        self.spawn(move || async move { operation(EventLoop::current()).await }).flatten()
    }
}

async fn receive_all(event_loop: &EventLoop, socket: &impl AsFd) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    loop {
        let block = event_loop.sock_recv(socket, BLOCK_SIZE).await?;
        if block.is_empty() {
            return Ok(received);
        }
        // The peer decides how much it sends.
        received.try_reserve(block.len())?;
        received.extend_from_slice(&block);
    }
}
