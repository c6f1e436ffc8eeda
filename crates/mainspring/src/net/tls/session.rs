//! `RustlsSession`: adapts a rustls connection to the engine's TLS state machine.
//!
//! rustls works on memory only. It holds plaintext of about one record. Further ciphertext is queued here until the
//! protocol has received the earlier plaintext.
//!
//! rustls calls user code: verifiers, resolvers and session stores. That code may call into this connection, so the
//! connection may be borrowed when a method is called. The method then does nothing, and the outer call processes
//! what was queued. User code may also panic, which fails the connection.

use super::error::TlsError;
use super::handshake::Handshake;
use crate::host::{Failure, RustHost};
use crate::panics::catch;
use mainspring_engine::tls::{LogEvent, Plaintext, Progress, Session, TlsFailure, TlsOptions};
use mainspring_engine::transport::{Cx, TransportHost};
use rustls::{Connection, IoState};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::rc::Rc;
use std::time::Duration;

/// Plaintext delivered at a time; the last record may exceed it.
const MAX_PLAINTEXT_BYTES: usize = 64 * 1024;

/// See the module documentation.
pub(super) struct RustlsSession {
    connection: RefCell<Connection>,
    /// Ciphertext that rustls does not accept yet.
    ciphertext: RefCell<VecDeque<u8>>,
    /// A panic of user code while ciphertext was fed. Reported when the outcome is read.
    panic: Cell<Option<String>>,
    handshake_timeout: Duration,
    shutdown_timeout: Duration,
    handshake: Rc<Handshake>,
}

impl RustlsSession {
    pub(super) fn new(mut connection: Connection, options: &TlsOptions, handshake: Rc<Handshake>) -> Self {
        // No limit in rustls: the state machine limits how much is encrypted.
        connection.set_buffer_limit(None);
        RustlsSession {
            connection: RefCell::new(connection),
            ciphertext: RefCell::default(),
            panic: Cell::new(None),
            handshake_timeout: options.handshake_timeout,
            shutdown_timeout: options.shutdown_timeout,
            handshake,
        }
    }

    /// Reads state of the connection. `None` if it is borrowed.
    pub(super) fn inspect<R>(&self, inspect: impl FnOnce(&Connection) -> R) -> Option<R> {
        self.connection.try_borrow().ok().map(|connection| inspect(&connection))
    }

    /// Runs `f` on the connection. `None` if it is borrowed.
    fn with<R>(&self, f: impl FnOnce(&mut Connection) -> Result<R, Failure>) -> Result<Option<R>, Failure> {
        if let Some(text) = self.panic.take() {
            return Err(Failure::Panic(text));
        }
        let Ok(mut connection) = self.connection.try_borrow_mut() else { return Ok(None) };
        catch(|| f(&mut connection)).map_err(Failure::Panic)?.map(Some)
    }

    /// Feeds queued ciphertext to rustls until there is plaintext or the queue is empty. `false` if rustls took
    /// nothing.
    fn refill(&self, connection: &mut Connection) -> Result<bool, rustls::Error> {
        let mut state = connection.process_new_packets()?;
        while state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() {
            let taken = connection.read_tls(&mut EofAsWouldBlock(&mut *self.ciphertext.borrow_mut()));
            match taken {
                Ok(count) if count > 0 => state = connection.process_new_packets()?,
                _ => return Ok(false),
            }
        }
        if self.ciphertext.borrow().is_empty() {
            // An idle connection releases the memory.
            self.ciphertext.take();
        }
        Ok(true)
    }

    fn state(connection: &mut Connection) -> Result<IoState, Failure> {
        connection.process_new_packets().map_err(|error| failure(TlsError::Rustls(error)))
    }
}

/// A reader that returns `WouldBlock` instead of the end of the stream.
struct EofAsWouldBlock<'a, R>(&'a mut R);

impl<R: Read> Read for EofAsWouldBlock<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

fn failure(error: TlsError) -> Failure {
    Failure::Io(error.into())
}

impl Session<RustHost> for RustlsSession {
    fn handshake(&self, _: Cx<'_, RustHost>) -> Result<Progress, Failure> {
        let done = self.with(|connection| {
            self.refill(connection).map_err(|error| failure(TlsError::from_handshake(error)))?;
            Ok(!connection.is_handshaking())
        })?;
        Ok(if done == Some(true) { Progress::Done } else { Progress::Again })
    }

    fn established(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        Ok(())
    }

    fn feed(&self, _: Cx<'_, RustHost>, ciphertext: &[u8]) -> Result<(), Failure> {
        let mut rest = ciphertext;
        if self.ciphertext.borrow().is_empty() {
            let fed = self.with(|connection| {
                while !rest.is_empty() {
                    match connection.read_tls(&mut rest) {
                        // After close_notify all further bytes are ignored.
                        Ok(0) => rest = &[],
                        // The error is returned again when the outcome is read.
                        Ok(_) => match connection.process_new_packets() {
                            Ok(_) => {}
                            Err(_) => rest = &[],
                        },
                        // rustls accepts no more until the plaintext is read.
                        Err(_) => break,
                    }
                }
                Ok(())
            });
            if let Err(Failure::Panic(text)) = fed {
                self.panic.set(Some(text));
            }
        }
        let mut ciphertext = self.ciphertext.borrow_mut();
        ciphertext.try_reserve(rest.len()).map_err(|error| Failure::Io(error.into()))?;
        ciphertext.extend(rest);
        Ok(())
    }

