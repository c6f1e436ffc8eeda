//! Streams: connections with `await`.
//!
//! All kinds of connection share this implementation. The protocol [`Buffered`](buffered::Buffered) stores received
//! bytes until they are read. [`StreamReader`] and [`StreamWriter`] are the two handles on it, and a [`Stream`] is
//! both. `TcpStream` and its siblings wrap a [`Stream`].

mod buffered;
mod byte_buffer;
mod copy;
mod errors;
mod futures_io;
mod into_std;
mod reader;
mod shared_stream;
mod write_lock;
mod writer;

pub use copy::{copy, copy_bidirectional};
pub use errors::ReadError;
pub use into_std::IntoStdError;
pub use reader::StreamReader;
pub use writer::StreamWriter;

pub(crate) use buffered::DEFAULT_LIMIT;
pub(crate) use futures_io::{forward_async_io, forward_to_stream};
pub(super) use into_std::resource_busy;
pub(crate) use shared_stream::SharedStream;

#[cfg(feature = "rustls")]
use crate::net::connection::{Protocol, WeakStreamProtocol};
use crate::net::connection::{ProtocolRef, Transport};
use std::fmt;
use std::io;
use std::rc::Rc;

/// A connection of any kind: a [`StreamReader`] and a [`StreamWriter`] in one.
///
/// All methods take `&self`: one task can read while others write, and messages of several tasks are not interleaved
/// ([`StreamWriter::write_all`]). Dropping it closes the connection after the write buffer is sent, as long as the
/// loop runs. It is not `Send`.
///
/// ```
/// use mainspring::net::{Stream, TcpListener, TcpStream, UnixStream};
///
/// /// Works with every kind of connection.
/// async fn ask(stream: &Stream, question: &[u8]) -> std::io::Result<Vec<u8>> {
///     stream.write_all(question).await?;
///     stream.shutdown();
///     stream.read_to_end().await
/// }
///
/// mainspring::run(async {
///     let (first, second) = UnixStream::pair()?;
///     second.write_all(b"42").await?;
///     second.shutdown();
///     assert_eq!(ask(&first, b"the question").await?, b"42");
///
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let first = TcpStream::connect(listener.local_addr()).await?;
///     let (second, _) = listener.accept().await?;
///     second.write_all(b"43").await?;
///     second.shutdown();
///     assert_eq!(ask(&first, b"another").await?, b"43");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// The read methods:
///
/// ```
/// # mainspring::run(async {
/// let (stream, peer) = mainspring::net::UnixStream::pair()?;
/// stream.write_all(b"a line\nup to; abcd 12345 rest").await?;
/// assert_eq!(peer.read_line().await?, b"a line\n");
/// assert_eq!(peer.read_until(b";").await?, b"up to;");
/// assert_eq!(peer.read_exactly(5).await?, b" abcd");
/// let mut buffer = [0; 6];
/// peer.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b" 12345");
/// assert_eq!(peer.read(&mut buffer[..1]).await?, 1);
/// assert_eq!(peer.read_some(100).await?, b"rest");
/// drop(stream);
/// assert_eq!(peer.read_to_end().await?, b"");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Stream {
    reader: StreamReader,
    writer: StreamWriter,
}

impl Stream {
    /// Creates a stream on the connection that `open` returns.
    pub(crate) fn open(limit: usize, open: impl FnOnce(ProtocolRef) -> Transport) -> Self {
        let shared = SharedStream::new(limit);
        shared.set_transport(open(shared.protocol_ref()));
        Self::new(shared)
    }

    fn new(shared: Rc<SharedStream>) -> Self {
        Stream { reader: StreamReader::new(Rc::clone(&shared)), writer: StreamWriter::new(shared) }
    }

    /// Releases the transport without closing it, together with the unread bytes.
    #[allow(dead_code, reason = "used by TLS, which is an optional feature")]
    pub(crate) fn into_transport(self) -> (Transport, Vec<u8>) {
        let unread = self.reader.with(|received| received.take_all());
        (self.reader.shared.release_transport(), unread)
    }

