//! A minimal host: its calls are the deferred calls of the two ends.

use crate::toy::{Recorder, ToySession, Wire};
use mainspring_engine::testing::{FakePoller, VirtualClock};
use mainspring_engine::tls::{Tls, TlsOptions};
use mainspring_engine::transport::{Cx, DeferredCall, TransportHost};
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// An error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// The host has no watches.
#[derive(Clone)]
pub enum Never {}

pub struct Call(Rc<End>, DeferredCall);

impl From<Never> for Call {
    fn from(never: Never) -> Self {
        match never {}
    }
}

/// One end of a connection.
pub struct End {
    pub tls: Tls<TestHost, ToySession, Wire, Recorder>,
    pub wire: Wire,
}

#[derive(Default)]
pub struct TestHost {
    engine: OnceCell<Weak<Engine<TestHost>>>,
    pub reports: RefCell<Vec<String>>,
}

impl Host for TestHost {
    type Call = Call;
    type Handle = Call;
    type Watch = Never;
    type Source = Rc<End>;
    type Owner = ();
    type Inbound = ();
    type Error = Failure;

    fn run_call(&self, Call(end, deferred): Call) -> Result<(), Failure> {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("the fixture holds the engine");
        end.tls.run_deferred(Cx { engine: &engine, this: &end }, deferred)
    }

    fn io_ready(&self, _: Rc<End>, _: Readiness) -> Option<Call> {
        unreachable!("no fd is registered")
    }

    fn scope_ended(&self, _: Rc<End>) -> Result<(), Failure> {
        unreachable!("no fd is registered")
    }

    fn receive(&self, (): ()) -> Option<Call> {
        None
    }

    fn blocking(&self, advance: &mut dyn FnMut()) {
        advance();
    }

    fn interrupted(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl TransportHost for TestHost {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    fn deferred_call(&self, end: &Rc<End>, deferred: DeferredCall) -> Result<Call, Failure> {
        Ok(Call(Rc::clone(end), deferred))
    }

    fn report(&self, _: &Rc<End>, error: Failure, message: &str) -> Result<(), Failure> {
        self.reports.borrow_mut().push(format!("{message}: {}", error.0));
        Ok(())
    }

    fn report_fatal(&self, end: &Rc<End>, error: Failure, message: &str) -> Result<Failure, Failure> {
        self.report(end, error.clone(), message)?;
        Ok(error)
    }

    fn warn_write_after_loss(&self, end: &Rc<End>) -> Result<(), Failure> {
        self.report(end, Failure("written".to_owned()), "lost")
    }
}

/// A loop on virtual time with the two ends of a connection.
pub struct Fixture {
    pub engine: Rc<Engine<TestHost>>,
    pub clock: VirtualClock,
    pub client: Rc<End>,
    pub server: Rc<End>,
}

pub const LIMITS: TlsOptions = TlsOptions {
    handshake_timeout: Duration::from_secs(60),
    shutdown_timeout: Duration::from_secs(30),
    is_upgrade: false,
    is_writing_paused: false,
};

impl Fixture {
    pub fn new() -> Self {
        Fixture::with(LIMITS)
    }

    pub fn with(options: TlsOptions) -> Self {
        let clock = VirtualClock::default();
        let (backend, _) = FakePoller::open().unwrap();
        let engine = Rc::new(Engine::new(TestHost::default(), backend, Box::new(clock.clone())).unwrap());
        assert!(engine.host().engine.set(Rc::downgrade(&engine)).is_ok());
        let end = |is_server| {
            let wire = Wire::default();
            let tls = Tls::new(ToySession::new(is_server), Recorder::default(), options);
            Rc::new(End { tls, wire })
        };
        Fixture { engine, clock, client: end(false), server: end(true) }
    }

    /// A fixture whose handshake is done.
    pub fn connected() -> Self {
        let fixture = Fixture::new();
        fixture.connect();
        fixture.run_until_idle();
        fixture
    }

    pub fn cx<'a>(&'a self, end: &'a Rc<End>) -> Cx<'a, TestHost> {
        Cx { engine: &self.engine, this: end }
    }

    /// Connects both lower transports.
    pub fn connect(&self) {
        for end in [&self.client, &self.server] {
            end.tls.connection_made(self.cx(end), end.wire.clone()).unwrap();
        }
    }

    /// Transfers the data that `from` has sent; returns `false` if there is none.
    pub fn transfer(&self, from: &Rc<End>, to: &Rc<End>) -> bool {
        let sent = from.wire.take();
        if sent.is_empty() {
            return false;
        }
        to.tls.data_received(self.cx(to), &sent).unwrap();
        true
    }

    /// Runs one iteration.
    pub fn run_once(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    /// Transfers data and runs iterations until nothing happens. Time does not advance.
    pub fn run_until_idle(&self) {
        loop {
            let moved = self.transfer(&self.client, &self.server) | self.transfer(&self.server, &self.client);
            if self.engine.ready_len() > 0 {
                self.run_once();
            } else if !moved {
                return;
            }
        }
    }

    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
        self.run_once();
        self.run_once();
    }

    pub fn write(&self, end: &Rc<End>, data: &[u8]) {
        end.tls.write(self.cx(end), [data.to_vec()]).unwrap();
    }

    pub fn reports(&self) -> Vec<String> {
        self.engine.host().reports.take()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.engine.close());
        if !std::thread::panicking() {
            assert_eq!(self.reports(), [""; 0], "unexpected reports");
        }
    }
}
