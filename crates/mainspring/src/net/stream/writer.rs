//! `StreamWriter`: the sending half of a stream.

use super::shared_stream::SharedStream;
use crate::error::Error;
use crate::net::connection::{Transport, WriteOutcome, write_refused_error};
use crate::task::named;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

/// Larger writes are split into chunks of this size, so that at most one chunk is in the write buffer.
pub(super) const MAX_WRITE_BYTES: usize = 256 * 1024;

/// The sending half of a stream of any kind: asyncio's `StreamWriter`.
///
/// [`write`](StreamWriter::write) buffers what the kernel does not accept, without a limit.
/// [`drain`](StreamWriter::drain) waits until the buffer is small again. [`write_all`](StreamWriter::write_all) does
/// both.
///
/// Dropping the writer half-closes the connection where that is supported, as [`write_eof`](StreamWriter::write_eof)
/// does: the write buffer is sent, and the reader continues. When the reader is dropped too, the connection is
/// closed. It is not `Send`.
///
/// ```
/// use mainspring::net::{open_connection, start_server};
///
/// mainspring::run(async {
///     let server = start_server("127.0.0.1:0", |reader, writer| async move {
///         let question = reader.read_line().await.unwrap_or_default();
///         writer.writelines(&[b"you asked: ", &question]);
///         let _ = writer.drain().await;
///         writer.close();
///         let _ = writer.wait_closed().await;
///     })
///     .await?;
///     let (reader, writer) = open_connection(server.local_addr()).await?;
///     assert_eq!(writer.peer_addr(), Some(server.local_addr()));
///     assert!(writer.can_write_eof());
///     writer.write_all(b"who?\n").await?;
///     assert_eq!(reader.read_to_end().await?, b"you asked: who?\n");
///     writer.close();
///     assert!(writer.is_closing());
///     writer.wait_closed().await
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct StreamWriter {
    pub(super) shared: Rc<SharedStream>,
}

impl StreamWriter {
    pub(super) fn new(shared: Rc<SharedStream>) -> Self {
        StreamWriter { shared }
    }

