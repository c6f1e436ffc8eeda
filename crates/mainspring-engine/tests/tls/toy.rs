//! A toy TLS session, a lower transport that is a list, and a protocol that records its callbacks.
//!
//! A record of the toy is a letter, the length in two bytes, and the text with every bit inverted. `H` is a handshake
//! message (the client sends first, the server answers), `D` is data, `C` is close_notify.

use crate::fixture::{End, Failure, TestHost};
use mainspring_engine::tls::{LogEvent, LowerTransport, Plaintext, Progress, Session, TlsFailure};
use mainspring_engine::transport::{Cx, ProtocolSink, RecvFn};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

type Result<T> = std::result::Result<T, Failure>;
type Hook = Box<dyn Fn(Cx<'_, TestHost>)>;

pub struct ToySession {
    is_server: bool,
    incoming: RefCell<Vec<u8>>,
    outgoing: RefCell<Vec<u8>>,
    greeted: Cell<bool>,
    sent_close_notify: Cell<bool>,
    heard_goodbye: Cell<bool>,
    /// The results that `handshake_ended` was called with.
    pub outcomes: RefCell<Vec<Option<String>>>,
    /// Called by the next `write`, before it writes.
    pub on_write: RefCell<Option<Hook>>,
    /// The maximum number of bytes of a chunk that one `write` accepts.
    pub max_write: Cell<usize>,
    /// Whether one direction can end alone.
    pub can_half_close: Cell<bool>,
}

impl ToySession {
    pub fn new(is_server: bool) -> Self {
        ToySession {
            is_server,
            incoming: RefCell::default(),
            outgoing: RefCell::default(),
            greeted: Cell::new(false),
            sent_close_notify: Cell::new(false),
            heard_goodbye: Cell::new(false),
            outcomes: RefCell::default(),
            on_write: RefCell::default(),
            max_write: Cell::new(usize::MAX),
            can_half_close: Cell::new(false),
        }
    }

    fn put(&self, kind: u8, text: &[u8]) {
        let mut outgoing = self.outgoing.borrow_mut();
        for part in if text.is_empty() { vec![text] } else { text.chunks(0xffff).collect() } {
            outgoing.push(kind);
            outgoing.extend(u16::try_from(part.len()).unwrap().to_be_bytes());
            outgoing.extend(part.iter().map(|byte| !byte));
        }
    }

    /// The next complete record.
    fn next(&self) -> Result<Option<(u8, Vec<u8>)>> {
        let mut incoming = self.incoming.borrow_mut();
        let [kind, high, low, rest @ ..] = incoming.as_slice() else { return Ok(None) };
        if !b"HDC".contains(kind) {
            return Err(Failure("not a record".to_owned()));
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(text) = rest.get(..length) else { return Ok(None) };
        let record = (*kind, text.iter().map(|byte| !byte).collect());
        incoming.drain(..3 + length);
        Ok(Some(record))
    }
}

impl Session<TestHost> for ToySession {
    fn handshake(&self, _: Cx<'_, TestHost>) -> Result<Progress> {
        if !self.is_server && !self.greeted.replace(true) {
            self.put(b'H', b"");
        }
        match self.next()? {
            None => Ok(Progress::Again),
            Some((b'H', _)) => {
                if self.is_server {
                    self.put(b'H', b"");
                }
                Ok(Progress::Done)
            }
            Some(_) => {
                self.put(b'C', b"an alert");
                Err(Failure("bad handshake".to_owned()))
            }
        }
    }

    fn established(&self, _: Cx<'_, TestHost>) -> Result<()> {
        Ok(())
    }

    fn feed(&self, _: Cx<'_, TestHost>, ciphertext: &[u8]) -> Result<()> {
        self.incoming.borrow_mut().extend(ciphertext);
        Ok(())
    }

    fn fed(&self, _: Cx<'_, TestHost>) -> Result<usize> {
        Ok(self.incoming.borrow().len())
    }

    fn read(&self, _: Cx<'_, TestHost>) -> Result<Plaintext<Vec<u8>>> {
        if self.heard_goodbye.get() {
            return Ok(Plaintext::End);
        }
        match self.next()? {
            None => Ok(Plaintext::Again),
            Some((b'C', _)) => {
                self.heard_goodbye.set(true);
                Ok(Plaintext::End)
            }
            Some((_, chunk)) => Ok(Plaintext::Data { chunk, is_all: self.incoming.borrow().is_empty() }),
        }
    }

    fn write(&self, cx: Cx<'_, TestHost>, chunk: &Vec<u8>, done: usize) -> Result<Option<usize>> {
        let hook = self.on_write.take();
        if let Some(hook) = hook {
            hook(cx);
        }
        let rest = &chunk[done..];
        let count = rest.len().min(self.max_write.get());
        self.put(b'D', &rest[..count]);
        Ok(Some(count))
    }

    fn shutdown(&self, cx: Cx<'_, TestHost>) -> Result<Progress> {
        if !self.sent_close_notify.replace(true) {
            self.put(b'C', b"");
        }
        match self.read(cx)? {
            Plaintext::End => Ok(Progress::Done),
            Plaintext::Again => Ok(Progress::Again),
            Plaintext::Data { .. } => Err(Failure("data after close_notify".to_owned())),
        }
    }

    fn can_half_close(&self) -> bool {
        self.can_half_close.get()
    }

    fn end_writing(&self, _: Cx<'_, TestHost>) -> Result<()> {
        assert!(!self.sent_close_notify.replace(true), "close_notify twice");
        self.put(b'C', b"");
        Ok(())
    }

    fn truncated(&self, _: Cx<'_, TestHost>) -> Option<Failure> {
        Some(Failure("truncated".to_owned()))
    }

    fn take(&self, _: Cx<'_, TestHost>) -> Result<Option<Vec<u8>>> {
        let ciphertext = self.outgoing.take();
        Ok((!ciphertext.is_empty()).then_some(ciphertext))
    }

    fn pending(&self, _: Cx<'_, TestHost>) -> Result<usize> {
        Ok(self.outgoing.borrow().len())
    }

    fn handshake_ended(&self, _: Cx<'_, TestHost>, outcome: std::result::Result<(), &Failure>) -> Result<()> {
        self.outcomes.borrow_mut().push(outcome.err().map(|failure| failure.0.clone()));
        Ok(())
    }

    fn handshake_failure(&self, _: &Failure) -> &'static str {
        "handshake failed"
    }

    fn trouble(&self, _: Cx<'_, TestHost>, trouble: TlsFailure) -> Failure {
        Failure(format!("{trouble:?}"))
    }

    fn note(&self, _: Cx<'_, TestHost>, _: LogEvent) -> Result<()> {
        Ok(())
    }
}

/// The lower transport. Clones share it.
#[derive(Clone, Default)]
pub struct Wire(Rc<WireState>);

#[derive(Default)]
pub struct WireState {
    writes: RefCell<Vec<Vec<u8>>>,
    is_reading_paused: Cell<bool>,
    is_closed: Cell<bool>,
    /// The error it was force-closed with.
    forced: RefCell<Option<Option<String>>>,
}

impl Wire {
    /// The data sent since the last call.
    pub fn take(&self) -> Vec<u8> {
        self.0.writes.take().concat()
    }

    /// The number of these writes.
    pub fn writes(&self) -> usize {
        self.0.writes.borrow().len()
    }

    pub fn is_reading_paused(&self) -> bool {
        self.0.is_reading_paused.get()
    }

    pub fn is_closed(&self) -> bool {
        self.0.is_closed.get()
    }

    pub fn forced(&self) -> Option<Option<String>> {
        self.0.forced.borrow().clone()
    }
}

impl LowerTransport<TestHost> for Wire {
    fn write(&self, _: Cx<'_, TestHost>, chunk: Vec<u8>) -> Result<()> {
        self.0.writes.borrow_mut().push(chunk);
        Ok(())
    }

    fn pause_reading(&self, _: Cx<'_, TestHost>) -> Result<()> {
        assert!(!self.0.is_reading_paused.replace(true), "paused twice");
        Ok(())
    }

    fn resume_reading(&self, _: Cx<'_, TestHost>) -> Result<()> {
        assert!(self.0.is_reading_paused.replace(false), "resumed without a pause");
        Ok(())
    }

    fn close(&self, _: Cx<'_, TestHost>) -> Result<()> {
        self.0.is_closed.set(true);
        Ok(())
    }

    fn force_close(&self, _: Cx<'_, TestHost>, error: Option<Failure>) -> Result<()> {
        self.0.is_closed.set(true);
        self.0.forced.borrow_mut().get_or_insert(error.map(|error| error.0));
        Ok(())
    }

    fn is_closing(&self, _: Cx<'_, TestHost>) -> Result<bool> {
        Ok(self.0.is_closed.get())
    }
}

/// The upper protocol.
#[derive(Default)]
pub struct Recorder {
    pub log: RefCell<Vec<String>>,
    pub received: RefCell<Vec<u8>>,
    /// The size of its buffer; zero if it is not buffered.
    pub buffer: Cell<usize>,
    filling: RefCell<Vec<u8>>,
    /// The return value of `eof_received`.
    pub keeps_open: Cell<bool>,
    /// Called with each piece of data, after it was recorded.
    pub on_data: RefCell<Option<Hook>>,
    /// The error of the next call.
    pub failure: RefCell<Option<Failure>>,
}

impl Recorder {
    fn note(&self, what: &str) -> Result<()> {
        self.log.borrow_mut().push(what.to_owned());
        self.failure.take().map_or(Ok(()), Err)
    }

    pub fn took(&self, data: &[u8], cx: Cx<'_, TestHost>) -> Result<()> {
        self.received.borrow_mut().extend(data);
        self.note(&format!("data {}", data.len()))?;
        let hook = self.on_data.take();
        if let Some(hook) = hook {
            hook(cx);
            self.on_data.borrow_mut().get_or_insert(hook);
        }
        Ok(())
    }
}

impl ProtocolSink<TestHost> for Recorder {
    fn connection_made(&self, _: Cx<'_, TestHost>) -> Result<()> {
        self.note("made")
    }

    fn is_buffered(&self) -> bool {
        self.buffer.get() > 0
    }

    fn data_received(&self, cx: Cx<'_, TestHost>, data: &[u8]) -> Result<()> {
        self.took(data, cx)
    }

    fn receive_into(&self, _: Cx<'_, TestHost>, claim: RecvFn<'_>) -> Result<io::Result<usize>> {
        let mut buffer = vec![0; self.buffer.get()];
        let filled = claim(&mut buffer);
        *self.filling.borrow_mut() = buffer;
        Ok(filled)
    }

    fn buffer_updated(&self, cx: Cx<'_, TestHost>, filled: usize) -> Result<()> {
        let buffer = self.filling.take();
        self.took(&buffer[..filled], cx)
    }

    fn eof_received(&self, _: Cx<'_, TestHost>) -> Result<bool> {
        self.note("eof").map(|()| self.keeps_open.get())
    }

    fn connection_lost(&self, _: Cx<'_, TestHost>, error: Option<Failure>) -> Result<()> {
        self.note(&format!("lost {:?}", error.map(|error| error.0)))
    }

    fn pause_writing(&self, _: Cx<'_, TestHost>) -> Result<()> {
        self.note("pause")
    }

    fn resume_writing(&self, _: Cx<'_, TestHost>) -> Result<()> {
        self.note("resume")
    }

    fn detach(&self, _: Cx<'_, TestHost>) -> Result<()> {
        Ok(())
    }
}

impl End {
    pub fn log(&self) -> Vec<String> {
        self.tls.sink().log.borrow().clone()
    }

    pub fn received(&self) -> Vec<u8> {
        self.tls.sink().received.borrow().clone()
    }

    /// Sets the hook for each piece of data.
    pub fn on_data(&self, hook: impl Fn(Cx<'_, TestHost>) + 'static) {
        *self.tls.sink().on_data.borrow_mut() = Some(Box::new(hook));
    }

    pub fn outcomes(&self) -> Vec<Option<String>> {
        self.tls.session().outcomes.borrow().clone()
    }
}
