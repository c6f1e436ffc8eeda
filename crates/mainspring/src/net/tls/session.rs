//! A rustls connection, as the engine's machine sees it.
//!
//! rustls works on memory, as the machine wants it. It keeps plain text of about one record; ciphertext beyond that
//! waits here, undeciphered, until the protocol has taken what is before it.
//!
//! rustls calls what the program put into its configuration: verifiers, resolvers, stores of sessions. Those may call
//! back into this very connection, so it may be in use when a method is called; then there is nothing to do, and
//! whoever uses it goes on with what has been queued. Those may also panic, which ends the connection as a failure.

use super::error::TlsError;
use super::handshake::Handshake;
use crate::host::{Failure, RustHost};
use crate::panics::catch;
use mainspring_engine::tls::{Note, Plain, Session, Step, TlsOptions, Trouble};
use mainspring_engine::transport::{Cx, TransportHost};
use rustls::{Connection, IoState};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::rc::Rc;
use std::time::Duration;

/// So much plain text is delivered at once, or a little more.
const MAX_PLAINTEXT_BYTES: usize = 64 * 1024;

/// See the module's text.
pub(super) struct RustlsSession {
    connection: RefCell<Connection>,
    /// Ciphertext that rustls has no room for yet.
    ciphertext: RefCell<VecDeque<u8>>,
    /// What the program's own code panicked with while ciphertext came in: told where the outcome is asked for.
    panic: Cell<Option<String>>,
    handshake_timeout: Duration,
    shutdown_timeout: Duration,
    handshake: Rc<Handshake>,
}

impl RustlsSession {
    pub(super) fn new(mut connection: Connection, options: &TlsOptions, handshake: Rc<Handshake>) -> Self {
        // The machine decides how much is encrypted before it is sent.
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

    /// Looks at the connection; `None` if it is in use.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Connection) -> R) -> Option<R> {
        self.connection.try_borrow().ok().map(|connection| look(&connection))
    }

    /// Works on the connection; `None` if it is in use.
    fn with<R>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<R, Failure>,
    ) -> Result<Option<R>, Failure> {
        if let Some(text) = self.panic.take() {
            return Err(Failure::Panic(text));
        }
        let Ok(mut connection) = self.connection.try_borrow_mut() else { return Ok(None) };
        catch(|| work(&mut connection)).map_err(Failure::Panic)?.map(Some)
    }

    /// Gives rustls what waits here, until it has plain text or there is no more. `false` if nothing came of it.
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
            // An idle connection keeps no memory for a busy one.
            self.ciphertext.take();
        }
        Ok(true)
    }

    fn state(connection: &mut Connection) -> Result<IoState, Failure> {
        connection.process_new_packets().map_err(|error| failure(TlsError::Rustls(error)))
    }
}

/// A source that says "nothing now" where others would say "this is the end".
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
    fn handshake(&self, _: Cx<'_, RustHost>) -> Result<Step, Failure> {
        let done = self.with(|connection| {
            self.refill(connection).map_err(|error| failure(TlsError::of_handshake(error)))?;
            Ok(!connection.is_handshaking())
        })?;
        Ok(if done == Some(true) { Step::Done } else { Step::Again })
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
                        // After the peer's goodbye nothing means anything.
                        Ok(0) => rest = &[],
                        // A refusal is repeated when the outcome is asked for.
                        Ok(_) => match connection.process_new_packets() {
                            Ok(_) => {}
                            Err(_) => rest = &[],
                        },
                        // There is no room before the plain text is taken.
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
            // A refusal is repeated when the outcome is asked for.
            Ok(connection.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read()))
        })?;
        Ok(decrypted.unwrap_or(0).saturating_add(self.ciphertext.borrow().len()))
    }

    fn read(&self, _: Cx<'_, RustHost>) -> Result<Plain<Vec<u8>>, Failure> {
        let plain = self.with(|connection| {
            let mut chunk = Vec::new();
            loop {
                let mut reader = connection.reader();
                match reader.fill_buf() {
                    Ok([]) if chunk.is_empty() => return Ok(Plain::End),
                    Ok([]) => return Ok(Plain::Data { chunk, is_all: false }),
                    Ok(part) => {
                        chunk.extend_from_slice(part);
                        let count = part.len();
                        reader.consume(count);
                        if chunk.len() >= MAX_PLAINTEXT_BYTES {
                            return Ok(Plain::Data { chunk, is_all: false });
                        }
                    }
                    Err(_) => match self.refill(connection) {
                        Ok(true) => {}
                        Ok(false) if chunk.is_empty() => return Ok(Plain::Again),
                        Ok(false) => return Ok(Plain::Data { chunk, is_all: true }),
                        Err(error) if chunk.is_empty() => return Err(failure(TlsError::Rustls(error))),
                        // What came before the failure is delivered before it.
                        Err(_) => return Ok(Plain::Data { chunk, is_all: false }),
                    },
                }
            }
        })?;
        Ok(plain.unwrap_or(Plain::Again))
    }

    fn write(&self, _: Cx<'_, RustHost>, chunk: &Vec<u8>, done: usize) -> Result<Option<usize>, Failure> {
        let rest = chunk.get(done..).unwrap_or_default();
        let taken = self.with(|connection| connection.writer().write(rest).map_err(Failure::Io))?;
        Ok(taken.filter(|count| *count > 0))
    }

    fn shutdown(&self, _: Cx<'_, RustHost>) -> Result<Step, Failure> {
        let done = self.with(|connection| {
            connection.send_close_notify();
            // What the peer sent before it answers is for nobody.
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
        Ok(if done == Some(true) { Step::Done } else { Step::Again })
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

    /// Who waits for the handshake is told how it ended; where nobody does the exception handler is told, unless the
    /// peer has just gone away.
    fn handshake_ended(&self, cx: Cx<'_, RustHost>, outcome: Result<(), &Failure>) -> Result<(), Failure> {
        match self.handshake.settle(outcome) {
            Some(Failure::Io(error)) if is_peer_disconnect(&error) => Ok(()),
            Some(unheard) => cx.host().report(cx.this, unheard, "A TLS handshake failed"),
            None => Ok(()),
        }
    }

    fn handshake_failure(&self, _: &Failure) -> &'static str {
        "A TLS handshake failed"
    }

    fn trouble(&self, _: Cx<'_, RustHost>, trouble: Trouble) -> Failure {
        failure(match trouble {
            Trouble::HandshakeReset => TlsError::HandshakeReset,
            Trouble::HandshakeTimeout => TlsError::HandshakeTimeout(self.handshake_timeout),
            Trouble::ShutdownTimeout => TlsError::ShutdownTimeout(self.shutdown_timeout),
        })
    }

    fn note(&self, _: Cx<'_, RustHost>, _: Note) -> Result<(), Failure> {
        Ok(())
    }
}

/// Whether the peer went away, of its own will or by the network's.
fn is_peer_disconnect(error: &io::Error) -> bool {
    match TlsError::of(error) {
        Some(TlsError::HandshakeReset) => true,
        Some(_) => false,
        None => error.raw_os_error().is_some(),
    }
}
