//! TLS: the state machine between a transport that carries ciphertext and a protocol that wants plain text.
//!
//! The machine is asyncio's `sslproto`, written once for both faces. It does no cryptography: a [`Session`] does
//! (Python's `ssl.SSLObject` over two `MemoryBIO`s; any other library that works on memory). It does no I/O: a
//! [`Lower`] does (the engine's own [`Stream`](crate::transport::Stream), another transport of the face, another
//! [`Tls`]). Above is the same [`Upper`](crate::transport::Upper) that a plain stream has.
//!
//! # Its life
//!
//! | state | from | to |
//! | --- | --- | --- |
//! | `Unwrapped` | the beginning; again when the connection is lost, aborted or has failed | `Handshaking`, by `connection_made` of the transport below |
//! | `Handshaking` | | `Wrapped` when the session says so |
//! | `Wrapped` | | `Flushing`, by `close`, the peer's close_notify, or the end of the stream below |
//! | `Flushing` | what has arrived is delivered, what was written is encrypted | `ShuttingDown` |
//! | `ShuttingDown` | close_notify goes both ways | the transport below is closed, and its `connection_lost` ends this one |
//!
//! A session that can end one direction alone ([`Session::can_half_close`]) stays `Wrapped` when the peer sends no more
//! and the protocol keeps the connection open, or when [`Tls::write_eof`] was called and the peer still sends. It is
//! also one that does not take the end of the stream below for the peer's word ([`Session::truncated`]).
//!
//! A protocol that was told `connection_made` is told `connection_lost`, once and last. The handshake and the
//! shutdown each have a time limit; that of the shutdown holds until the connection is lost.
//!
//! # Rules
//!
//! - Every call of the session, the lower transport and the protocol may come back into the machine. No borrow is
//!   held across one, and after each the state is looked at again.
//! - Plain text leaves in the order it was written: one writer at a time feeds the session (`writing`); whoever comes
//!   meanwhile queues behind it.
//! - What the protocol writes while it takes data is encrypted at once and sent in one piece when it returns, unless
//!   it is much.
//!
//! Failures and threads are as for [transports](crate::transport).
//!
//! One whose records have borders and whose goodbyes are heard is in `tests/tls/toy.rs`; over rustls, `net/tls/session.rs`.

mod handshake;
mod read;
mod shutdown;
mod state;
mod write;

pub use state::{Tls, TlsOptions};

use crate::transport::{Cx, TransportHost};

/// Whether an operation of the session came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is done.
    Done,
    /// It needs something of the peer first.
    Again,
}

/// What a session had to read.
#[derive(Debug)]
pub enum Plain<C> {
    /// Plain text, never empty. `is_all`: nothing more can be read before more ciphertext is fed.
    Data {
        /// The plain text.
        chunk: C,
        /// See above.
        is_all: bool,
    },
    /// Nothing before more ciphertext is fed.
    Again,
    /// The peer said that it sends no more (close_notify).
    End,
}

/// What the machine itself finds wrong, for the face to put into its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The stream ended during the handshake.
    HandshakeReset,
    /// The handshake took too long.
    HandshakeTimeout,
    /// The shutdown took too long.
    ShutdownTimeout,
}

/// What those who debug like to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The handshake begins.
    HandshakeBegins,
    /// The stream below ended.
    EndOfStream,
    /// The protocol wished to keep the connection open for writing, which TLS cannot.
    KeepOpenIgnored,
}

/// One end of a TLS connection that works on memory.
pub trait Session<H: TransportHost> {
    /// Goes on with the handshake.
    fn handshake(&self, cx: Cx<'_, H>) -> Result<Step, H::Error>;

    /// The handshake is done: keeps what is known of the peer.
    fn established(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Takes ciphertext that arrived.
    fn feed(&self, cx: Cx<'_, H>, ciphertext: &[u8]) -> Result<(), H::Error>;

    /// How much ciphertext was fed and not read yet.
    fn fed(&self, cx: Cx<'_, H>) -> Result<usize, H::Error>;

    /// Decrypts what has been fed, as much as fits one chunk.
    fn read(&self, cx: Cx<'_, H>) -> Result<Plain<H::Chunk>, H::Error>;

    /// Encrypts a chunk from the byte `done` on. Gives how many bytes it took, `None` if it cannot take any now.
    fn write(&self, cx: Cx<'_, H>, chunk: &H::Chunk, done: usize) -> Result<Option<usize>, H::Error>;

    /// Goes on with the shutdown: sends close_notify and waits for the peer's.
    fn shutdown(&self, cx: Cx<'_, H>) -> Result<Step, H::Error>;

    /// Whether one direction can end before the other, as TLS 1.3 has it. asyncio's cannot.
    fn can_half_close(&self) -> bool {
        false
    }

    /// Says goodbye and goes on receiving; for a session that [can half-close](Session::can_half_close).
    fn end_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let _ = cx;
        Ok(())
    }

    /// What is wrong with a stream that ends without the peer's goodbye; asked of a session that
    /// [can half-close](Session::can_half_close). asyncio takes it for an end like any other.
    fn truncated(&self, cx: Cx<'_, H>) -> Option<H::Error> {
        let _ = cx;
        None
    }

    /// The ciphertext to send, all of it; `None` if there is none.
    fn take(&self, cx: Cx<'_, H>) -> Result<Option<H::Chunk>, H::Error>;

    /// How much ciphertext [`Session::take`] would give.
    fn pending(&self, cx: Cx<'_, H>) -> Result<usize, H::Error>;

    /// Tells whoever waits for the handshake how it ended; called once or more, of which the first counts.
    fn handshake_ended(&self, cx: Cx<'_, H>, outcome: Result<(), &H::Error>) -> Result<(), H::Error>;

    /// What a failure of the handshake is called when it is reported.
    fn handshake_failure(&self, error: &H::Error) -> &'static str;

    /// A failure in the face's words.
    fn trouble(&self, cx: Cx<'_, H>, trouble: Trouble) -> H::Error;

    /// Something for the log.
    fn note(&self, cx: Cx<'_, H>, note: Note) -> Result<(), H::Error>;
}

/// The transport below, as TLS uses it. A clone is the same one.
pub trait Lower<H: TransportHost>: Clone {
    /// Sends ciphertext.
    fn write(&self, cx: Cx<'_, H>, chunk: H::Chunk) -> Result<(), H::Error>;

    /// Receives no more for now.
    fn pause_reading(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Receives again.
    fn resume_reading(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Sends what waits, then closes.
    fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Closes at once; `error` is what its `connection_lost` is told.
    fn force_close(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error>;

    /// Whether it is closed or on the way there.
    fn is_closing(&self, cx: Cx<'_, H>) -> Result<bool, H::Error>;
}
