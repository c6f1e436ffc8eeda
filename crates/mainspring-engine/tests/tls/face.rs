//! A face that is as small as a face can be: its calls are the deferred steps of the ends under test.

use crate::toy::{Recorder, Toy, Wire};
use mainspring_engine::testing::{FakePoller, VirtualClock};
use mainspring_engine::tls::{Tls, TlsOptions};
use mainspring_engine::transport::{Cx, DeferredCall, TransportHost};
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// A failure, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

/// There is none.
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
    pub tls: Tls<Face, Toy, Wire, Recorder>,
    pub wire: Wire,
}

#[derive(Default)]
pub struct Face {
    engine: OnceCell<Weak<Engine<Face>>>,
    pub reports: RefCell<Vec<String>>,
}

impl Host for Face {
    type Call = Call;
    type Watch = Never;
    type Source = Rc<End>;
    type Owner = ();
    type Inbound = ();
    type Error = Failure;

    fn run_call(&self, Call(end, notice): Call) -> Result<(), Failure> {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("the stage holds the engine");
        end.tls.run_deferred(Cx { engine: &engine, this: &end }, notice)
    }

    fn io_ready(&self, _: Rc<End>, _: Readiness) -> Option<Call> {
        unreachable!("no descriptor is registered")
    }

    fn scope_ended(&self, _: Rc<End>) -> Result<(), Failure> {
        unreachable!("no descriptor is registered")
    }

    fn receive(&self, (): ()) -> Call {
        unreachable!("no other thread is there")
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl TransportHost for Face {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    fn deferred_call(&self, end: &Rc<End>, notice: DeferredCall) -> Result<Call, Failure> {
        Ok(Call(Rc::clone(end), notice))
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

/// A loop on virtual time, and the two ends of a connection on it.
pub struct Stage {
    pub engine: Rc<Engine<Face>>,
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

impl Stage {
    pub fn new() -> Self {
        Stage::with(LIMITS)
    }

    pub fn with(options: TlsOptions) -> Self {
        let clock = VirtualClock::default();
        let (backend, _) = FakePoller::open().unwrap();
        let engine = Rc::new(Engine::new(Face::default(), backend, Box::new(clock.clone())).unwrap());
        assert!(engine.host().engine.set(Rc::downgrade(&engine)).is_ok());
        let end = |is_server| {
            let wire = Wire::default();
            let tls = Tls::new(Toy::new(is_server), Recorder::default(), options);
            Rc::new(End { tls, wire })
        };
        Stage { engine, clock, client: end(false), server: end(true) }
    }

    /// Connected, with the handshake done.
    pub fn connected() -> Self {
        let stage = Stage::new();
        stage.begin();
        stage.settle();
        stage
    }

    pub fn cx<'a>(&'a self, end: &'a Rc<End>) -> Cx<'a, Face> {
        Cx { engine: &self.engine, this: end }
    }

    /// The transports below stand.
    pub fn begin(&self) {
        for end in [&self.client, &self.server] {
            end.tls.connection_made(self.cx(end), end.wire.clone()).unwrap();
        }
    }

    /// Carries what one end has sent to the other; `false` if there was nothing.
    pub fn carry(&self, from: &Rc<End>, to: &Rc<End>) -> bool {
        let sent = from.wire.take();
        if sent.is_empty() {
            return false;
        }
        to.tls.data_received(self.cx(to), &sent).unwrap();
        true
    }

    /// Runs what is ready, and not what that makes ready.
    pub fn pass(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    /// Carries and runs until nothing happens any more. Time stands still.
    pub fn settle(&self) {
        loop {
            let moved = self.carry(&self.client, &self.server) | self.carry(&self.server, &self.client);
            if self.engine.ready_len() > 0 {
                self.pass();
            } else if !moved {
                return;
            }
        }
    }

    pub fn wait(&self, time: Duration) {
        self.clock.advance(time);
        self.pass();
        self.pass();
    }

    pub fn write(&self, end: &Rc<End>, data: &[u8]) {
        end.tls.write(self.cx(end), [data.to_vec()]).unwrap();
    }

    pub fn reports(&self) -> Vec<String> {
        self.engine.host().reports.take()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.engine.close());
        if !std::thread::panicking() {
            assert_eq!(self.reports(), [""; 0], "unexpected reports");
        }
    }
}
