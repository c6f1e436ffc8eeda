//! `StreamReader`: the receiving half of a stream.

use super::byte_buffer::ByteBuffer;
use super::errors::ReadError;
use super::shared_stream::SharedStream;
use crate::net::connection::Transport;
use crate::task::named;
use memchr::memmem;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::rc::Rc;

/// The receiving half of a stream of any kind: asyncio's `StreamReader`.
///
/// Created by [`open_connection`](crate::net::open_connection) and its siblings, or by splitting a stream. Received
/// bytes are buffered. Receiving pauses while the buffer has more than twice the [limit](StreamReader::limit). It is
/// not `Send`.
///
/// All methods take `&self`. If several tasks read at the same time, each gets the bytes available when it runs.
///
/// **Cancel safety**: every method is cancel-safe. Bytes that were not returned stay in the buffer.
///
/// **Errors**: if the connection is lost with an error, the buffered bytes can still be read; after that every method
/// returns the error. A closed loop is such an error.
///
/// ```
/// use mainspring::net::{open_connection, start_server};
///
/// mainspring::run(async {
///     let server = start_server("127.0.0.1:0", |reader, writer| async move {
///         while let Ok(line @ [_, ..]) = reader.read_line().await.as_deref() {
///             writer.write(line);
///         }
///     })
///     .await?;
///     let (reader, writer) = open_connection(server.local_addr()).await?;
///     writer.write(b"one\ntwo\n");
///     writer.write_eof();
///     assert_eq!(reader.read_until(b"\n").await?, b"one\n");
///     assert_eq!(reader.read_exactly(2).await?, b"tw");
///     assert_eq!(reader.read_to_end().await?, b"o\n");
///     assert!(reader.at_eof());
///     assert_eq!(reader.limit(), 64 * 1024);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct StreamReader {
    pub(super) shared: Rc<SharedStream>,
    /// The bytes that `poll_fill_buf` has lent, removed from the buffer. Allocated at the first use.
    pub(super) lent: Cell<Option<Box<ByteBuffer>>>,
}

impl StreamReader {
    pub(super) fn new(shared: Rc<SharedStream>) -> Self {
        StreamReader { shared, lent: Cell::default() }
    }

