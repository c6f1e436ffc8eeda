//! Sending: queueing, encryption, output to the lower transport, and back-pressure.

use super::state::State;
use super::{LowerTransport, Session, Tls};
use crate::transport::{Cx, ProtocolSink, TransportHost, WaterMarks, WriteRefused, count_lost_write};

/// Up to this many bytes that a protocol writes while it receives are held until it returns, and leave in one piece.
const MAX_DEFERRED_BYTES: usize = 64 * 1024;

impl<H, S, L, U> Tls<H, S, L, U>
where
    H: TransportHost,
    S: Session<H>,
    L: LowerTransport<H>,
    U: ProtocolSink<H>,
{
    /// Sends chunks of plaintext in order: all of them, or none if there is no memory to queue them.
    pub fn write(&self, cx: Cx<'_, H>, chunks: impl IntoIterator<Item = H::Chunk>) -> Result<(), H::Error> {
        match self.state.get() {
            State::Handshaking | State::Wrapped => {}
            State::Unwrapped | State::Flushing | State::ShuttingDown => {
                return count_lost_write(cx, &self.lost_writes);
            }
        }
        let chunks = chunks.into_iter();
        if !self.backlog.borrow_mut().try_reserve(chunks.size_hint().0) {
            return Err(cx.out_of_memory());
        }
        for chunk in chunks {
            let length = chunk.as_ref().len();
            self.backlog.borrow_mut().push(chunk, 0);
            if self.delivering.get() > 0 {
                self.deferred.set(self.deferred.get().saturating_add(length));
            }
        }
        if self.state.get() != State::Wrapped {
            return Ok(());
        }
        match self.encrypt(cx) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal(cx, error, "Fatal error on SSL protocol"),
        }
    }

    /// Whether a write would be refused.
    pub fn check_write(&self) -> Result<(), WriteRefused> {
        if self.eof_written.get() { Err(WriteRefused::AfterEof) } else { Ok(()) }
    }

    /// Sends close_notify after written data; receiving continues. For a session that [can
    /// half-close](Session::can_half_close).
    pub fn write_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let state = self.state.get();
        if !matches!(state, State::Handshaking | State::Wrapped) || self.eof_written.replace(true) {
            return Ok(());
        }
        if self.peer_ended.get() {
            return self.close(cx);
        }
        // During the handshake close_notify is delayed, as data is.
        if state == State::Handshaking {
            return Ok(());
        }
        match self.encrypt(cx) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal(cx, error, "Fatal error on SSL protocol"),
        }
    }

    /// Whether there is plaintext to encrypt, or close_notify to send.
    pub(super) fn has_to_encrypt(&self) -> bool {
        !self.backlog.borrow().is_empty() || self.eof_written.get() && !self.eof_sent.get()
    }

    /// Encrypts queued plaintext, and sends the ciphertext.
    pub(super) fn encrypt(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.encrypting.replace(true) {
            // Re-entered from the session: the outer call continues with the data queued now.
            return Ok(());
        }
        let result = self.encrypt_backlog(cx).and_then(|()| self.encrypt_eof(cx));
        self.encrypting.set(false);
        result?;
        let is_deferred = self.delivering.get() > 0 && self.deferred.get() < MAX_DEFERRED_BYTES;
        if is_deferred { Ok(()) } else { self.send(cx) }
    }

    fn encrypt_backlog(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        loop {
            let next = self.backlog.borrow_mut().pop_front();
            let Some((chunk, done)) = next else { return Ok(()) };
            let taken = self.session.write(cx, &chunk, done);
            let remains = match &taken {
                Ok(Some(count)) => done.saturating_add(*count) < chunk.as_ref().len(),
                Ok(None) => true,
                Err(_) => false,
            };
            if remains {
                let done = done + taken.as_ref().map_or(0, |taken| taken.unwrap_or(0));
                self.backlog.borrow_mut().push_front(chunk, done);
            }
            if taken?.is_none() {
                return Ok(());
            }
        }
    }

    fn encrypt_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let is_due = self.eof_written.get() && self.backlog.borrow().is_empty();
        if is_due && !self.eof_sent.replace(true) { self.session.end_writing(cx) } else { Ok(()) }
    }

    /// Writes ciphertext to the lower transport, unless that has paused writing.
    pub(super) fn send(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.deferred.set(0);
        if !self.lower_writing_paused.get() {
            self.write_to_lower(cx)?;
        }
        self.control_writing(cx)
    }

    /// As [`Tls::send`], at the end: writes even if the lower transport has paused writing, because there is no later
    /// chance. That transport queues it.
    pub(super) fn send_last(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.deferred.set(0);
        self.write_to_lower(cx)
    }

    fn write_to_lower(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let Some(lower) = self.lower() else { return Ok(()) };
        match self.session.take(cx)? {
            Some(ciphertext) => lower.write(cx, ciphertext),
            None => Ok(()),
        }
    }

    /// Pauses or resumes the protocol according to the water marks.
    pub(super) fn control_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let size = self.write_buffer_len(cx)?;
        if self.flow.is_paused() {
            if self.lower_writing_paused.get() {
                // The lower transport paused the protocol before the upgrade; it also resumes it.
                return Ok(());
            }
            self.flow.shrunk(cx, size, || self.sink.resume_writing(cx))
        } else {
            self.flow.grown(cx, size, || self.sink.pause_writing(cx))
        }
    }

    fn write_buffer_len(&self, cx: Cx<'_, H>) -> Result<usize, H::Error> {
        let ciphertext = if self.lower_writing_paused.get() { self.session.pending(cx)? } else { 0 };
        Ok(self.backlog.borrow().len().saturating_add(ciphertext))
    }

    /// Unsent bytes: not yet encrypted, or not yet written to the lower transport.
    pub fn write_buffer_size(&self, cx: Cx<'_, H>) -> Result<usize, H::Error> {
        if self.deferred.get() > 0 {
            self.send(cx)?;
        }
        self.write_buffer_len(cx)
    }

    /// Sets the water marks of written data, and pauses or resumes the protocol accordingly.
    pub fn set_write_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.flow.set_marks(marks);
        let size = self.write_buffer_len(cx)?;
        // As in asyncio, only the marks decide here, even if the lower transport is paused.
        self.flow.shrunk(cx, size, || self.sink.resume_writing(cx))?;
        self.flow.grown(cx, size, || self.sink.pause_writing(cx))
    }
}