    /// The transport.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    /// let (_reader, writer) = stream.split();
    /// writer.write(b"hello");
    /// assert_eq!(writer.transport().get_write_buffer_size(), 0);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn transport(&self) -> &Transport {
        self.shared.transport()
    }

    /// The peer's address, if this is a TCP connection.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.shared.transport().peer_addr()
    }

    /// The local address, if this is a TCP connection.
    ///
    /// ```
    /// use mainspring::net::{TcpListener, open_connection};
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let (_reader, writer) = open_connection(listener.local_addr()).await?;
    /// assert_eq!(writer.local_addr(), Some(listener.accept().await?.1));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.transport().local_addr()
    }

    /// Sends `data`, or buffers what the kernel does not accept. The next [`drain`](StreamWriter::drain) reports a
    /// failure. If another task is in [`write_all`](StreamWriter::write_all), the data follows its message. See
    /// [`Transport::write`].
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// let (_reader, writer) = stream.split();
    /// for word in ["one ", "two "] {
    ///     writer.write(word.as_bytes());
    /// }
    /// writer.drain().await?;
    /// assert_eq!(peer.read_exactly(8).await?, b"one two ");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn write(&self, data: &[u8]) {
        if !self.defer(&[data]) {
            self.shared.transport().write(data);
        }
    }

    /// Sends several pieces as one write.
    pub fn writelines(&self, pieces: &[&[u8]]) {
        if !self.defer(pieces) {
            self.shared.transport().writelines(pieces);
        }
    }

    /// Waits until the write buffer is below the transport's limit. Fails if the connection is lost.
    ///
    /// Cancel safety: safe; the call only waits.
    pub async fn drain(&self) -> io::Result<()> {
        // Most calls do not wait, and need no list of waiters.
        match self.try_drain() {
            Some(drained) => drained,
            None => {
                let drained = self.shared.buffered.writers().wait_until(|| self.try_drain());
                named(|| "StreamWriter::drain", drained).await
            }
        }
    }

    /// [`StreamWriter::drain`] without waiting. `None` if it would wait.
    pub(super) fn try_drain(&self) -> Option<io::Result<()>> {
        if self.has_deferred() {
            return None;
        }
        self.try_drain_queue()
    }

    /// As [`try_drain`](StreamWriter::try_drain), without the deferred data.
    fn try_drain_queue(&self) -> Option<io::Result<()>> {
        if self.shared.buffered.is_lost() {
            return Some(Err(self.lost_error()));
        }
        match self.shared.transport().inspect_open(|transport| transport.is_lost()) {
            None => Some(Err(Error::Closed.into())),
            // A send has failed; `connection_lost` is scheduled and will provide the error.
            Some(true) => None,
            Some(false) => (!self.shared.buffered.is_writing_paused()).then_some(Ok(())),
        }
    }

    /// Writes all of `data`. Completes when everything is sent or buffered and the write buffer is not above the
    /// high-water mark. Fails with the error of the connection, with `ConnectionReset` if it was closed locally,
    /// after [`write_eof`](StreamWriter::write_eof), and during a [`Transport::sendfile`].
    ///
    /// Several tasks can share a writer: messages are not interleaved. They are written one after another, in the
    /// order of their first poll. Data of [`write`](StreamWriter::write) follows the current message. A started
    /// `write_all` blocks the others until it completes or is dropped, so drop it if it is no longer polled. Writes
    /// to the [`Transport`] itself bypass this order.
    ///
    /// Cancel safety: not safe. If it was waiting for its turn, nothing is written; otherwise a part may be written,
    /// and the next message follows. If messages must stay whole, write them in a dedicated task.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use mainspring::spawn;
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let stream = Rc::new(stream);
    /// for letter in *b"abc" {
    ///     let stream = Rc::clone(&stream);
    ///     spawn(async move { stream.write_all(&vec![letter; 1_000_000]).await });
    /// }
    /// for letter in *b"abc" {
    ///     assert_eq!(peer.read_exactly(1_000_000).await?, vec![letter; 1_000_000]);
    /// }
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn write_all(&self, data: &[u8]) -> impl Future<Output = io::Result<()>> {
        // Boxed, because few messages wait, and every future that calls this has room for it: row `memory` of
        // `bench/peers`, 6 %. As an `async fn` this would also have room for all variables of its first step.
        let mut waiting = None;
        poll_fn(move |cx| {
            if waiting.is_none() {
                let (mut rest, mut is_draining) = (data, false);
                if !self.is_write_locked()
                    && let Some(done) = self.continue_write(&mut rest, &mut is_draining)
                {
                    return Poll::Ready(done);
                }
                waiting = Some(Box::pin(self.write_rest(rest, is_draining)));
            }
            waiting.as_mut().map_or(Poll::Pending, |waiting| waiting.as_mut().poll(cx))
        })
    }

    /// Sends the rest of a message that has to wait.
    async fn write_rest(&self, mut rest: &[u8], mut is_draining: bool) -> io::Result<()> {
        let _write_lock = self.lock_writing().await?;
        named(
            || "StreamWriter::drain",
            self.shared.buffered.writers().wait_until(|| self.continue_write(&mut rest, &mut is_draining)),
        )
        .await
    }

    /// Writes `data` for a caller that holds the write lock.
    pub(crate) async fn write_locked(&self, mut data: &[u8]) -> io::Result<()> {
        let mut is_draining = true;
        named(
            || "StreamWriter::drain",
            self.shared.buffered.writers().wait_until(|| self.continue_write(&mut data, &mut is_draining)),
        )
        .await
    }

    /// Writes chunk by chunk, draining in between. `None` if it has to wait.
    // Inlined into the awaiting future: returning through several frames right after a system call is expensive.
    #[inline(always)]
    fn continue_write(&self, rest: &mut &[u8], is_draining: &mut bool) -> Option<io::Result<()>> {
        loop {
            if *is_draining && let Err(error) = self.try_drain_queue()? {
                return Some(Err(error));
            }
            if rest.is_empty() {
                return Some(Ok(()));
            }
            let (chunk, later) = rest.split_at(rest.len().min(MAX_WRITE_BYTES));
            match self.try_write_vectored(&[IoSlice::new(chunk)]) {
                Ok(can_continue) => (*rest, *is_draining) = (later, !can_continue),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Writes to the transport. `true` if no drain is needed.
    #[inline]
    pub(super) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<bool> {
        let buffered = &self.shared.buffered;
        let outcome = self.shared.transport().try_write_vectored(pieces);
        if matches!(outcome, WriteOutcome::Accepted) && !buffered.is_lost() {
            return Ok(!buffered.is_writing_paused());
        }
        self.write_failed(outcome)
    }

    #[cold]
    #[inline(never)]
    fn write_failed(&self, outcome: WriteOutcome) -> io::Result<bool> {
        match outcome {
            WriteOutcome::Lost if !self.shared.buffered.is_lost() => Ok(false),
            WriteOutcome::Accepted | WriteOutcome::Lost | WriteOutcome::Closing => Err(self.lost_error()),
            WriteOutcome::LoopClosed => Err(Error::Closed.into()),
            WriteOutcome::Refused(refusal) => Err(write_refused_error(refusal).into()),
        }
    }

    pub(super) fn lost_error(&self) -> io::Error {
        self.shared.buffered.error().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    /// Half-closes the connection after the write buffer is sent: the peer reads the end of the stream. Reading
    /// continues. An unfinished [`write_all`](StreamWriter::write_all) of another task fails.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
    /// let (reader, writer) = stream.split();
    /// assert!(writer.can_write_eof());
    /// writer.write(b"question");
    /// writer.write_eof();
    /// assert_eq!(peer.read_to_end().await?, b"question");
    /// peer.write_all(b"answer").await?;
    /// assert_eq!(reader.read_exactly(6).await?, b"answer");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn write_eof(&self) {
        self.queue_deferred();
        self.shared.transport().write_eof();
    }

    /// Whether [`write_eof`](StreamWriter::write_eof) is supported.
    pub fn can_write_eof(&self) -> bool {
        self.shared.transport().can_write_eof()
    }

    /// Closes the connection after the write buffer is sent. An unfinished [`write_all`](StreamWriter::write_all) of
    /// another task fails.
    pub fn close(&self) {
        self.queue_deferred();
        self.shared.transport().close();
    }

    /// Whether the connection is closing or closed.
    pub fn is_closing(&self) -> bool {
        self.shared.transport().is_closing()
    }

    /// Waits until the connection is closed. Returns the error that ended it, if any.
    ///
    /// Cancel safety: safe; the call only waits.
    pub fn wait_closed(&self) -> impl Future<Output = io::Result<()>> {
        named(|| "StreamWriter::wait_closed", self.shared.buffered.writers().wait_until(|| self.try_closed()))
    }

    pub(super) fn try_closed(&self) -> Option<io::Result<()>> {
        if self.shared.buffered.is_lost() {
            return Some(self.shared.buffered.error().map_or(Ok(()), Err));
        }
        // A closed loop will not call `connection_lost`.
        self.shared.transport().is_loop_closed().then(|| Err(Error::Closed.into()))
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        self.shared.cancel_wait(|buffered| buffered.writers(), |slots| &mut slots.writing);
        self.shared.cancel_wait(|buffered| buffered.writers(), |slots| &mut slots.closing);
        // If the reader was dropped, dropping `shared` closes the connection.
        if Rc::strong_count(&self.shared) > 1 && !self.shared.is_released() && self.can_write_eof() {
            self.write_eof();
        }
    }
}

impl fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter").field("transport", self.shared.transport()).finish_non_exhaustive()
    }
}