    /// Borrows the two halves, for two tasks that share the stream.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use mainspring::try_join;
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let (reader, writer) = stream.split();
    /// // Sequentially this would deadlock: both sides would wait for the other to read.
    /// let echo = async { peer.write_all(&peer.read_exactly(1_000_000).await?).await };
    /// let send = writer.write_all(&[7; 1_000_000]);
    /// let receive = async { std::io::Result::Ok(reader.read_exactly(1_000_000).await?) };
    /// let ((), (), received) = try_join((echo, send, receive)).await?;
    /// assert_eq!(received.len(), 1_000_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn split(&self) -> (&StreamReader, &StreamWriter) {
        (&self.reader, &self.writer)
    }

    /// Splits the stream into owned halves. See [`StreamWriter`] for the effect of dropping them.
    ///
    /// ```
    /// use mainspring::net::{Stream, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let (reader, writer) = Stream::from(stream).into_split();
    /// mainspring::spawn(async move { writer.write_all(b"question").await });
    /// assert_eq!(peer.read_to_end().await?, b"question");
    /// peer.write_all(b"answer").await?;
    /// assert_eq!(reader.read_exactly(6).await?, b"answer");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_split(self) -> (StreamReader, StreamWriter) {
        (self.reader, self.writer)
    }

    /// The transport, for its settings.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    /// stream.transport().set_write_buffer_limits(Some(1024), None).unwrap();
    /// assert_eq!(stream.transport().get_write_buffer_limits(), (256, 1024));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn transport(&self) -> &Transport {
        self.writer.transport()
    }

    /// See [`StreamReader::read`]. Cancel safety: safe; no data is lost.
    pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        self.reader.read(buffer)
    }

    /// See [`StreamReader::read_some`]. Cancel safety: safe; no data is lost.
    pub fn read_some(&self, count: usize) -> impl Future<Output = io::Result<Vec<u8>>> {
        self.reader.read_some(count)
    }

    /// See [`StreamReader::read_exact`]. Cancel safety: safe; no data is lost.
    pub fn read_exact(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
        self.reader.read_exact(buffer)
    }

    /// See [`StreamReader::read_exactly`]. Cancel safety: safe; no data is lost.
    pub fn read_exactly(&self, count: usize) -> impl Future<Output = Result<Vec<u8>, ReadError>> {
        self.reader.read_exactly(count)
    }

    /// See [`StreamReader::read_until`]. Cancel safety: safe; no data is lost.
    pub fn read_until(&self, separator: &[u8]) -> impl Future<Output = Result<Vec<u8>, ReadError>> {
        self.reader.read_until(separator)
    }

    /// See [`StreamReader::read_line`]. Cancel safety: safe; no data is lost.
    pub fn read_line(&self) -> impl Future<Output = Result<Vec<u8>, ReadError>> {
        self.reader.read_line()
    }

    /// See [`StreamReader::read_to_end`]. Cancel safety: safe; no data is lost.
    pub fn read_to_end(&self) -> impl Future<Output = io::Result<Vec<u8>>> {
        self.reader.read_to_end()
    }

    /// See [`StreamWriter::write_all`]: messages of several tasks are not interleaved. Cancel safety: not safe; a
    /// part may be written.
    pub fn write_all(&self, data: &[u8]) -> impl Future<Output = io::Result<()>> {
        self.writer.write_all(data)
    }

    /// See [`StreamWriter::drain`]. Cancel safety: safe; the call only waits.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// stream.split().1.write(b"hello");
    /// stream.drain().await?;
    /// assert_eq!(peer.read_exactly(5).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn drain(&self) -> impl Future<Output = io::Result<()>> {
        self.writer.drain()
    }

    /// Half-closes the connection after the write buffer is sent: the peer reads the end of the stream. Reading
    /// continues.
    pub fn shutdown(&self) {
        self.writer.write_eof();
    }

    /// Closes the connection. Waits until the write buffer is sent and the connection is closed. Returns the error
    /// that ended the connection, if any.
    ///
    /// Cancel safety: the connection is closed in any case.
    ///
    /// ```
    /// use mainspring::net::{Stream, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let (first, second) = UnixStream::pair()?;
    /// let stream = Stream::from(first);
    /// stream.split().1.write(b"goodbye");
    /// stream.close().await?;
    /// assert_eq!(second.read_to_end().await?, b"goodbye");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn close(self) -> io::Result<()> {
        self.writer.close();
        self.writer.wait_closed().await
    }
}

/// A stream without a connection yet: TLS opens it after the handshake.
#[cfg(feature = "rustls")]
pub(crate) struct PendingStream(Rc<SharedStream>);

#[cfg(feature = "rustls")]
impl PendingStream {
    pub(crate) fn new(limit: usize) -> Self {
        PendingStream(SharedStream::new(limit))
    }

    /// The protocol for the connection. Received bytes are stored while this object exists.
    pub(crate) fn protocol(&self) -> Rc<dyn Protocol> {
        Rc::new(WeakStreamProtocol(Rc::downgrade(&self.0)))
    }

    /// Attaches the connection.
    pub(crate) fn open(self, transport: Transport) -> Stream {
        self.0.set_transport(transport);
        Stream::new(self.0)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("reader", &self.reader).finish_non_exhaustive()
    }
}
