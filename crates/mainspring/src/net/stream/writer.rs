//! `StreamWriter`: the sending side of a connection.

use super::ends::Ends;
use crate::error::Error;
use crate::net::connection::Transport;
use crate::net::connection::{Offered, refused};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;

/// A large write goes out in pieces of this size, so that no more than one is ever queued.
pub(super) const MAX_WRITE_BYTES: usize = 256 * 1024;

/// The sending side of a connection, of any kind: asyncio's `StreamWriter`.
///
/// [`write`](StreamWriter::write) queues what the system does not take at once, without limit, and
/// [`drain`](StreamWriter::drain) waits until the queue is short again; [`write_all`](StreamWriter::write_all) is both.
///
/// Dropping the writer ends the sending side where that can end alone, as [`write_eof`](StreamWriter::write_eof) does:
/// what is queued still goes out, and the reader goes on reading. When the reader is dropped too, the connection is
/// closed in order. It stays on its thread (`!Send`).
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
    pub(super) ends: Rc<Ends>,
}

impl StreamWriter {
    pub(super) fn new(ends: Rc<Ends>) -> Self {
        StreamWriter { ends }
    }

    /// The transport below.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (near, _far) = mainspring::net::UnixStream::pair()?;
    /// let (_reader, writer) = near.split();
    /// writer.write(b"hello");
    /// assert_eq!(writer.transport().get_write_buffer_size(), 0);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn transport(&self) -> &Transport {
        self.ends.transport()
    }

    /// The peer's address, of a connection over the Internet protocols.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.ends.transport().peer_addr()
    }

    /// The address of this end, of a connection over the Internet protocols.
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
        self.ends.transport().local_addr()
    }

    /// Sends `data`, or queues what cannot be sent at once. That it failed is told by the next
    /// [`drain`](StreamWriter::drain). It follows the message that another task is writing by
    /// [`write_all`](StreamWriter::write_all), if there is one. See [`Transport::write`].
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (near, far) = mainspring::net::UnixStream::pair()?;
    /// let (_reader, writer) = near.split();
    /// for word in ["one ", "two "] {
    ///     writer.write(word.as_bytes());
    /// }
    /// writer.drain().await?;
    /// assert_eq!(far.read_exactly(8).await?, b"one two ");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn write(&self, data: &[u8]) {
        if !self.defer(&[data]) {
            self.ends.transport().write(data);
        }
    }

    /// Sends several pieces as one write.
    pub fn writelines(&self, pieces: &[&[u8]]) {
        if !self.defer(pieces) {
            self.ends.transport().writelines(pieces);
        }
    }

    /// Waits until no more is queued than the transport allows; at once if that is so already. An error if the
    /// connection is gone.
    ///
    /// Cancel safety: it only waits.
    pub fn drain(&self) -> impl Future<Output = io::Result<()>> {
        self.ends.buffered.writers.until(|| self.try_drain())
    }

    /// What [`StreamWriter::drain`] gives without waiting; `None` if it has to.
    pub(super) fn try_drain(&self) -> Option<io::Result<()>> {
        if self.has_deferred() {
            return None;
        }
        self.try_drain_queue()
    }

    /// The same for the transport's queue alone.
    fn try_drain_queue(&self) -> Option<io::Result<()>> {
        if self.ends.buffered.is_lost() {
            return Some(Err(self.lost()));
        }
        match self.ends.transport().look_alive(|below| below.is_lost()) {
            None => Some(Err(Error::Closed.into())),
            // A send has failed, and `connection_lost` is about to tell how.
            Some(true) => None,
            Some(false) => (!self.ends.buffered.is_writing_paused()).then_some(Ok(())),
        }
    }

    /// Writes all of `data`: returns when the last of it is sent or queued, and no more is queued than the
    /// transport's high-water mark. The error that the connection was lost by, or `ConnectionReset` if it was closed here;
    /// an error also after [`write_eof`](StreamWriter::write_eof), and during a [`Transport::sendfile`].
    ///
    /// Several tasks may share a writer: messages are never mixed. Each is written when the one before is through, in the
    /// order in which they were first polled. What [`write`](StreamWriter::write) is given in the meantime follows the
    /// message that is being written. A `write_all` that was begun holds up the others until it is done or dropped, so one
    /// that is no longer polled has to be dropped. Only what is written to the [`Transport`] itself does not wait.
    ///
    /// Cancel safety: not. Cancelled while it waits for its turn, nothing of it is written; cancelled later, some of it is,
    /// and the next message follows. Where messages must stay whole, a task of its own writes them.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use mainspring::spawn;
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let (near, far) = UnixStream::pair()?;
    /// let near = Rc::new(near);
    /// for letter in *b"abc" {
    ///     let near = Rc::clone(&near);
    ///     spawn(async move { near.write_all(&vec![letter; 1_000_000]).await });
    /// }
    /// for letter in *b"abc" {
    ///     assert_eq!(far.read_exactly(1_000_000).await?, vec![letter; 1_000_000]);
    /// }
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn write_all(&self, data: &[u8]) -> io::Result<()> {
        let (mut rest, mut is_draining) = (data, false);
        if !self.is_turn_held()
            && let Some(done) = self.continue_write(&mut rest, &mut is_draining)
        {
            return done;
        }
        let _turn = self.take_turn().await?;
        self.ends.buffered.writers.until(|| self.continue_write(&mut rest, &mut is_draining)).await
    }

    /// Writes `data` for somebody who has the turn.
    pub(crate) async fn write_in_turn(&self, mut data: &[u8]) -> io::Result<()> {
        let mut is_draining = true;
        self.ends.buffered.writers.until(|| self.continue_write(&mut data, &mut is_draining)).await
    }

    /// Writes piece by piece, each when the one before is sent or queued and the queue short; `None` when it has to wait
    /// for that.
    // Into who awaits it: a profile shows that to return from a call costs most right behind a system call, so the fewer lead
    // to it the better.
    #[inline(always)]
    fn continue_write(&self, rest: &mut &[u8], is_draining: &mut bool) -> Option<io::Result<()>> {
        loop {
            if *is_draining && let Err(error) = self.try_drain_queue()? {
                return Some(Err(error));
            }
            if rest.is_empty() {
                return Some(Ok(()));
            }
            let (piece, later) = rest.split_at(rest.len().min(MAX_WRITE_BYTES));
            match self.offer(&[IoSlice::new(piece)]) {
                Ok(is_through) => (*rest, *is_draining) = (later, !is_through),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Writes, if the connection takes it. Whether that need not be waited for: `false` if it is to be found out.
    #[inline]
    pub(super) fn offer(&self, pieces: &[IoSlice<'_>]) -> io::Result<bool> {
        let buffered = &self.ends.buffered;
        let offered = self.ends.transport().offer(pieces);
        if matches!(offered, Offered::Taken) && !buffered.is_lost() {
            return Ok(!buffered.is_writing_paused());
        }
        self.offer_failed(offered)
    }

    #[cold]
    #[inline(never)]
    fn offer_failed(&self, offered: Offered) -> io::Result<bool> {
        match offered {
            Offered::Lost if !self.ends.buffered.is_lost() => Ok(false),
            Offered::Taken | Offered::Lost | Offered::TooLate => Err(self.lost()),
            Offered::LoopClosed => Err(Error::Closed.into()),
            Offered::Refused(refusal) => Err(refused(refusal).into()),
        }
    }

    pub(super) fn lost(&self) -> io::Error {
        self.ends.buffered.error().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    /// Sends no more: the peer sees the end of the stream after what is queued. Reading goes on. A
    /// [`write_all`](StreamWriter::write_all) that another task has begun and not finished fails.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (near, far) = mainspring::net::UnixStream::pair()?;
    /// let (reader, writer) = near.split();
    /// assert!(writer.can_write_eof());
    /// writer.write(b"question");
    /// writer.write_eof();
    /// assert_eq!(far.read_to_end().await?, b"question");
    /// far.write_all(b"answer").await?;
    /// assert_eq!(reader.read_exactly(6).await?, b"answer");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn write_eof(&self) {
        self.queue_deferred();
        self.ends.transport().write_eof();
    }

    /// Whether [`write_eof`](StreamWriter::write_eof) is possible.
    pub fn can_write_eof(&self) -> bool {
        self.ends.transport().can_write_eof()
    }

    /// Closes the connection, both sides of it: what is queued still goes out. A
    /// [`write_all`](StreamWriter::write_all) that another task has begun and not finished fails.
    pub fn close(&self) {
        self.queue_deferred();
        self.ends.transport().close();
    }

    /// Whether the connection is closed, or about to be.
    pub fn is_closing(&self) -> bool {
        self.ends.transport().is_closing()
    }

    /// Waits until the connection is gone. The error it was lost by, if there is one.
    ///
    /// Cancel safety: it only waits.
    pub fn wait_closed(&self) -> impl Future<Output = io::Result<()>> {
        self.ends.buffered.writers.until(|| self.try_closed())
    }

    pub(super) fn try_closed(&self) -> Option<io::Result<()>> {
        if self.ends.buffered.is_lost() {
            return Some(self.ends.buffered.error().map_or(Ok(()), Err));
        }
        // Nobody will tell any more.
        self.ends.transport().is_loop_closed().then(|| Err(Error::Closed.into()))
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        self.ends.leave(&self.ends.buffered.writers, |seats| &mut seats.writing);
        self.ends.leave(&self.ends.buffered.writers, |seats| &mut seats.closing);
        // With the reader gone too, the connection is closed by what they share.
        if Rc::strong_count(&self.ends) > 1 && !self.ends.is_given_away() && self.can_write_eof() {
            self.write_eof();
        }
    }
}

impl fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter").field("transport", self.ends.transport()).finish_non_exhaustive()
    }
}
