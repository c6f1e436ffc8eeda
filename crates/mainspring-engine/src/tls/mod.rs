//! TLS: the state machine between a transport that carries ciphertext and a protocol that takes plaintext.
//!
//! The machine is asyncio's `sslproto`, shared by both languages. A [`Session`] does the cryptography (Python's
//! `ssl.SSLObject` over two `MemoryBIO`s, or another library that works on memory). A [`LowerTransport`] does the I/O (the
//! engine's [`Stream`](crate::transport::Stream), another transport of the host, or another [`Tls`]). The protocol is
//! the same [`ProtocolSink`](crate::transport::ProtocolSink) as that of a plain stream.
//!
//! # States
//!
//! | state | entered | left |
//! | --- | --- | --- |
//! | `Unwrapped` | initially; again when the connection is lost, aborted or failed | to `Handshaking`, by `connection_made` of the lower transport |
//! | `Handshaking` | | to `Wrapped`, when the session has completed the handshake |
//! | `Wrapped` | | to `Flushing`, by `close`, the peer's close_notify, or EOF of the lower transport |
//! | `Flushing` | received data is delivered, written data is encrypted | to `ShuttingDown` |
//! | `ShuttingDown` | close_notify goes both ways | the lower transport is closed, and its `connection_lost` ends this one |
//!
//! A session that can half-close ([`Session::can_half_close`]) stays `Wrapped` when the peer has sent close_notify
//! and the protocol keeps the connection open, or after [`Tls::write_eof`] while the peer still sends. Such a session
//! also distinguishes EOF of the lower transport from close_notify ([`Session::truncated`]).
//!
//! A protocol that got `connection_made` gets `connection_lost`, once and last. Handshake and shutdown each have a
//! timeout; that of the shutdown runs until the connection is lost.
//!
//! # Rules
//!
//! - Every call of the session, the lower transport or the protocol may re-enter the machine. No borrow is held
//!   across one, and the state is checked again after each.
//! - Plaintext keeps its order: one writer at a time feeds the session (`encrypting`); a nested writer queues its
//!   data behind.
//! - Data that the protocol writes while it receives is encrypted at once and sent in one piece when it returns, up
//!   to a limit.
//!
//! Errors and threads are as for [transports](crate::transport).
//!
//! `tests/tls/toy.rs` has a session with records and close_notify; `mainspring` has one over rustls.

mod handshake;
mod read;
mod shutdown;
mod state;
mod write;

pub use state::{Tls, TlsOptions};

use crate::transport::{Cx, TransportHost};

/// The progress of an operation of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Complete.
    Done,
    /// More data from the peer is needed.
    Again,
}

/// The result of reading from a session.
#[derive(Debug)]
pub enum Plaintext<C> {
    /// Plaintext, not empty. `is_all`: nothing more can be read before more ciphertext is fed.
    Data {
        /// The plaintext.
        chunk: C,
        /// See above.
        is_all: bool,
    },
    /// Nothing before more ciphertext is fed.
    Again,
    /// The peer sent close_notify.
    End,
}

/// An error that the machine detects. The host converts it ([`Session::trouble`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// EOF during the handshake.
    HandshakeReset,
    /// The handshake timed out.
    HandshakeTimeout,
    /// The shutdown timed out.
    ShutdownTimeout,
}

/// An event for the debug log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The handshake begins.
    HandshakeBegins,
    /// EOF of the lower transport.
    EndOfStream,
    /// The protocol asked to keep the connection open for writing, which the session does not support.
    KeepOpenIgnored,
}

/// One end of a TLS connection, working on memory.
pub trait Session<H: TransportHost> {
    /// Continues the handshake.
    fn handshake(&self, cx: Cx<'_, H>) -> Result<Progress, H::Error>;

    /// The handshake is complete: stores what is known of the peer.
    fn established(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Takes received ciphertext.
    fn feed(&self, cx: Cx<'_, H>, ciphertext: &[u8]) -> Result<(), H::Error>;

    /// The number of bytes fed and not read yet.
    fn fed(&self, cx: Cx<'_, H>) -> Result<usize, H::Error>;

    /// Decrypts fed bytes, up to one chunk.
    fn read(&self, cx: Cx<'_, H>) -> Result<Plaintext<H::Chunk>, H::Error>;

    /// Encrypts `chunk` from byte `done` on. Returns the number of bytes taken, `None` if it cannot take any now.
    fn write(&self, cx: Cx<'_, H>, chunk: &H::Chunk, done: usize) -> Result<Option<usize>, H::Error>;

    /// Continues the shutdown: sends close_notify and waits for the peer's.
    fn shutdown(&self, cx: Cx<'_, H>) -> Result<Progress, H::Error>;

    /// Whether one direction can end before the other, as in TLS 1.3. asyncio's sessions cannot.
    fn can_half_close(&self) -> bool {
        false
    }

    /// Sends close_notify and continues to receive; for a session that [can half-close](Session::can_half_close).
    fn end_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let _ = cx;
        Ok(())
    }

    /// The error for EOF without the peer's close_notify, if it is one; for a session that [can
    /// half-close](Session::can_half_close). asyncio treats it as an orderly end.
    fn truncated(&self, cx: Cx<'_, H>) -> Option<H::Error> {
        let _ = cx;
        None
    }

    /// Returns all ciphertext to send; `None` if there is none.
    fn take(&self, cx: Cx<'_, H>) -> Result<Option<H::Chunk>, H::Error>;

    /// The number of bytes that [`Session::take`] would return.
    fn pending(&self, cx: Cx<'_, H>) -> Result<usize, H::Error>;

    /// Reports the outcome of the handshake to its waiter. Called once or more; the first call counts.
    fn handshake_ended(&self, cx: Cx<'_, H>, outcome: Result<(), &H::Error>) -> Result<(), H::Error>;

    /// The message for a handshake error.
    fn handshake_failure(&self, error: &H::Error) -> &'static str;

    /// Converts an error of the machine.
    fn trouble(&self, cx: Cx<'_, H>, trouble: TlsFailure) -> H::Error;

    /// Logs an event.
    fn note(&self, cx: Cx<'_, H>, note: LogEvent) -> Result<(), H::Error>;
}

/// The lower transport. A clone is the same transport.
pub trait LowerTransport<H: TransportHost>: Clone {
    /// Sends ciphertext.
    fn write(&self, cx: Cx<'_, H>, chunk: H::Chunk) -> Result<(), H::Error>;

    /// Pauses receiving.
    fn pause_reading(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Resumes receiving.
    fn resume_reading(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Closes after queued data is sent.
    fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Closes at once; its `connection_lost` gets `error`.
    fn force_close(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error>;

    /// Whether it is closing or closed.
    fn is_closing(&self, cx: Cx<'_, H>) -> Result<bool, H::Error>;
}