    fn fed(&self, _: Cx<'_, RustHost>) -> Result<usize, Failure> {
        let decrypted = self.with(|connection| {
            // The error is returned again when the outcome is read.
            Ok(connection.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read()))
        })?;
        Ok(decrypted.unwrap_or(0).saturating_add(self.ciphertext.borrow().len()))
    }

    fn read(&self, _: Cx<'_, RustHost>) -> Result<Plaintext<Vec<u8>>, Failure> {
        let plain = self.with(|connection| {
            let mut chunk = Vec::new();
            loop {
                let mut reader = connection.reader();
                match reader.fill_buf() {
                    Ok([]) if chunk.is_empty() => return Ok(Plaintext::End),
                    Ok([]) => return Ok(Plaintext::Data { chunk, is_all: false }),
                    Ok(part) => {
                        chunk.extend_from_slice(part);
                        let count = part.len();
                        reader.consume(count);
                        if chunk.len() >= MAX_PLAINTEXT_BYTES {
                            return Ok(Plaintext::Data { chunk, is_all: false });
                        }
                    }
                    Err(_) => match self.refill(connection) {
                        Ok(true) => {}
                        Ok(false) if chunk.is_empty() => return Ok(Plaintext::Again),
                        Ok(false) => return Ok(Plaintext::Data { chunk, is_all: true }),
                        Err(error) if chunk.is_empty() => return Err(failure(TlsError::Rustls(error))),
                        // Plaintext before the failure is delivered first.
                        Err(_) => return Ok(Plaintext::Data { chunk, is_all: false }),
                    },
                }
            }
        })?;
        Ok(plain.unwrap_or(Plaintext::Again))
    }

    fn write(&self, _: Cx<'_, RustHost>, chunk: &Vec<u8>, done: usize) -> Result<Option<usize>, Failure> {
        let rest = chunk.get(done..).unwrap_or_default();
        let taken = self.with(|connection| connection.writer().write(rest).map_err(Failure::Io))?;
        Ok(taken.filter(|count| *count > 0))
    }

    fn shutdown(&self, _: Cx<'_, RustHost>) -> Result<Progress, Failure> {
        let done = self.with(|connection| {
            connection.send_close_notify();
            // Data that arrives after the local close is discarded.
            loop {
                let mut reader = connection.reader();
                let count = reader.fill_buf().map_or(0, <[u8]>::len);
                reader.consume(count);
                let is_more = self.refill(connection).map_err(|error| failure(TlsError::Rustls(error)))?;
                let state = Self::state(connection)?;
                if !is_more || state.peer_has_closed() {
                    return Ok(state.peer_has_closed());
                }
            }
        })?;
        Ok(if done == Some(true) { Progress::Done } else { Progress::Again })
    }

    fn can_half_close(&self) -> bool {
        true
    }

    fn end_writing(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.with(|connection| {
            connection.send_close_notify();
            Ok(())
        })
        .map(|_| ())
    }

    fn truncated(&self, _: Cx<'_, RustHost>) -> Option<Failure> {
        Some(failure(TlsError::Truncated))
    }

    fn take(&self, _: Cx<'_, RustHost>) -> Result<Option<Vec<u8>>, Failure> {
        let ciphertext = self.with(|connection| {
            let mut ciphertext = Vec::new();
            while connection.wants_write() {
                connection.write_tls(&mut ciphertext).map_err(Failure::Io)?;
            }
            Ok(ciphertext)
        })?;
        Ok(ciphertext.filter(|ciphertext| !ciphertext.is_empty()))
    }

    fn pending(&self, _: Cx<'_, RustHost>) -> Result<usize, Failure> {
        let pending = self.with(|connection| {
            Ok(connection.process_new_packets().map_or(0, |state| state.tls_bytes_to_write()))
        })?;
        Ok(pending.unwrap_or(0))
    }

    /// Passes the outcome to the task that waits for the handshake. Without one, a failure is reported to the
    /// exception handler, except disconnects by the peer.
    fn handshake_ended(&self, cx: Cx<'_, RustHost>, outcome: Result<(), &Failure>) -> Result<(), Failure> {
        match self.handshake.settle(outcome) {
            Some(Failure::Io(error)) if is_peer_disconnect(&error) => Ok(()),
            Some(unreported) => cx.host().report(cx.this, unreported, "A TLS handshake failed"),
            None => Ok(()),
        }
    }

    fn handshake_failure(&self, _: &Failure) -> &'static str {
        "A TLS handshake failed"
    }

    fn trouble(&self, _: Cx<'_, RustHost>, trouble: TlsFailure) -> Failure {
        failure(match trouble {
            TlsFailure::HandshakeReset => TlsError::HandshakeReset,
            TlsFailure::HandshakeTimeout => TlsError::HandshakeTimeout(self.handshake_timeout),
            TlsFailure::ShutdownTimeout => TlsError::ShutdownTimeout(self.shutdown_timeout),
        })
    }

    fn note(&self, _: Cx<'_, RustHost>, _: LogEvent) -> Result<(), Failure> {
        Ok(())
    }
}

/// Whether the peer has disconnected.
fn is_peer_disconnect(error: &io::Error) -> bool {
    match TlsError::of(error) {
        Some(TlsError::HandshakeReset) => true,
        Some(_) => false,
        None => error.raw_os_error().is_some(),
    }
}
