//! Shutdown, abort and errors. Each leads through the lower transport to one `connection_lost`.

use super::state::{ProtocolState, State};
use super::{LowerTransport, Progress, Session, Tls, TlsFailure};
use crate::transport::{Cx, DeferredCall, ProtocolSink, TransportHost};

impl<H, S, L, U> Tls<H, S, L, U>
where
    H: TransportHost,
    S: Session<H>,
    L: LowerTransport<H>,
    U: ProtocolSink<H>,
{
    /// Closes in order: delivers received data, sends written data, exchanges close_notify with the peer.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.closed.set(true);
        match self.state.get() {
            // Before the start: `connection_made` checks `closed`.
            State::Unwrapped | State::Flushing | State::ShuttingDown => Ok(()),
            State::Handshaking => self.abort(cx, None),
            State::Wrapped => {
                self.state.set(State::Flushing);
                self.start_shutdown_timer(cx)?;
                self.flush(cx)
            }
        }
    }

    /// Closes at once; `connection_lost` gets `error`.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.closed.set(true);
        if self.deferred.get() > 0 {
            // Data written earlier in the same callback would have been sent by now: send it first.
            self.send_last(cx)?;
        }
        self.state.set(State::Unwrapped);
        match self.lower() {
            Some(lower) => lower.force_close(cx, error),
            None => Ok(()),
        }
    }

    /// Ends the connection with an error, which is reported unless it is a common one.
    pub(super) fn fatal(&self, cx: Cx<'_, H>, error: H::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.abort(cx, Some(error))
    }

    pub(super) fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.read(cx)?;
        if self.end_of_stream.get() && self.reading_paused.get() && self.has_more.get() {
            // The protocol has paused reading: it gets the rest when it resumes.
            return Ok(());
        }
        self.begin_shutdown(cx)
    }

    pub(super) fn begin_shutdown(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        // Delivered data may have led to an abort, or to a nested shutdown.
        if self.state.get() != State::Flushing {
            return Ok(());
        }
        self.state.set(State::ShuttingDown);
        self.continue_shutdown(cx)
    }

    pub(super) fn continue_shutdown(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.shut_down.get() {
            return Ok(());
        }
        // After EOF the peer's close_notify cannot arrive. But if the peer sent close_notify and the connection was
        // kept open for writing, this side's close_notify can still be sent.
        let is_deaf = self.end_of_stream.get() && !self.peer_ended.get();
        let step = if is_deaf { Ok(Progress::Done) } else { self.session.shutdown(cx) };
        match step {
            Ok(Progress::Again) => self.send(cx),
            Ok(Progress::Done) => {
                self.shut_down.set(true);
                self.send_last(cx)?;
                self.deliver_eof(cx)?;
                // The lower transport sends its queue before it closes, and a peer that does not read can delay that
                // without limit: the timeout runs until the connection is lost.
                self.start_shutdown_timer(cx)?;
                self.schedule(cx, DeferredCall::CloseLower)
            }
            Err(error) => {
                self.stop_timer(cx, &self.shutdown_timer);
                self.fatal(cx, error, "Fatal error on transport")
            }
        }
    }

    /// Starts the shutdown timeout, unless it runs.
    fn start_shutdown_timer(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let running = self.shutdown_timer.take();
        let timer = match running {
            Some(timer) => timer,
            None => self.start_timer(cx, self.shutdown_timeout, DeferredCall::ShutdownTimeout)?,
        };
        self.shutdown_timer.set(Some(timer));
        Ok(())
    }

    pub(super) fn shutdown_timed_out(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.shutdown_timer.set(None);
        if !matches!(self.state.get(), State::Flushing | State::ShuttingDown) {
            return Ok(());
        }
        let Some(lower) = self.lower() else { return Ok(()) };
        let error = self.session.trouble(cx, TlsFailure::ShutdownTimeout);
        lower.force_close(cx, Some(error))
    }

    /// The lower transport is lost. Calls `connection_lost` at once: this is already a separate call of the loop.
    pub fn connection_lost(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.closed.set(true);
        self.lost_writes.set(self.lost_writes.get().saturating_add(1));
        self.state.set(State::Unwrapped);
        self.stop_timer(cx, &self.handshake_timer);
        self.stop_timer(cx, &self.shutdown_timer);
        let unsent = self.backlog.borrow_mut().take();
        let held = (unsent, self.undelivered.take(), self.lower.take());
        drop(held);
        let ended = match &error {
            Some(error) => self.session.handshake_ended(cx, Err(error)),
            // Closed during the handshake: its waiter would otherwise wait for ever.
            None if !self.established.get() => {
                let error = self.session.trouble(cx, TlsFailure::HandshakeReset);
                self.session.handshake_ended(cx, Err(&error))
            }
            None => self.session.handshake_ended(cx, Ok(())),
        };
        let lost = match self.upper_state.replace(ProtocolState::ConnectionLost) {
            ProtocolState::Connected | ProtocolState::EofReceived => self.sink.connection_lost(cx, error),
            ProtocolState::Initial | ProtocolState::ConnectionLost => Ok(()),
        };
        let detached = self.sink.detach(cx);
        let ended = cx.host().merge_outcomes(ended, lost);
        cx.host().merge_outcomes(ended, detached)
    }
}
