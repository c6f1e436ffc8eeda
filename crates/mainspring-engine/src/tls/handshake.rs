//! The handshake and its timeout.

use super::state::{ProtocolState, State};
use super::{LogEvent, LowerTransport, Progress, Session, Tls, TlsFailure};
use crate::transport::{Cx, DeferredCall, ProtocolSink, TransportHost};

impl<H, S, L, U> Tls<H, S, L, U>
where
    H: TransportHost,
    S: Session<H>,
    L: LowerTransport<H>,
    U: ProtocolSink<H>,
{
    pub(super) fn start_handshake(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.session.note(cx, LogEvent::HandshakeBegins)?;
        self.state.set(State::Handshaking);
        let timer = self.start_timer(cx, self.handshake_timeout, DeferredCall::HandshakeTimeout)?;
        self.handshake_timer.set(Some(timer));
        self.continue_handshake(cx)
    }

    pub(super) fn continue_handshake(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let step = self.session.handshake(cx);
        // The session may run user code (for a server name or a certificate), which may close the connection.
        if self.state.get() != State::Handshaking {
            return Ok(());
        }
        match step {
            Ok(Progress::Again) => self.send(cx),
            Ok(Progress::Done) => self.handshake_done(cx),
            Err(error) => self.handshake_failed(cx, error),
        }
    }

    fn handshake_done(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.stop_timer(cx, &self.handshake_timer);
        if let Err(error) = self.session.established(cx) {
            return self.handshake_failed(cx, error);
        }
        self.established.set(true);
        self.state.set(State::Wrapped);
        if self.upper_state.get() == ProtocolState::Initial {
            self.upper_state.set(ProtocolState::Connected);
            self.sink.connection_made(cx)?;
        }
        self.session.handshake_ended(cx, Ok(()))?;
        self.read(cx)
    }

    /// Sends the session's alert, then closes the connection.
    pub(super) fn handshake_failed(&self, cx: Cx<'_, H>, error: H::Error) -> Result<(), H::Error> {
        self.stop_timer(cx, &self.handshake_timer);
        self.state.set(State::Unwrapped);
        self.closed.set(true);
        let message = self.session.handshake_failure(&error);
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.session.handshake_ended(cx, Err(&error))?;
        self.send_last(cx)?;
        match self.lower() {
            Some(lower) => lower.force_close(cx, Some(error)),
            None => Ok(()),
        }
    }

    pub(super) fn handshake_timed_out(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.handshake_timer.set(None);
        if self.state.get() != State::Handshaking {
            return Ok(());
        }
        let error = self.session.trouble(cx, TlsFailure::HandshakeTimeout);
        self.fatal(cx, error, "Fatal error on transport")
    }
}
