//! A loop with a datagram transport, and a protocol that records its callbacks and performs an action in one of them.

use mainspring_engine::poller::PeerAddress;
use mainspring_engine::testing::{FakeControl, VirtualClock};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{
    Cx, Datagram, DatagramSink, DeferredCall, Destination, Refusal, TransportHost, WaterMarks,
};
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use test_support::TestBackend;

/// A protocol callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Made,
    Data(Vec<u8>),
    /// The errno of a system error, or -1.
    Error(i32),
    Lost(bool),
    Pause,
    Resume,
}

/// An action in a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Close,
    Abort,
    Send,
    Fail,
    PauseReading,
    DropAll,
    CallSoon,
}

#[derive(Debug)]
pub enum Failure {
    System(i32),
    Protocol,
}

pub type Transport = Datagram<TestHost, Protocol>;
type Source = Rc<Transport>;

#[derive(Clone)]
pub enum Call {
    Io(Source, Readiness),
    Deferred(Source, DeferredCall),
    Never,
}

impl From<()> for Call {
    fn from((): ()) -> Self {
        Call::Never
    }
}

/// A minimal host.
#[derive(Default)]
pub struct TestHost {
    pub reports: RefCell<Vec<String>>,
    pub warnings: Cell<u32>,
    engine: RefCell<std::rc::Weak<Engine<TestHost>>>,
}

impl TestHost {
    fn with_engine(
        &self,
        work: impl FnOnce(&Engine<TestHost>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let engine = self.engine.borrow().upgrade();
        engine.map_or(Ok(()), |engine| work(&engine))
    }
}

impl Host for TestHost {
    type Call = Call;
    type Handle = Call;
    type Watch = ();
    type Source = Source;
    type Owner = ();
    type Inbound = ();
    type Error = Failure;

    fn run_call(&self, call: Call) -> Result<(), Failure> {
        match call {
            Call::Io(source, readiness) => {
                self.with_engine(|engine| source.io_ready(Cx { engine, this: &source }, readiness))
            }
            Call::Deferred(source, deferred) => {
                let result =
                    self.with_engine(|engine| source.run_deferred(Cx { engine, this: &source }, deferred));
                if let Err(error) = result {
                    self.reports.borrow_mut().push(format!("a callback failed: {error:?}"));
                }
                Ok(())
            }
            Call::Never => Ok(()),
        }
    }

    fn io_ready(&self, source: Source, readiness: Readiness) -> Option<Call> {
        Some(Call::Io(source, readiness))
    }

    fn scope_ended(&self, _: Source) -> Result<(), Failure> {
        unreachable!("at_scope_end is never called")
    }

    fn receive(&self, (): ()) -> Option<Call> {
        None
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> Failure {
        Failure::System(error.raw_os_error().unwrap_or(-1))
    }
}

impl TransportHost for TestHost {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    fn deferred_call(&self, source: &Source, deferred: DeferredCall) -> Result<Call, Failure> {
        Ok(Call::Deferred(Rc::clone(source), deferred))
    }

    fn report(&self, _: &Source, error: Failure, message: &str) -> Result<(), Failure> {
        self.reports.borrow_mut().push(format!("{message}: {error:?}"));
        Ok(())
    }

    fn report_fatal(&self, source: &Source, error: Failure, message: &str) -> Result<Failure, Failure> {
        self.report(source, Failure::Protocol, message)?;
        Ok(error)
    }

    fn warn_write_after_loss(&self, _: &Source) -> Result<(), Failure> {
        self.warnings.set(self.warnings.get() + 1);
        Ok(())
    }
}

/// The error of a refused send.
pub type Refuse = fn() -> Refusal<Failure>;

/// Records its callbacks. Performs an action, once, in the callback of `when`.
#[derive(Default)]
pub struct Protocol {
    pub log: RefCell<Vec<Event>>,
    pub when: RefCell<Option<(Event, Action)>>,
    /// The result of sending to a foreign destination.
    pub foreign: Cell<Option<Refuse>>,
    pub is_detached: Cell<bool>,
}

impl Protocol {
    fn record(&self, cx: Cx<'_, TestHost>, event: Event) -> Result<(), Failure> {
        let same = |other: &Event| std::mem::discriminant(other) == std::mem::discriminant(&event);
        let action = self.when.borrow_mut().take_if(|(when, _)| same(when));
        self.log.borrow_mut().push(event);
        let Some((_, action)) = action else { return Ok(()) };
        let transport = Rc::clone(cx.this);
        match action {
            Action::Close => transport.close(cx),
            Action::Abort => transport.abort(cx, None),
            Action::Send => {
                transport.send_to(cx, b"inside", Destination::Connected, || Some(b"inside".to_vec()))
            }
            Action::Fail => Err(Failure::Protocol),
            Action::PauseReading => transport.pause_reading(cx).map(drop),
            Action::CallSoon => {
                cx.engine.call_soon(Call::Never);
                Ok(())
            }
            Action::DropAll => {
                transport.abort(cx, None)?;
                transport.close(cx)
            }
        }
    }

