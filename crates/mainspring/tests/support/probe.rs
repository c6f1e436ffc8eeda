//! `Probe`: a protocol that records its callbacks and checks their order.
//!
//! Every probe sends a prefix of one pattern. So the data its peer has received can be checked at any time: it is a
//! prefix of the same pattern, no longer than the sent data.

use mainspring::{EventLoop, Protocol, Server, Transport};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use super::TestLoop;
use test_support::pattern;

/// Minimum number of queued bytes after a probe has filled its connection.
pub const FULL: usize = 300_000;

/// A protocol callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolEvent {
    Made,
    Data,
    Eof,
    Lost,
    Pause,
    Resume,
}

type Hook = Rc<dyn Fn(ProtocolEvent)>;

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
    /// Set from `connection_made` to `connection_lost`, unless a test takes it.
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

    /// Sends `length` more bytes, unless EOF was written.
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

    /// Writes until [`FULL`] bytes are queued because the kernel accepts no more.
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

    fn record(&self, event: ProtocolEvent) {
        let is_first = self.made.get() == 0;
        if is_first != (event == ProtocolEvent::Made) {
            self.mistake(format!("{event:?} after {} connection_made calls", self.made.get()));
        }
        if self.lost.get() > 0 {
            self.mistake(format!("{event:?} after the connection was lost"));
        }
        if self.eof.get() > 0 && matches!(event, ProtocolEvent::Data | ProtocolEvent::Eof) {
            self.mistake(format!("{event:?} after EOF"));
        }
        if matches!((event, self.paused.get()), (ProtocolEvent::Pause, true) | (ProtocolEvent::Resume, false))
        {
            self.mistake(format!("{event:?} twice"));
        }
        match event {
            ProtocolEvent::Made => self.made.set(self.made.get() + 1),
            ProtocolEvent::Eof => self.eof.set(self.eof.get() + 1),
            ProtocolEvent::Lost => self.lost.set(self.lost.get() + 1),
            ProtocolEvent::Pause => self.paused.set(true),
            ProtocolEvent::Resume => self.paused.set(false),
            ProtocolEvent::Data => {}
        }
    }

    fn call_hook(&self, event: ProtocolEvent) {
        let hook = self.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(event);
        }
    }

    fn mistake(&self, text: String) {
        self.mistakes.borrow_mut().push(text);
    }

    /// Checks that the callbacks came in order, and that the received data is a prefix of the data that `peer` sent.
    #[track_caller]
    pub fn assert_in_order(&self, peer: Option<&Probe>, at: &str) {
        let name = &self.name;
        assert_eq!(*self.mistakes.borrow(), [""; 0], "{at}: {name} got callbacks out of order");
        let received = self.received.borrow();
        if let Some(peer) = peer {
            let sent = peer.sent.get();
            assert!(received.len() <= sent, "{at}: {name} received {} of {sent} bytes", received.len());
        }
        assert!(*received == pattern(received.len()), "{at}: {name} received unsent data");
    }
}

/// The protocol object of a probe.
pub struct ProbeProtocol(pub Rc<Probe>);

impl Protocol for ProbeProtocol {
    fn connection_made(&self, transport: &Transport) {
        *self.0.transport.borrow_mut() = Some(transport.clone());
        self.0.record(ProtocolEvent::Made);
        self.0.call_hook(ProtocolEvent::Made);
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        if data.is_empty() {
            self.0.mistake("no data".to_owned());
        }
        self.0.received.borrow_mut().extend_from_slice(data);
        self.0.record(ProtocolEvent::Data);
        self.0.call_hook(ProtocolEvent::Data);
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.0.record(ProtocolEvent::Eof);
        self.0.call_hook(ProtocolEvent::Eof);
        self.0.keeps_open.get()
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        *self.0.error.borrow_mut() = error;
        self.0.record(ProtocolEvent::Lost);
        self.0.call_hook(ProtocolEvent::Lost);
        let transport = self.0.transport.take();
        drop(transport);
    }

    fn pause_writing(&self, _: &Transport) {
        self.0.record(ProtocolEvent::Pause);
        self.0.call_hook(ProtocolEvent::Pause);
    }

    fn resume_writing(&self, _: &Transport) {
        self.0.record(ProtocolEvent::Resume);
        self.0.call_hook(ProtocolEvent::Resume);
    }
}

/// The probes of a server's connections, in the order of acceptance.
pub type Accepted = Rc<RefCell<Vec<Rc<Probe>>>>;

/// A server whose connections are probes.
pub async fn probe_server(event_loop: &EventLoop) -> io::Result<(Server, Accepted)> {
    let accepted = Accepted::default();
    let made = Rc::clone(&accepted);
    let factory = move || {
        let probe = Probe::new(format!("accepted connection {}", made.borrow().len()));
        made.borrow_mut().push(Rc::clone(&probe));
        ProbeProtocol(probe)
    };
    Ok((event_loop.create_server("127.0.0.1:0", 100, factory).await?, accepted))
}

/// Connects to `server`. Returns the client and the server's end once both are connected.
pub fn connect(
    test_loop: &TestLoop,
    server: &Server,
    accepted: &Accepted,
    name: &str,
) -> (Rc<Probe>, Rc<Probe>) {
    let (probe, before) = (Probe::new(name), accepted.borrow().len());
    let protocol = ProbeProtocol(Rc::clone(&probe));
    test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || protocol)).unwrap();
    let is_made = || accepted.borrow().get(before).is_some_and(|peer| peer.made.get() == 1);
    test_loop.until("a connection is accepted", is_made);
    let peer = Rc::clone(&accepted.borrow()[before]);
    (probe, peer)
}
