//! A loop with datagram transports on it, and a protocol that writes down what it is told and answers with a deed.

use mainspring_engine::poller::{PeerAddress, open_epoll};
use mainspring_engine::testing::{FakeControl, FakePoller, VirtualClock};
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
use test_support::On;

/// What a protocol is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Made,
    Data(Vec<u8>),
    /// The number of a system's error, or -1.
    Error(i32),
    Lost(bool),
    Pause,
    Resume,
}

/// What is done in a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
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
    OfTheProtocol,
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

/// A face that is nothing but this.
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
            Call::Deferred(source, notice) => {
                let result =
                    self.with_engine(|engine| source.run_deferred(Cx { engine, this: &source }, notice));
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
        unreachable!("nobody asks for it")
    }

    fn receive(&self, (): ()) -> Call {
        Call::Never
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

    fn deferred_call(&self, source: &Source, notice: DeferredCall) -> Result<Call, Failure> {
        Ok(Call::Deferred(Rc::clone(source), notice))
    }

    fn report(&self, _: &Source, error: Failure, message: &str) -> Result<(), Failure> {
        self.reports.borrow_mut().push(format!("{message}: {error:?}"));
        Ok(())
    }

    fn report_fatal(&self, source: &Source, error: Failure, message: &str) -> Result<Failure, Failure> {
        self.report(source, Failure::OfTheProtocol, message)?;
        Ok(error)
    }

    fn warn_write_after_loss(&self, _: &Source) -> Result<(), Failure> {
        self.warnings.set(self.warnings.get() + 1);
        Ok(())
    }
}

/// Why something is not sent.
pub type Refuse = fn() -> Refusal<Failure>;

/// Writes down what it is told; does a deed when told of `when`, once.
#[derive(Default)]
pub struct Protocol {
    pub log: RefCell<Vec<Told>>,
    pub when: RefCell<Option<(Told, Deed)>>,
    /// What sending to a foreign destination comes to.
    pub foreign: Cell<Option<Refuse>>,
    pub is_detached: Cell<bool>,
}

impl Protocol {
    fn told(&self, cx: Cx<'_, TestHost>, told: Told) -> Result<(), Failure> {
        let same = |other: &Told| std::mem::discriminant(other) == std::mem::discriminant(&told);
        let deed = self.when.borrow_mut().take_if(|(when, _)| same(when));
        self.log.borrow_mut().push(told);
        let Some((_, deed)) = deed else { return Ok(()) };
        let transport = Rc::clone(cx.this);
        match deed {
            Deed::Close => transport.close(cx),
            Deed::Abort => transport.abort(cx, None),
            Deed::Send => {
                transport.send_to(cx, b"inside", Destination::Connected, || Some(b"inside".to_vec()))
            }
            Deed::Fail => Err(Failure::OfTheProtocol),
            Deed::PauseReading => transport.pause_reading(cx).map(drop),
            Deed::CallSoon => {
                cx.engine.call_soon(Call::Never);
                Ok(())
            }
            Deed::DropAll => {
                transport.abort(cx, None)?;
                transport.close(cx)
            }
        }
    }

    pub fn data(&self) -> Vec<Vec<u8>> {
        let log = self.log.borrow();
        log.iter()
            .filter_map(|told| if let Told::Data(data) = told { Some(data.clone()) } else { None })
            .collect()
    }

    pub fn count(&self, wanted: &Told) -> usize {
        self.log.borrow().iter().filter(|told| *told == wanted).count()
    }
}

impl DatagramSink<TestHost> for Protocol {
    type Foreign = &'static str;

    fn connection_made(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.told(cx, Told::Made)
    }

    fn datagram_received(&self, cx: Cx<'_, TestHost>, data: &[u8], _: PeerAddress) -> Result<(), Failure> {
        self.told(cx, Told::Data(data.to_vec()))
    }

    fn error_received(&self, cx: Cx<'_, TestHost>, error: Failure) -> Result<(), Failure> {
        let number = if let Failure::System(number) = error { number } else { -1 };
        self.told(cx, Told::Error(number))
    }

    fn send_foreign(&self, _: Cx<'_, TestHost>, _: &[u8], _: &&'static str) -> Result<(), Refusal<Failure>> {
        self.foreign.get().map_or(Ok(()), |refusal| Err(refusal()))
    }

    fn connection_lost(&self, cx: Cx<'_, TestHost>, error: Option<Failure>) -> Result<(), Failure> {
        self.told(cx, Told::Lost(error.is_some()))
    }

    fn pause_writing(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.told(cx, Told::Pause)
    }

    fn resume_writing(&self, cx: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.told(cx, Told::Resume)
    }

    fn detach(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        assert!(!self.is_detached.replace(true), "detached twice");
        Ok(())
    }
}

/// A loop, and one transport on it that is connected to a bare socket.
pub struct Stage {
    pub engine: Rc<Engine<TestHost>>,
    /// Without effect on epoll.
    pub control: FakeControl,
    pub transport: Source,
    pub peer: UnixDatagram,
    path: PathBuf,
}

impl Stage {
    pub fn new(on: On) -> Self {
        let mut control = FakeControl::default();
        let backend = if on == On::Fake {
            let (backend, its_control) = FakePoller::open().unwrap();
            control = its_control;
            backend
        } else {
            open_epoll().unwrap()
        };
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
        let stage = Stage { engine, control, transport, peer, path };
        stage.transport.open(stage.cx()).unwrap();
        stage
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

    /// Sends until something waits.
    pub fn fill(&self) {
        while self.transport.write_buffer_size() == 0 && !self.transport.is_closing() {
            self.send(b"fill");
        }
    }

    pub fn set_marks(&self, high: usize, low: usize) {
        self.transport.set_water_marks(self.cx(), WaterMarks { high, low }).unwrap();
    }

    /// Everything that has arrived at the peer.
    pub fn arrived(&self) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(length) = self.peer.recv(&mut buffer) {
            arrived.push(buffer[..length].to_vec());
        }
        arrived
    }

    pub fn pass(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "it never happens that {what}: {:?}",
                self.protocol().log
            );
            self.pass();
        }
    }

    #[track_caller]
    pub fn until_lost(&self) {
        self.until("the endpoint is lost", || self.transport.is_finished());
        self.pass();
        let log = self.protocol().log.borrow();
        let lost = log.iter().filter(|told| matches!(told, Told::Lost(_))).count();
        assert_eq!((lost, self.protocol().is_detached.get()), (1, true), "{log:?}");
        assert!(matches!(log.last(), Some(Told::Lost(_))), "{log:?}");
        assert_eq!((self.engine.registered_len(), self.engine.ready_len()), (0, 0));
        assert_eq!(self.transport.write_buffer_size(), 0);
    }

    #[track_caller]
    pub fn assert_reports(&self, expected: &[&str]) {
        assert_eq!(self.engine.host().reports.take(), expected);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        drop(self.engine.close());
    }
}