    pub fn data(&self) -> Vec<Vec<u8>> {
        let log = self.log.borrow();
        log.iter()
            .filter_map(|event| if let Event::Data(data) = event { Some(data.clone()) } else { None })
            .collect()
    }

    pub fn count(&self, wanted: &Event) -> usize {
        self.log.borrow().iter().filter(|event| *event == wanted).count()
    }
}

impl DatagramSink<TestHost> for Protocol {
    type Foreign = &'static str;

    fn connection_made(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.record(cx, Event::Made)
    }

    fn datagram_received(&self, cx: Cx<'_, TestHost>, data: &[u8], _: PeerAddress) -> Result<(), Failure> {
        self.record(cx, Event::Data(data.to_vec()))
    }

    fn error_received(&self, cx: Cx<'_, TestHost>, error: Failure) -> Result<(), Failure> {
        let number = if let Failure::System(number) = error { number } else { -1 };
        self.record(cx, Event::Error(number))
    }

    fn send_foreign(&self, _: Cx<'_, TestHost>, _: &[u8], _: &&'static str) -> Result<(), Refusal<Failure>> {
        self.foreign.get().map_or(Ok(()), |refusal| Err(refusal()))
    }

    fn connection_lost(&self, cx: Cx<'_, TestHost>, error: Option<Failure>) -> Result<(), Failure> {
        self.record(cx, Event::Lost(error.is_some()))
    }

    fn pause_writing(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.record(cx, Event::Pause)
    }

    fn resume_writing(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.record(cx, Event::Resume)
    }

    fn detach(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        assert!(!self.is_detached.replace(true), "detached twice");
        Ok(())
    }
}

/// A loop with one transport that is connected to a plain socket.
pub struct Fixture {
    pub engine: Rc<Engine<TestHost>>,
    /// Has no effect on epoll.
    pub control: FakeControl,
    pub transport: Source,
    pub peer: UnixDatagram,
    path: PathBuf,
}

impl Fixture {
    pub fn new(on: TestBackend) -> Self {
        let (backend, control) = on.open();
        let engine = Engine::new(TestHost::default(), backend, Box::new(VirtualClock::default())).unwrap();
        let engine = Rc::new(engine);
        *engine.host().engine.borrow_mut() = Rc::downgrade(&engine);
        thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
        let number = NUMBER.replace(NUMBER.get() + 1);
        let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
        let path = std::env::temp_dir().join(format!("mainspring-{}-{thread}{number}", std::process::id()));
        let peer = UnixDatagram::bind(&path).unwrap();
        peer.set_nonblocking(true).unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(&path).unwrap();
        let transport = Rc::new(Datagram::new(socket.into(), Protocol::default(), 8, true));
        let fixture = Fixture { engine, control, transport, peer, path };
        fixture.transport.open(fixture.cx()).unwrap();
        fixture
    }

    pub fn cx(&self) -> Cx<'_, TestHost> {
        Cx { engine: &self.engine, this: &self.transport }
    }

    pub fn protocol(&self) -> &Protocol {
        self.transport.sink()
    }

    pub fn send(&self, data: &[u8]) {
        self.send_to(data, Destination::Connected);
    }

    pub fn send_to(&self, data: &[u8], destination: Destination<&'static str>) {
        self.transport.send_to(self.cx(), data, destination, || Some(data.to_vec())).unwrap();
    }

    /// Sends until a datagram is buffered.
    pub fn fill(&self) {
        while self.transport.write_buffer_size() == 0 && !self.transport.is_closing() {
            self.send(b"fill");
        }
    }

    pub fn set_marks(&self, high: usize, low: usize) {
        self.transport.set_water_marks(self.cx(), WaterMarks { high, low }).unwrap();
    }

    /// The datagrams that have arrived at the peer.
    pub fn take_arrived(&self) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length) = self.peer.recv(&mut buffer) {
            arrived.push(buffer[..length].to_vec());
        }
        arrived
    }

    pub fn run_once(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "timed out waiting until {what}: {:?}",
                self.protocol().log
            );
            self.run_once();
        }
    }

    #[track_caller]
    pub fn run_until_lost(&self) {
        self.until("the endpoint is lost", || self.transport.is_finished());
        self.run_once();
        let log = self.protocol().log.borrow();
        let lost = log.iter().filter(|event| matches!(event, Event::Lost(_))).count();
        assert_eq!((lost, self.protocol().is_detached.get()), (1, true), "{log:?}");
        assert!(matches!(log.last(), Some(Event::Lost(_))), "{log:?}");
        assert_eq!((self.engine.registered_len(), self.engine.ready_len()), (0, 0));
        assert_eq!(self.transport.write_buffer_size(), 0);
    }

    #[track_caller]
    pub fn assert_reports(&self, expected: &[&str]) {
        assert_eq!(self.engine.host().reports.take(), expected);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        drop(self.engine.close());
    }
}
