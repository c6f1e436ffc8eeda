//! `Cursor`: a file with its position. Operations run in executor threads, one at a time.
//!
//! # Rules
//!
//! - One operation runs at a time. The next one waits for it, even if its future was dropped. So the file's position is
//!   always that of the last operation.
//! - An operation stores its result in the [`CursorState`], not in a future, so that the next call finds it. A
//!   cancelled read loses nothing. If the next operation is not a read, the position goes back by the number of
//!   unread bytes.
//! - The executor thread holds the lock while an operation runs. The loop takes it only between operations, so it never
//!   blocks.
//! - If nothing waited for a failed change (a write, a new length), the next operation returns the error. If none
//!   follows, it is reported to the exception handler.

use super::spawn_blocking;
use crate::Remote;
use crate::concurrent::ConcurrentFuture;
use crate::event_loop::{ExceptionContext, report_here, running_core};
use mainspring_engine::memory;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

/// The maximum number of bytes of one read or write.
pub(super) const MAX_OPERATION_BYTES: usize = 2 * 1024 * 1024;

/// See the module documentation.
pub(super) struct Cursor {
    file: Arc<File>,
    state: Arc<Mutex<CursorState>>,
    running: Option<ConcurrentFuture<()>>,
    /// The target of a seek whose result was not returned yet.
    seeking: Option<SeekFrom>,
}

/// State that one operation passes to the next.
#[derive(Default)]
struct CursorState {
    /// The bytes of the last read.
    bytes: Vec<u8>,
    /// How many of them were returned.
    consumed: usize,
    outcome: Option<Outcome>,
    /// The loop for reporting an error that no call returned.
    remote: Option<Remote>,
}

/// The result of the last operation.
enum Outcome {
    Read(io::Result<()>),
    /// A change of the file failed.
    Failed(io::Error),
    Seek(io::Result<u64>),
}

impl CursorState {
    fn unread(&self) -> &[u8] {
        self.bytes.get(self.consumed..).unwrap_or_default()
    }

    fn fill(&mut self, mut file: &File, size: usize) -> io::Result<()> {
        self.consumed = 0;
        memory::fill_with_zeroes(&mut self.bytes, size)?;
        let result = loop {
            match file.read(&mut self.bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.bytes.truncate(*result.as_ref().unwrap_or(&0));
        result.map(drop)
    }

    /// Moves the position back to the end of the last completed read. A file that cannot seek keeps the unread bytes.
    fn rewind(&mut self, mut file: &File) -> io::Result<()> {
        let unread = i64::try_from(self.unread().len()).unwrap_or(i64::MAX);
        if unread > 0 {
            match file.seek(SeekFrom::Current(-unread)) {
                Err(error) if error.kind() == ErrorKind::NotSeekable => return Ok(()),
                result => result?,
            };
        }
        self.bytes.clear();
        self.consumed = 0;
        Ok(())
    }

    fn seek(&mut self, mut file: &File, to: SeekFrom) -> io::Result<u64> {
        self.rewind(file)?;
        file.seek(to)
    }
}

impl Drop for CursorState {
    fn drop(&mut self) {
        let Some(Outcome::Failed(error)) = self.outcome.take() else { return };
        let message = "A file was dropped before the error of its last change was returned";
        let reported = self.remote.take().and_then(|remote| {
            let text = error.to_string();
            let report = move || report_here(&ExceptionContext::new(message).with_error(text));
            remote.call_soon_threadsafe(report).ok()
        });
        if reported.is_none() {
            report_here(&ExceptionContext::new(message).with_error(error));
        }
    }
}

impl Cursor {
    pub(super) fn new(file: File) -> Self {
        Cursor { file: Arc::new(file), state: Arc::default(), running: None, seeking: None }
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    fn state(&self) -> MutexGuard<'_, CursorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an operation. No other one is running.
    fn start(
        &mut self,
        operation: impl FnOnce(&File, &mut CursorState) -> Option<Outcome> + Send + 'static,
    ) -> io::Result<()> {
        let (file, state) = (Arc::clone(&self.file), Arc::clone(&self.state));
        self.state().remote = running_core().map(|core| Remote::new(Arc::clone(core.inbox())));
        self.running = Some(spawn_blocking(move || {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.outcome = operation(&file, &mut state);
        })?);
        Ok(())
    }

    /// Waits until no operation is running.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(running) = &mut self.running {
            let ended = ready!(Pin::new(running).poll(cx));
            self.running = None;
            ended.map_err(io::Error::other)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until no operation is running, and returns the error of a change that was not returned yet.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx))?;
        let outcome = self.state().outcome.take();
        match outcome {
            Some(Outcome::Failed(error)) => Poll::Ready(Err(error)),
            outcome => {
                self.state().outcome = outcome;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Returns unread bytes of an earlier read, or reads from the file.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_flush(cx))?;
            self.seeking = None;
            let mut state = self.state();
            let outcome = state.outcome.take();
            let count = state.unread().len().min(buffer.len());
            if let (Some(from), Some(to)) = (state.unread().get(..count), buffer.get_mut(..count)) {
                to.copy_from_slice(from);
            }
            state.consumed += count;
            drop(state);
            match outcome {
                Some(Outcome::Read(Err(error))) => return Poll::Ready(Err(error)),
                // An empty read is the end of the file.
                Some(Outcome::Read(Ok(()))) => return Poll::Ready(Ok(count)),
                _ if count > 0 || buffer.is_empty() => return Poll::Ready(Ok(count)),
                _ => {}
            }
            let size = buffer.len().min(MAX_OPERATION_BYTES);
            self.start(move |file, state| Some(Outcome::Read(state.fill(file, size))))?;
        }
    }

    /// Takes up to [`MAX_OPERATION_BYTES`] bytes of `data` and starts writing them. The next operation returns a
    /// failure.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        self.seeking = None;
        let chunk = memory::copy(data.get(..MAX_OPERATION_BYTES).unwrap_or(data))?;
        let count = chunk.len();
        self.start(move |mut file, state| {
            let written = state.rewind(file).and_then(|()| file.write_all(&chunk));
            written.err().map(Outcome::Failed)
        })?;
        Poll::Ready(Ok(count))
    }

    /// Moves the position. A repeated call with the same target continues the same seek.
    pub(super) fn poll_seek(&mut self, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        loop {
            ready!(self.poll_flush(cx))?;
            let outcome = self.state().outcome.take();
            if self.seeking.take() == Some(to)
                && let Some(Outcome::Seek(result)) = outcome
            {
                return Poll::Ready(result);
            }
            self.start(move |file, state| Some(Outcome::Seek(state.seek(file, to))))?;
            self.seeking = Some(to);
        }
    }

    /// Discards a cancelled seek, so that the next one to the same target is a new seek.
    pub(super) fn discard_seek(&mut self) {
        self.seeking = None;
    }

    /// Sets the length of the file, in order with the other operations.
    pub(super) async fn set_len(&mut self, size: u64) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush(cx)).await?;
        self.seeking = None;
        self.start(move |file, _| file.set_len(size).err().map(Outcome::Failed))?;
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// The file, positioned at the end of the last completed read.
    pub(super) async fn into_file(mut self) -> io::Result<File> {
        self.seeking = None;
        poll_fn(|cx| self.poll_flush(cx)).await?;
        self.start(|file, state| state.rewind(file).err().map(Outcome::Failed))?;
        poll_fn(|cx| self.poll_flush(cx)).await?;
        // A cancelled `read_at` or `write_at` may still hold the file: duplicate the fd then.
        Arc::try_unwrap(self.file).or_else(|file| file.try_clone())
    }
}
