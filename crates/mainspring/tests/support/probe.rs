//! `Probe`: a protocol that writes down what it is told, and whether it should have been.
//!
//! Everything a probe sends is the beginning of one pattern, so that what its peer has received can be checked at any
//! time: it is a beginning of the same pattern, no longer than what was sent.

use mainspring::{EventLoop, Protocol, Server, Transport};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use super::Stage;
use test_support::pattern;

/// So much is queued when a probe has filled its connection.
pub const FULL: usize = 300_000;

/// What a protocol is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Made,
    Data,
    Eof,
    Lost,
    Pause,
    Resume,
}

type Hook = Rc<dyn Fn(Told)>;

#[derive(Default)]
pub struct Probe {
    name: String,
    pub made: Cell<u32>,
    pub eof: Cell<u32>,
    pub lost: Cell<u32>,
    pub paused: Cell<bool>,
    pub error: RefCell<Option<io::Error>>,
    pub received: RefCell<Vec<u8>>,
    pub sent: Cell<usize>,
    pub is_eof_written: Cell<bool>,
    pub keeps_open: Cell<bool>,
    /// Kept from `connection_made` to `connection_lost`, unless somebody takes it.
    pub transport: RefCell<Option<Transport>>,
    pub hook: RefCell<Option<Hook>>,
    mistakes: RefCell<Vec<String>>,
}

impl Probe {
    pub fn new(name: impl Into<String>) -> Rc<Self> {
        Rc::new(Probe { name: name.into(), ..Probe::default() })
    }

    pub fn transport(&self) -> Option<Transport> {
        self.transport.borrow().clone()
    }

    /// Sends `length` more bytes, unless the end is sent.
    pub fn write(&self, length: usize) {
        let Some(transport) = self.transport().filter(|_| !self.is_eof_written.get()) else { return };
        let sent = self.sent.get();
        self.sent.set(sent + length);
        transport.write(&pattern(sent + length)[sent..]);
    }

    pub fn write_eof(&self) {
        self.is_eof_written.set(true);
        self.transport().iter().for_each(|transport| transport.write_eof());
    }

    /// Writes until much is queued: the kernel takes no more.
    pub fn fill(&self) {
        let is_short =
            |transport: &Transport| !transport.is_closing() && transport.get_write_buffer_size() < FULL;
        while !self.is_eof_written.get() && self.transport().as_ref().is_some_and(is_short) {
            self.write(256 * 1024);
        }
    }

    pub fn is_closing(&self) -> bool {
        self.lost.get() > 0 || self.transport().is_some_and(|transport| transport.is_closing())
    }

    pub fn error_number(&self) -> Option<i32> {
        self.error.borrow().as_ref().and_then(io::Error::raw_os_error)
    }

    fn told(&self, told: Told) {
        let is_first = self.made.get() == 0;
        if is_first != (told == Told::Made) {
            self.mistake(format!("{told:?} when made {} times", self.made.get()));
        }
        if self.lost.get() > 0 {
            self.mistake(format!("{told:?} after the connection was lost"));
        }
        if self.eof.get() > 0 && matches!(told, Told::Data | Told::Eof) {
            self.mistake(format!("{told:?} after the end of the stream"));
        }
        if matches!((told, self.paused.get()), (Told::Pause, true) | (Told::Resume, false)) {
            self.mistake(format!("{told:?} twice"));
        }
        match told {
            Told::Made => self.made.set(self.made.get() + 1),
            Told::Eof => self.eof.set(self.eof.get() + 1),
            Told::Lost => self.lost.set(self.lost.get() + 1),
            Told::Pause => self.paused.set(true),
            Told::Resume => self.paused.set(false),
            Told::Data => {}
        }
    }

    fn call_hook(&self, told: Told) {
        let hook = self.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(told);
        }
    }

    fn mistake(&self, text: String) {
        self.mistakes.borrow_mut().push(text);
    }

    /// Checks that this probe was told nothing out of order, and received a beginning of what `peer` sent.
    #[track_caller]
    pub fn assert_in_order(&self, peer: Option<&Probe>, at: &str) {
        let name = &self.name;
        assert_eq!(*self.mistakes.borrow(), [""; 0], "{at}: {name} was told things out of order");
        let received = self.received.borrow();
        if let Some(peer) = peer {
            let sent = peer.sent.get();
            assert!(received.len() <= sent, "{at}: {name} received {} of {sent} bytes", received.len());
        }
        assert!(*received == pattern(received.len()), "{at}: {name} received what nobody sent");
    }
}

/// A probe as the loop holds it.
pub struct Face(pub Rc<Probe>);

impl Protocol for Face {
    fn connection_made(&self, transport: &Transport) {
        *self.0.transport.borrow_mut() = Some(transport.clone());
        self.0.told(Told::Made);
        self.0.call_hook(Told::Made);
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        if data.is_empty() {
            self.0.mistake("no data".to_owned());
        }
        self.0.received.borrow_mut().extend_from_slice(data);
        self.0.told(Told::Data);
        self.0.call_hook(Told::Data);
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.0.told(Told::Eof);
        self.0.call_hook(Told::Eof);
        self.0.keeps_open.get()
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        *self.0.error.borrow_mut() = error;
        self.0.told(Told::Lost);
        self.0.call_hook(Told::Lost);
        let transport = self.0.transport.take();
        drop(transport);
    }

    fn pause_writing(&self, _: &Transport) {
        self.0.told(Told::Pause);
        self.0.call_hook(Told::Pause);
    }

    fn resume_writing(&self, _: &Transport) {
        self.0.told(Told::Resume);
        self.0.call_hook(Told::Resume);
    }
}

/// The probes that a server has made, in the order it accepted.
pub type Accepted = Rc<RefCell<Vec<Rc<Probe>>>>;

/// A server of probes.
pub async fn probe_server(event_loop: &EventLoop) -> io::Result<(Server, Accepted)> {
    let accepted = Accepted::default();
    let made = Rc::clone(&accepted);
    let factory = move || {
        let probe = Probe::new(format!("accepted connection {}", made.borrow().len()));
        made.borrow_mut().push(Rc::clone(&probe));
        Face(probe)
    };
    Ok((event_loop.create_server("127.0.0.1:0", 100, factory).await?, accepted))
}

/// A connection to `server` and the server's end of it, when both are made.
pub fn connect(stage: &Stage, server: &Server, accepted: &Accepted, name: &str) -> (Rc<Probe>, Rc<Probe>) {
    let (probe, before) = (Probe::new(name), accepted.borrow().len());
    let face = Face(Rc::clone(&probe));
    stage.run(stage.event_loop.create_connection(server.local_addr(), || face)).unwrap();
    let is_made = || accepted.borrow().get(before).is_some_and(|peer| peer.made.get() == 1);
    stage.until("a connection is accepted", is_made);
    let peer = Rc::clone(&accepted.borrow()[before]);
    (probe, peer)
}
