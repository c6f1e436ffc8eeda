//! `RuntimeHandle`: a reference to a runtime for any thread.

use super::{ShutdownMode, ShutdownRequest};
use crate::concurrent::{ConcurrentFuture, refused};
use crate::error::Error;
use crate::event_loop::EventLoop;
use crate::host::Inbound;
use crate::net::{ConnectOptions, ToAddress, connect};
use crate::remote::Remote;
use crate::time::sleep;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

/// A reference to a [`Runtime`](super::Runtime) for any thread. Clones refer to the same one. It is `Send` and
/// `Sync`, and does not keep the runtime alive.
///
/// A runtime that is shut down refuses work: with [`Error::ShutDown`], or with a future whose error is
/// [refused](crate::JoinError::is_refused). Accepted work is completed, unless the runtime is dropped or ended by
/// [`shutdown_now`](super::Runtime::shutdown_now): then it is cancelled. On the loop's own thread work is accepted
/// until the loop has ended: it is part of work that was accepted before.
///
/// ```
/// use mainspring::Runtime;
///
/// let runtime = Runtime::start()?;
/// let handle = runtime.handle();
/// let other = std::thread::spawn(move || handle.call(|| 6 * 7).wait());
/// assert_eq!(other.join().unwrap(), Ok(42));
///
/// let handle = runtime.handle();
/// runtime.shutdown()?;
/// assert!(handle.is_shut_down());
/// assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct RuntimeHandle {
    pub(super) shared: Arc<RuntimeShared>,
}

pub(super) struct RuntimeShared {
    pub(super) remote: Remote,
    pub(super) request: Arc<ShutdownRequest>,
    pub(super) thread: Thread,
}

impl RuntimeShared {
    /// Requests a shutdown of the thread.
    pub(super) fn request_shutdown(&self, mode: ShutdownMode) {
        self.request.raise(mode);
        if mode >= ShutdownMode::Drained {
            self.remote.inbox().seal();
        }
        // The thread reads the request when its run ends. A closed loop needs no request.
        let _ = self.remote.inbox().push(Inbound::Stop);
    }

    pub(super) fn is_own_thread(&self) -> bool {
        thread::current().id() == self.thread.id()
    }
}

impl RuntimeHandle {
    /// The name of the runtime.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::builder().name("background").start()?;
    /// assert_eq!(runtime.handle().name(), "background");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        self.shared.thread.name().unwrap_or_default()
    }

    /// Whether the runtime refuses new work from other threads.
    pub fn is_shut_down(&self) -> bool {
        self.shared.remote.inbox().is_sealed()
    }

    /// The loop, as a [`Remote`].
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.remote().spawn(|| async { 6 * 7 })?;
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn remote(&self) -> Remote {
        self.shared.remote.clone()
    }

    /// Calls `callback` on the loop's thread. A panic goes to the loop's exception handler.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let (sender, receiver) = mpsc::channel();
    /// runtime.call_soon_threadsafe(move || sender.send("hello").unwrap())?;
    /// assert_eq!(receiver.recv(), Ok("hello"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn call_soon_threadsafe(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        // A closed loop was shut down earlier.
        self.shared.remote.call_soon_threadsafe(callback).map_err(|_| Error::ShutDown)
    }

    /// Calls `call` on the loop's thread. Returns its result or its panic.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.call(|| 6 * 7);
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn call<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> ConcurrentFuture<T> {
        let (promise, future) = self.shared.remote.pair();
        match self.call_soon_threadsafe(move || promise.settle_with(|| Ok(call()))) {
            Ok(()) => future,
            Err(_) => ConcurrentFuture::ready(Err(refused())),
        }
    }

    /// Makes a future on the loop's thread, so that it need not be `Send`, and runs it there as a task.
    ///
    /// ```
    /// use std::{rc::Rc, time::Duration};
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.spawn(|| async {
    ///     let local_value = Rc::new(42);
    ///     mainspring::sleep(Duration::from_millis(1)).await;
    ///     *local_value
    /// });
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn spawn<M, F>(&self, make: M) -> ConcurrentFuture<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: IntoFuture<IntoFuture: 'static, Output: Send + 'static>,
    {
        let spawned = self.shared.remote.spawn(make);
        spawned.unwrap_or_else(|_| ConcurrentFuture::ready(Err(refused())))
    }

    /// Completes after `delay` by the loop's clock.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let later = runtime.delay(Duration::from_millis(1)).map(|()| "later");
    /// assert_eq!(later.wait(), Ok("later"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn delay(&self, delay: Duration) -> ConcurrentFuture<()> {
        self.spawn(move || sleep(delay))
    }

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

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeHandle")
            .field("name", &self.name())
            .field("shut_down", &self.is_shut_down())
            .finish_non_exhaustive()
    }
}
