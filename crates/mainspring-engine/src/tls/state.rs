//! `Tls`: the state of the machine, and its calls from the host and from the lower transport.

use super::{LogEvent, LowerTransport, Session, TlsFailure};
use crate::timers::TimerKey;
use crate::transport::{Cx, DeferredCall, FlowControl, ProtocolSink, TransportHost, WaterMarks, WriteQueue};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// The states, as in the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unwrapped,
    Handshaking,
    Wrapped,
    Flushing,
    ShuttingDown,
}

/// The last life-cycle call of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProtocolState {
    Initial,
    Connected,
    EofReceived,
    ConnectionLost,
}

/// Options of a [`Tls`].
#[derive(Clone, Copy, Debug)]
pub struct TlsOptions {
    /// The handshake timeout.
    pub handshake_timeout: Duration,
    /// The shutdown timeout.
    pub shutdown_timeout: Duration,
    /// Whether the protocol already has the connection: a plain one that is upgraded.
    pub is_upgrade: bool,
    /// Whether the lower transport has paused the protocol (upgrades only).
    pub is_writing_paused: bool,
}

/// The TLS state machine. See the [module](crate::tls).
pub struct Tls<H: TransportHost, S, L, U> {
    pub(super) session: S,
    pub(super) sink: U,
    pub(super) lower: RefCell<Option<L>>,
    pub(super) state: Cell<State>,
    pub(super) upper_state: Cell<ProtocolState>,
    pub(super) handshake_timeout: Duration,
    pub(super) shutdown_timeout: Duration,
    pub(super) handshake_timer: Cell<Option<TimerKey>>,
    pub(super) shutdown_timer: Cell<Option<TimerKey>>,
    /// Plaintext to encrypt.
    pub(super) backlog: RefCell<WriteQueue<H::Chunk>>,
    /// Plaintext that did not fit the protocol's buffer, and its number of delivered bytes.
    pub(super) undelivered: RefCell<Option<(H::Chunk, usize)>>,
    pub(super) lost_writes: Cell<u32>,
    pub(super) flow: FlowControl,
    pub(super) read_marks: Cell<WaterMarks>,
    /// Closed by the host or by an error.
    pub(super) closed: Cell<bool>,
    pub(super) established: Cell<bool>,
    pub(super) end_of_stream: Cell<bool>,
    pub(super) shut_down: Cell<bool>,
    /// The peer has sent close_notify, and the protocol keeps the connection open.
    pub(super) peer_ended: Cell<bool>,
    /// The protocol has called `write_eof`.
    pub(super) eof_written: Cell<bool>,
    /// close_notify for `write_eof` was sent.
    pub(super) eof_sent: Cell<bool>,
    /// The last delivery stopped before all data was delivered.
    pub(super) has_more: Cell<bool>,
    /// The protocol has paused reading.
    pub(super) reading_paused: Cell<bool>,
    /// The machine has paused the lower transport.
    pub(super) lower_reading_paused: Cell<bool>,
    /// The lower transport has paused the machine.
    pub(super) lower_writing_paused: Cell<bool>,
    /// A writer is feeding the session.
    pub(super) encrypting: Cell<bool>,
    /// The nesting depth of calls that deliver data.
    pub(super) delivering: Cell<u32>,
    /// Bytes encrypted during those calls and not sent.
    pub(super) deferred: Cell<usize>,
}

