//! Receiving: decryption, delivery to the protocol, and back-pressure.

use super::state::{ProtocolState, State};
use super::{LogEvent, LowerTransport, Plaintext, Session, Tls};
use crate::transport::{Cx, DeferredCall, ProtocolSink, TransportHost, WaterMarks};

impl<H, S, L, U> Tls<H, S, L, U>
where
    H: TransportHost,
    S: Session<H>,
    L: LowerTransport<H>,
    U: ProtocolSink<H>,
{
    /// Delivers available data, then sends the protocol's output.
    pub(super) fn read(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if !self.may_deliver() {
            return Ok(());
        }
        match self.deliver_and_answer(cx) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal(cx, error, "Fatal error on SSL protocol"),
        }
    }

    fn may_deliver(&self) -> bool {
        matches!(self.state.get(), State::Wrapped | State::Flushing)
    }

    fn deliver_and_answer(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let mut is_all = false;
        if !self.reading_paused.get() {
            self.delivering.set(self.delivering.get() + 1);
            let delivered = self.deliver(cx);
            self.delivering.set(self.delivering.get() - 1);
            is_all = delivered?;
            self.has_more.set(!is_all);
            if is_all && let Some(error) = self.truncated(cx) {
                return Err(error);
            }
        }
        // Also after a handshake that an upgraded protocol did not wait for: it may have written meanwhile.
        if self.may_deliver() && self.has_to_encrypt() {
            self.encrypt(cx)?;
        }
        self.send(cx)?;
        if is_all { self.control_reading(cx, 0) } else { self.control_reading_by_size(cx) }
    }

    /// The error if all data is delivered, the lower transport is at EOF and the peer has not sent close_notify.
    fn truncated(&self, cx: Cx<'_, H>) -> Option<H::Error> {
        let is_early =
            self.end_of_stream.get() && self.state.get() == State::Wrapped && !self.peer_ended.get();
        if is_early { self.session.truncated(cx) } else { None }
    }

    /// Delivers until there is no more data (`true`) or the protocol stops it.
    fn deliver(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.peer_ended.get() {
            return Ok(true);
        }
        loop {
            let left_over = self.undelivered.take();
            let (chunk, done, is_all) = match left_over {
                Some((chunk, done)) => (chunk, done, false),
                None => match self.session.read(cx)? {
                    Plaintext::Data { chunk, is_all } => (chunk, 0, is_all),
                    Plaintext::Again => return Ok(true),
                    Plaintext::End => {
                        let is_kept = self.deliver_eof(cx)?;
                        if is_kept && self.state.get() == State::Wrapped && !self.eof_written.get() {
                            self.peer_ended.set(true);
                        } else {
                            self.close(cx)?;
                        }
                        return Ok(true);
                    }
                },
            };
            if !self.may_deliver() {
                // The session ran user code, which closed the connection.
                return Ok(true);
            }
            if self.sink.is_buffered() {
                let is_rest = self.fill_buffer(cx, chunk, done)?;
                if is_all && !is_rest {
                    return Ok(true);
                }
                if self.state.get() == State::Wrapped && !self.reading_paused.get() {
                    // As in asyncio, one buffer per iteration, so that other callbacks run in between.
                    self.schedule(cx, DeferredCall::ContinueReading)?;
                    return Ok(false);
                }
            } else {
                self.sink.chunk_received(cx, chunk, done)?;
                if is_all {
                    return Ok(true);
                }
            }
            if self.reading_paused.get() || !self.may_deliver() {
                return Ok(false);
            }
        }
    }

    /// Fills one buffer of the protocol. `true` if the chunk did not fit.
    fn fill_buffer(&self, cx: Cx<'_, H>, chunk: H::Chunk, done: usize) -> Result<bool, H::Error> {
        let rest = chunk.as_ref().get(done..).unwrap_or_default();
        let filled = self.sink.receive_into(cx, &mut |buffer| {
            let count = rest.len().min(buffer.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
                to.copy_from_slice(from);
            }
            Ok(count)
        })?;
        let filled = filled.map_err(|error| cx.host().os_error(error))?;
        let is_rest = filled < rest.len();
        if is_rest {
            let former = self.undelivered.replace(Some((chunk, done + filled)));
            drop(former);
        }
        self.sink.buffer_updated(cx, filled)?;
        Ok(is_rest)
    }

    /// Calls `eof_received`, once. `true` if the connection is to be kept open for writing, and can be.
    pub(super) fn deliver_eof(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.upper_state.get() != ProtocolState::Connected {
            return Ok(false);
        }
        self.upper_state.set(ProtocolState::EofReceived);
        match self.sink.eof_received(cx) {
            Ok(true) if self.session.can_half_close() => return Ok(true),
            Ok(true) => self.session.note(cx, LogEvent::KeepOpenIgnored)?,
            Ok(false) => {}
            Err(error) => self.fatal(cx, error, "Error calling eof_received()")?,
        }
        Ok(false)
    }

    /// Pauses delivery until [`Tls::resume_reading`].
    pub fn pause_reading(&self) {
        self.reading_paused.set(true);
    }

    /// Resumes delivery in the next iteration.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.reading_paused.replace(false) {
            self.schedule(cx, DeferredCall::ContinueReading)
        } else {
            Ok(())
        }
    }

    /// Bytes received and not delivered.
    pub fn read_buffer_size(&self, cx: Cx<'_, H>) -> Result<usize, H::Error> {
        let undelivered = self
            .undelivered
            .borrow()
            .as_ref()
            .map_or(0, |(chunk, done)| chunk.as_ref().len().saturating_sub(*done));
        Ok(self.session.fed(cx)?.saturating_add(undelivered))
    }

    /// Sets the water marks of received data, and pauses or resumes the lower transport accordingly.
    pub fn set_read_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.read_marks.set(marks);
        self.control_reading_by_size(cx)
    }

    fn control_reading_by_size(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let size = self.read_buffer_size(cx)?;
        self.control_reading(cx, size)
    }

    fn control_reading(&self, cx: Cx<'_, H>, size: usize) -> Result<(), H::Error> {
        let Some(lower) = self.lower() else { return Ok(()) };
        let WaterMarks { high, low } = self.read_marks.get();
        if size >= high && size > low {
            if self.lower_reading_paused.replace(true) { Ok(()) } else { lower.pause_reading(cx) }
        } else if size <= low && self.lower_reading_paused.replace(false) {
            lower.resume_reading(cx)
        } else {
            Ok(())
        }
    }
}