    /// The transport.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    /// let (reader, _writer) = stream.split();
    /// // Receiving pauses, and flow control stops the peer.
    /// reader.transport().pause_reading();
    /// assert!(!reader.transport().is_reading());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn transport(&self) -> &Transport {
        self.shared.transport()
    }

    /// How far [`read_until`](StreamReader::read_until) and [`read_line`](StreamReader::read_line) search for their
    /// separator. Receiving pauses at twice this number of buffered bytes. Default: 64 KiB.
    pub fn limit(&self) -> usize {
        self.shared.buffered.limit()
    }

    /// Sets the [limit](StreamReader::limit).
    ///
    /// ```
    /// use mainspring::net::{ReadError, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let (reader, _) = stream.split();
    /// assert_eq!(reader.limit(), 64 * 1024);
    /// reader.set_limit(4);
    /// peer.write_all(b"too long\n").await?;
    /// assert!(matches!(reader.read_line().await, Err(ReadError::LimitOverrun { .. })));
    /// reader.set_limit(8);
    /// assert_eq!(reader.read_line().await?, b"too long\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_limit(&self, limit: usize) {
        self.shared.buffered.set_limit(limit);
    }

    /// Whether the stream has ended and the buffer is empty.
    pub fn at_eof(&self) -> bool {
        self.with(|received| received.is_empty()) && matches!(self.end_of_stream(), Some(Ok(())))
    }

    /// The number of buffered bytes.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"hello").await?;
    /// let (reader, _) = stream.split();
    /// assert_eq!(reader.read_exactly(1).await?, b"h");
    /// assert_eq!(reader.buffered(), 4);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn buffered(&self) -> usize {
        let lent = self.lent.take();
        let lent_len = lent.as_ref().map_or(0, |lent| lent.len());
        self.lent.set(lent);
        self.shared.buffered.with_received(|received| received.len()) + lent_len
    }

    /// Reads available bytes into `buffer`. Waits for at least one. Zero is the end of the stream.
    ///
    /// Cancel safety: safe; no data is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"hello").await?;
    /// drop(peer);
    /// let (reader, _) = stream.split();
    /// let mut buffer = [0; 3];
    /// assert_eq!((reader.read(&mut buffer).await?, &buffer), (3, b"hel"));
    /// assert_eq!(reader.read(&mut buffer).await?, 2);
    /// assert_eq!(reader.read(&mut buffer).await?, 0);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        named(|| "StreamReader::read", self.shared.buffered.readers.wait_until(|| self.try_read(buffer)))
    }

    /// [`StreamReader::read`] without waiting. `None` if nothing is available.
    #[inline(never)]
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        if buffer.is_empty() {
            return Some(Ok(0));
        }
        if let count @ 1.. = self.read_buffered(buffer) {
            return Some(Ok(count));
        }
        let buffered = &self.shared.buffered;
        if let Some(count) = buffered.recv(self.shared.transport(), buffer) {
            return Some(Ok(count));
        }
        let end_of_stream = self.end_of_stream();
        if end_of_stream.is_none() {
            buffered.await_readable();
        }
        end_of_stream.map(|end_of_stream| end_of_stream.map(|()| 0))
    }

    /// Reads from the buffer.
    #[inline]
    fn read_buffered(&self, buffer: &mut [u8]) -> usize {
        match self.lent.take() {
            None => self.shared.buffered.read(self.shared.transport(), buffer),
            lent => {
                self.lent.set(lent);
                self.with(|received| received.read(buffer))
            }
        }
    }

    /// Reads up to `count` available bytes. Waits for at least one. An empty result is the end of the stream.
    ///
    /// Cancel safety: safe; no data is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"hello").await?;
    /// drop(peer);
    /// let (reader, _) = stream.split();
    /// assert_eq!(reader.read_some(3).await?, b"hel");
    /// assert_eq!(reader.read_some(3).await?, b"lo");
    /// assert_eq!(reader.read_some(3).await?, b"");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn read_some(&self, count: usize) -> impl Future<Output = io::Result<Vec<u8>>> {
        let check = move || match self.with(|received| received.take(count)) {
            Err(error) => Some(Err(error)),
            Ok(some) if !some.is_empty() || count == 0 => Some(Ok(some)),
            Ok(none) => self.end_of_stream().map(|end_of_stream| end_of_stream.map(|()| none)),
        };
        named(|| "StreamReader::read", self.shared.buffered.readers.wait_until(check))
    }

    /// Reads to the end of the stream, without a size limit.
    ///
    /// Cancel safety: safe; received bytes stay in the buffer, which may grow beyond the limit.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// mainspring::spawn(async move { peer.write_all(&[0; 1_000_000]).await });
    /// assert_eq!(stream.split().0.read_to_end().await?.len(), 1_000_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn read_to_end(&self) -> impl Future<Output = io::Result<Vec<u8>>> {
        let check = || match self.end_of_stream() {
            Some(end_of_stream) => Some(end_of_stream.map(|()| self.with(ByteBuffer::take_all))),
            None => self.wait_for_more(),
        };
        named(|| "StreamReader::read", self.shared.buffered.readers.wait_until(check))
    }

    /// Reads exactly `count` bytes. Fails with [`ReadError::Incomplete`] if the stream ends early.
    ///
    /// Cancel safety: safe; received bytes stay in the buffer, which may grow beyond the limit.
    ///
    /// ```
    /// # mainspring::run(async {
    /// // A message with a length prefix.
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"\x05hello\x02no").await?;
    /// let (reader, _) = stream.split();
    /// let length = reader.read_exactly(1).await?[0].into();
    /// assert_eq!(reader.read_exactly(length).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_exactly(&self, count: usize) -> Result<Vec<u8>, ReadError> {
        let taken = self.wait_for_bytes(count, |received| received.take(count)).await?;
        taken.map_err(ReadError::Io)
    }

    /// Fills `buffer`. If the stream ends early, fails with the kind `UnexpectedEof` and a [`ReadError::Incomplete`]
    /// inside.
    ///
    /// Cancel safety: safe; no data is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(&7_u32.to_be_bytes()).await?;
    /// drop(peer);
    /// let mut number = [0; 4];
    /// stream.split().0.read_exact(&mut number).await?;
    /// assert_eq!(u32::from_be_bytes(number), 7);
    /// let end = stream.split().0.read_exact(&mut number).await.unwrap_err();
    /// assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        let count = buffer.len();
        self.wait_for_bytes(count, |received| received.read(buffer)).await?;
        Ok(())
    }

    async fn wait_for_bytes<R>(
        &self,
        count: usize,
        take: impl FnOnce(&mut ByteBuffer) -> R,
    ) -> Result<R, ReadError> {
        let mut take = Some(take);
        let check = || {
            if self.buffered() >= count {
                return take.take().map(|take| Ok(self.with(take)));
            }
            match self.end_of_stream() {
                None => self.wait_for_more(),
                Some(Err(error)) => Some(Err(ReadError::Io(error))),
                Some(Ok(())) => Some(Err(self.incomplete(Some(count)))),
            }
        };
        named(|| "StreamReader::read", self.shared.buffered.readers.wait_until(check)).await
    }

    /// Reads up to and including `separator`. Fails with [`ReadError::Incomplete`] if the stream ends early, and with
    /// [`ReadError::LimitOverrun`] if the separator is not within the [limit](StreamReader::limit); the bytes then
    /// stay in the buffer.
    ///
    /// Cancel safety: safe; no data is lost.
    ///
    /// # Panics
    ///
    /// If the separator is empty.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"Host: here\r\n\r\nbody").await?;
    /// assert_eq!(stream.split().0.read_until(b"\r\n\r\n").await?, b"Host: here\r\n\r\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_until(&self, separator: &[u8]) -> Result<Vec<u8>, ReadError> {
        assert!(!separator.is_empty(), "the separator must not be empty");
        let finder = memmem::Finder::new(separator);
        // Stream position up to which there is no separator.
        let searched = Cell::new(0);
        let check = || match self.with(|received| self.search(received, &finder, &searched)) {
            Some(found) => Some(found),
            None => match self.end_of_stream() {
                None => self.wait_for_more(),
                Some(Err(error)) => Some(Err(ReadError::Io(error))),
                Some(Ok(())) => Some(Err(self.incomplete(None))),
            },
        };
        named(|| "StreamReader::read", self.shared.buffered.readers.wait_until(check)).await
    }

    fn search(
        &self,
        received: &mut ByteBuffer,
        finder: &memmem::Finder<'_>,
        searched: &Cell<u64>,
    ) -> Option<Result<Vec<u8>, ReadError>> {
        let (unread, length) = (received.unread(), finder.needle().len());
        // Another task may have read beyond the position.
        let from = usize::try_from(searched.get().saturating_sub(received.position())).unwrap_or_default();
        let found = finder.find(unread.get(from..).unwrap_or_default()).map(|index| from + index);
        let before = found.unwrap_or((unread.len() + 1).saturating_sub(length));
        searched.set(received.position() + before as u64);
        let (buffered, limit) = (unread.len(), self.limit());
        if before > limit {
            return Some(Err(ReadError::LimitOverrun { consumed: before, buffered, limit }));
        }
        found.map(|index| received.take(index + length).map_err(ReadError::Io))
    }

    /// Reads a line including its `\n`. The last line may have none. An empty result is the end of the stream. Fails
    /// with [`ReadError::LimitOverrun`] if the line is longer than the [limit](StreamReader::limit); the bytes then
    /// stay in the buffer.
    ///
    /// Cancel safety: safe; no data is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// peer.write_all(b"one\ntwo").await?;
    /// drop(peer);
    /// let (reader, _) = stream.split();
    /// assert_eq!(reader.read_line().await?, b"one\n");
    /// assert_eq!(reader.read_line().await?, b"two");
    /// assert_eq!(reader.read_line().await?, b"");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_line(&self) -> Result<Vec<u8>, ReadError> {
        match self.read_until(b"\n").await {
            Err(ReadError::Incomplete { partial, .. }) => Ok(partial),
            other => other,
        }
    }

    fn incomplete(&self, expected: Option<usize>) -> ReadError {
        ReadError::Incomplete { partial: self.with(ByteBuffer::take_all), expected }
    }

    /// `Some` at the end of the stream: `Ok`, or the error that ended it.
    pub(super) fn end_of_stream(&self) -> Option<io::Result<()>> {
        self.shared.buffered.end_of_stream(self.shared.transport())
    }

    /// Resumes receiving, regardless of the limit, because the buffered bytes are not enough.
    fn wait_for_more<R>(&self) -> Option<R> {
        self.shared.buffered.resume_reading(self.shared.transport());
        None
    }

    /// Runs `f` on the buffer, and resumes receiving if the buffer is small enough.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut ByteBuffer) -> R) -> R {
        let buffered = &self.shared.buffered;
        let lent = self.lent.take().filter(|lent| !lent.is_empty());
        let (result, left) = buffered.with_received(|received| {
            if let Some(mut lent) = lent {
                received.take_back(&mut lent);
            }
            (f(received), received.len())
        });
        buffered.resume_if_drained(self.shared.transport(), left);
        result
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.shared.cancel_wait(|buffered| &buffered.readers, |slots| &mut slots.reading);
    }
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader")
            .field("transport", self.shared.transport())
            .field("buffered", &self.buffered())
            .finish_non_exhaustive()
    }
}