impl<H, S, L, U> Tls<H, S, L, U>
where
    H: TransportHost,
    S: Session<H>,
    L: LowerTransport<H>,
    U: ProtocolSink<H>,
{
    /// asyncio's default high-water mark for written data.
    pub const WRITE_HIGH_WATER: usize = 512 * 1024;

    /// asyncio's default high-water mark for received data that was not delivered.
    pub const READ_HIGH_WATER: usize = 256 * 1024;

    /// Creates a machine; [`Tls::connection_made`] starts it.
    pub fn new(session: S, sink: U, options: TlsOptions) -> Self {
        Tls {
            session,
            sink,
            lower: RefCell::new(None),
            state: Cell::new(State::Unwrapped),
            upper_state: Cell::new(if options.is_upgrade {
                ProtocolState::Connected
            } else {
                ProtocolState::Initial
            }),
            handshake_timeout: options.handshake_timeout,
            shutdown_timeout: options.shutdown_timeout,
            handshake_timer: Cell::new(None),
            shutdown_timer: Cell::new(None),
            backlog: RefCell::default(),
            undelivered: RefCell::new(None),
            lost_writes: Cell::new(0),
            flow: FlowControl::new(
                WaterMarks::of(Self::WRITE_HIGH_WATER),
                options.is_upgrade && options.is_writing_paused,
            ),
            read_marks: Cell::new(WaterMarks::of(Self::READ_HIGH_WATER)),
            closed: Cell::new(false),
            established: Cell::new(false),
            end_of_stream: Cell::new(false),
            shut_down: Cell::new(false),
            peer_ended: Cell::new(false),
            eof_written: Cell::new(false),
            eof_sent: Cell::new(false),
            has_more: Cell::new(false),
            reading_paused: Cell::new(false),
            lower_reading_paused: Cell::new(false),
            lower_writing_paused: Cell::new(options.is_writing_paused),
            encrypting: Cell::new(false),
            delivering: Cell::new(0),
            deferred: Cell::new(0),
        }
    }

    /// The session.
    pub fn session(&self) -> &S {
        &self.session
    }

    /// The protocol.
    pub fn sink(&self) -> &U {
        &self.sink
    }

    /// The lower transport, from `connection_made` to `connection_lost`.
    pub fn lower(&self) -> Option<L> {
        self.lower.borrow().clone()
    }

    /// The lower transport is connected: starts the handshake.
    pub fn connection_made(&self, cx: Cx<'_, H>, lower: L) -> Result<(), H::Error> {
        let former = self.lower.replace(Some(lower.clone()));
        drop(former);
        if self.closed.get() {
            // Closed before it started: no handshake.
            return lower.force_close(cx, None);
        }
        self.start_handshake(cx)
    }

    /// Ciphertext arrived.
    pub fn data_received(&self, cx: Cx<'_, H>, ciphertext: &[u8]) -> Result<(), H::Error> {
        self.session.feed(cx, ciphertext)?;
        self.fed(cx)
    }

    /// The session has been fed with ciphertext.
    pub fn fed(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.state.get() {
            State::Unwrapped => Ok(()),
            State::Handshaking => self.continue_handshake(cx),
            State::Wrapped => self.read(cx),
            State::Flushing => self.flush(cx),
            State::ShuttingDown => self.continue_shutdown(cx),
        }
    }

    /// EOF of the lower transport. `true` keeps that transport open.
    pub fn eof_received(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        match self.stream_ended(cx) {
            Ok(keep_open) => Ok(keep_open),
            Err(error) => {
                let closed = self.lower().map_or(Ok(()), |lower| lower.close(cx));
                cx.host().merge_outcomes(Err(error), closed).map(|()| false)
            }
        }
    }

    fn stream_ended(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        self.end_of_stream.set(true);
        self.session.note(cx, LogEvent::EndOfStream)?;
        match self.state.get() {
            State::Unwrapped => {}
            State::Handshaking => {
                let error = self.session.trouble(cx, TlsFailure::HandshakeReset);
                self.handshake_failed(cx, error)?;
            }
            State::Wrapped if self.session.can_half_close() => {
                // Read first: the received data may contain the peer's close_notify, which makes this an orderly end.
                self.read(cx)?;
                return Ok(self.state.get() == State::Wrapped);
            }
            State::Wrapped => {
                self.state.set(State::Flushing);
                if !self.reading_paused.get() {
                    self.flush(cx)?;
                }
                // Still flushing: the data is delivered when the protocol resumes reading.
                return Ok(self.state.get() == State::Flushing);
            }
            State::Flushing => {
                self.encrypt(cx)?;
                self.begin_shutdown(cx)?;
            }
            State::ShuttingDown => self.continue_shutdown(cx)?,
        }
        Ok(false)
    }

    /// The lower transport pauses writing.
    pub fn pause_writing(&self) {
        self.lower_writing_paused.set(true);
    }

    /// The lower transport resumes writing.
    pub fn resume_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.lower_writing_paused.set(false);
        self.send(cx)
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        match deferred {
            DeferredCall::HandshakeTimeout => self.handshake_timed_out(cx),
            DeferredCall::ShutdownTimeout => self.shutdown_timed_out(cx),
            DeferredCall::ContinueReading => match self.state.get() {
                State::Wrapped => self.read(cx),
                State::Flushing => self.flush(cx),
                State::ShuttingDown => self.continue_shutdown(cx),
                State::Unwrapped | State::Handshaking => Ok(()),
            },
            DeferredCall::CloseLower => match self.lower() {
                Some(lower) => lower.close(cx),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Whether this or the lower transport is closing or closed.
    pub fn is_closing(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.closed.get() {
            return Ok(true);
        }
        self.lower().map_or(Ok(false), |lower| lower.is_closing(cx))
    }

    /// Whether it was closed by the host or by an error.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether reading is not paused.
    pub fn is_reading(&self) -> bool {
        !self.reading_paused.get()
    }

    /// Whether the protocol is paused by back-pressure.
    pub fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    /// The water marks of written data.
    pub fn write_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    /// The water marks of received data that was not delivered.
    pub fn read_marks(&self) -> WaterMarks {
        self.read_marks.get()
    }

    /// Shows all chunks to the garbage collector; skips a container that is mutably borrowed.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&H::Chunk)) {
        if let Ok(backlog) = self.backlog.try_borrow() {
            backlog.iter().for_each(&mut *show);
        }
        if let Ok(undelivered) = self.undelivered.try_borrow()
            && let Some((chunk, _)) = &*undelivered
        {
            show(chunk);
        }
    }

    /// Shows the lower transport to the garbage collector, unless it is mutably borrowed.
    pub fn show_lower(&self, show: impl FnOnce(&L)) {
        if let Ok(lower) = self.lower.try_borrow()
            && let Some(lower) = &*lower
        {
            show(lower);
        }
    }

    /// Drops everything that was shown to the collector.
    pub fn clear(&self) {
        let chunks = self.backlog.borrow_mut().take();
        let held = (self.undelivered.take(), self.lower.take(), chunks);
        drop(held);
    }

    /// Schedules a deferred step.
    pub(super) fn schedule(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        cx.call_soon(cx.host().deferred_call(cx.this, deferred)?)
    }

    /// Starts a timeout.
    pub(super) fn start_timer(
        &self,
        cx: Cx<'_, H>,
        delay: Duration,
        deferred: DeferredCall,
    ) -> Result<TimerKey, H::Error> {
        let call = cx.host().deferred_call(cx.this, deferred)?;
        let timer = cx.engine.try_call_at(cx.engine.now().saturating_add(delay), call);
        timer.map_err(|call| {
            drop(call);
            cx.out_of_memory()
        })
    }

    /// Cancels a timeout.
    pub(super) fn stop_timer(&self, cx: Cx<'_, H>, timer: &Cell<Option<TimerKey>>) {
        if let Some(key) = timer.take() {
            let call = cx.engine.cancel_timer(key);
            drop(call);
        }
    }
}
