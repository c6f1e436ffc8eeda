//! asyncio's functions for streams: `open_connection`, `start_server`, and the same for Unix sockets.

use super::options::ServerOptions;
use super::{Opener, Server};
use crate::event_loop::{Core, ExceptionContext};
use crate::net::connect::ConnectOptions;
use crate::net::connection::SocketConnection;
use crate::net::resolve::ToAddress;
use crate::net::stream::{Stream, StreamReader, StreamWriter};
use crate::net::unix::UnixStream;
use crate::task::Task;
use std::error::Error;
use std::io;
use std::path::Path;
use std::rc::{Rc, Weak};

/// Connects to `address` on the running loop and returns the two halves of the stream. [`ConnectOptions`] offers more
/// control.
///
/// Cancel safety: dropping the future cancels the attempt and closes its socket.
///
/// ```
/// use mainspring::net::{TcpListener, open_connection};
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let (reader, writer) = open_connection(listener.local_addr()).await?;
///     let (peer, _) = listener.accept().await?;
///     writer.write_all(b"hello").await?;
///     drop(writer);
///     peer.write_all(&peer.read_to_end().await?).await?;
///     assert_eq!(reader.read_exactly(5).await?, b"hello");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn open_connection(address: impl ToAddress) -> io::Result<(StreamReader, StreamWriter)> {
    ConnectOptions::default().open_connection(address).await
}

/// Connects to a Unix path, or to an abstract name (a leading zero byte), and returns the two halves of the stream.
///
/// Cancel safety: dropping the future cancels the attempt and closes its socket.
///
/// ```
/// use mainspring::net::{open_unix_connection, start_unix_server};
///
/// mainspring::run(async {
///     let name = format!("\0mainspring-example-{}", std::process::id());
///     let _server = start_unix_server(&name, |reader, writer| async move {
///         writer.write_all(&reader.read_line().await?).await
///     })?;
///     let (reader, writer) = open_unix_connection(&name).await?;
///     writer.write_all(b"hello\n").await?;
///     assert_eq!(reader.read_line().await?, b"hello\n");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn open_unix_connection(path: impl AsRef<Path>) -> io::Result<(StreamReader, StreamWriter)> {
    Ok(UnixStream::connect(path).await?.into_split())
}

/// Listens on every address of `address`, on the running loop. For each connection it calls `client_connected` with
/// the two halves of the stream and runs the returned future as a task. [`ServerOptions`] offers more control.
///
/// The task returns `()` or a `Result`. Errors are reported to the exception handler, except disconnects by the peer.
///
/// Cancel safety: dropping the future closes the bound sockets.
///
/// ```
/// use mainspring::net::{TcpStream, start_server};
///
/// mainspring::run(async {
///     let server = start_server("127.0.0.1:0", |reader, writer| async move {
///         while let line @ [_, ..] = &reader.read_line().await?[..] {
///             writer.write_all(line).await?;
///         }
///         Ok::<(), std::io::Error>(())
///     })
///     .await?;
///     let stream = TcpStream::connect(server.local_addr()).await?;
///     stream.write_all(b"hello\n").await?;
///     assert_eq!(stream.read_line().await?, b"hello\n");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn start_server<F>(
    address: impl ToAddress,
    client_connected: impl Fn(StreamReader, StreamWriter) -> F + 'static,
) -> io::Result<Server>
where
    F: Future<Output: Outcome> + 'static,
{
    ServerOptions::default().start_server(address, client_connected).await
}

/// As [`start_server`], at a Unix path or at an abstract name (a leading zero byte). See
/// [`EventLoop::create_unix_server`](crate::EventLoop::create_unix_server) for the rules about the socket file.
///
/// ```
/// use mainspring::net::{UnixStream, start_unix_server};
///
/// mainspring::run(async {
///     let path = std::env::temp_dir().join(format!("mainspring-start-{}", std::process::id()));
///     let server = start_unix_server(&path, |_reader, writer| async move {
///         writer.write(b"hello");
///     })?;
///     assert_eq!(UnixStream::connect(&path).await?.read_to_end().await?, b"hello");
///     server.close();
///     assert!(!path.exists());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn start_unix_server<F>(
    path: impl AsRef<Path>,
    client_connected: impl Fn(StreamReader, StreamWriter) -> F + 'static,
) -> io::Result<Server>
where
    F: Future<Output: Outcome> + 'static,
{
    ServerOptions::default().start_unix_server(path, client_connected)
}

/// The result of a connection's task: `()`, or a `Result` whose error is reported.
///
/// ```
/// use mainspring::net::Outcome;
///
/// fn may_end_with<T: Outcome>() {}
///
/// may_end_with::<()>();
/// may_end_with::<Result<(), std::io::Error>>();
/// may_end_with::<Result<(), Box<dyn std::error::Error>>>();
/// ```
pub trait Outcome: sealed::Sealed {
    /// The error, if any.
    #[doc(hidden)]
    fn into_failure(self) -> Option<Box<dyn Error>>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl<E> Sealed for Result<(), E> {}
}

impl Outcome for () {
    fn into_failure(self) -> Option<Box<dyn Error>> {
        None
    }
}

impl<E: Into<Box<dyn Error>>> Outcome for Result<(), E> {
    fn into_failure(self) -> Option<Box<dyn Error>> {
        self.err().map(Into::into)
    }
}

/// Opener that runs a task for each connection.
pub(in crate::net) fn stream_opener<F>(
    limit: usize,
    client_connected: impl Fn(StreamReader, StreamWriter) -> F + 'static,
) -> Opener
where
    F: Future<Output: Outcome> + 'static,
{
    Rc::new(move |core, socket, peer, connection| {
        let open = |protocol| SocketConnection::open(core, socket, peer, protocol, Some(connection));
        let stream = Stream::open(limit, open);
        let transport = stream.transport().clone();
        let (reader, writer) = stream.into_split();
        let serving = client_connected(reader, writer);
        let weak_core = Rc::downgrade(core);
        // `connection_made` is scheduled before the task's first step.
        Task::start(core, async move { report_outcome(&weak_core, serving.await) });
        transport
    })
}

pub(in crate::net) fn report_outcome(core: &Weak<Core>, outcome: impl Outcome) {
    let Some(failure) = outcome.into_failure() else { return };
    let is_expected = failure.downcast_ref::<io::Error>().is_some_and(is_peer_disconnect);
    if let Some(core) = core.upgrade().filter(|_| !is_expected) {
        let message = "The task of a connection failed";
        core.call_exception_handler(&ExceptionContext::new(message).with_error(failure));
    }
}

/// A disconnect by the peer is normal for a server, so it is not reported.
fn is_peer_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
    )
}
