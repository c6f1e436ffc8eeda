//! A host that records reports, and protocols that record their callbacks.

use mainspring_engine::clock::MonotonicClock;
use mainspring_engine::testing::FakeControl;
use mainspring_engine::transport::{
    Cx, DeferredCall, PipeKind, ProtocolSink, ReadPipe, RecvFn, TransportHost, WritePipe, prepare_pipe,
};
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use test_support::{TIMEOUT, TestBackend};

/// A closure, an I/O event or a deferred call of a transport.
pub enum Call {
    Closure(Rc<dyn Fn()>),
    Io(Rc<dyn Source>, Readiness),
    Step(Rc<dyn Source>, DeferredCall),
}

#[derive(Clone)]
pub struct Watch(pub Rc<dyn Fn()>);

impl From<Watch> for Call {
    fn from(watch: Watch) -> Self {
        Call::Closure(watch.0)
    }
}

pub trait Source {
    fn io_ready(self: Rc<Self>, engine: &Engine<TestHost>, readiness: Readiness) -> Result<(), Failure>;
    fn run_deferred(self: Rc<Self>, engine: &Engine<TestHost>, deferred: DeferredCall)
    -> Result<(), Failure>;
}

/// An error message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

#[derive(Default)]
pub struct TestHost {
    engine: RefCell<Weak<Engine<TestHost>>>,
    pub reports: RefCell<Vec<String>>,
}

impl TestHost {
    fn engine(&self) -> Rc<Engine<TestHost>> {
        self.engine.borrow().upgrade().expect("the engine is alive while it runs")
    }

    fn report_error(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        if let Err(Failure(text)) = result {
            self.reports.borrow_mut().push(text);
        }
        Ok(())
    }
}

impl Host for TestHost {
    type Call = Call;
    type Handle = Call;
    type Watch = Watch;
    type Source = Rc<dyn Source>;
    type Owner = ();
    type Inbound = ();
    type Error = Failure;

    fn run_call(&self, call: Call) -> Result<(), Failure> {
        match call {
            Call::Closure(closure) => closure(),
            Call::Io(source, readiness) => self.report_error(source.io_ready(&self.engine(), readiness))?,
            Call::Step(source, deferred) => {
                self.report_error(source.run_deferred(&self.engine(), deferred))?
            }
        }
        Ok(())
    }

    fn io_ready(&self, source: Rc<dyn Source>, readiness: Readiness) -> Option<Call> {
        Some(Call::Io(source, readiness))
    }

    fn scope_ended(&self, _: Rc<dyn Source>) -> Result<(), Failure> {
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
        Failure(format!("{:?}", error.kind()))
    }
}

impl TransportHost for TestHost {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    fn deferred_call(&self, source: &Rc<dyn Source>, deferred: DeferredCall) -> Result<Call, Failure> {
        Ok(Call::Step(source.clone(), deferred))
    }

    fn report(&self, _: &Rc<dyn Source>, error: Failure, message: &str) -> Result<(), Failure> {
        self.reports.borrow_mut().push(format!("{message}: {}", error.0));
        Ok(())
    }

    fn report_fatal(&self, _: &Rc<dyn Source>, error: Failure, message: &str) -> Result<Failure, Failure> {
        self.reports.borrow_mut().push(format!("{message}: {}", error.0));
        Ok(error)
    }

    fn warn_write_after_loss(&self, _: &Rc<dyn Source>) -> Result<(), Failure> {
        self.reports.borrow_mut().push("write after loss".to_owned());
        Ok(())
    }
}

type Hook = Rc<dyn Fn(&str)>;

/// Records the callbacks of a protocol, and runs a hook in each.
#[derive(Default)]
pub struct Recorder {
    pub log: RefCell<Vec<String>>,
    pub received: RefCell<Vec<u8>>,
    pub hook: RefCell<Option<Hook>>,
    /// The callback of this name fails.
    pub fails_in: Cell<Option<&'static str>>,
}

impl Recorder {
    fn record(&self, what: &str) -> Result<(), Failure> {
        self.log.borrow_mut().push(what.to_owned());
        let name = what.split(' ').next().unwrap_or_default();
        let hook = self.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(name);
        }
        if self.fails_in.get() == Some(name) { Err(Failure(format!("{name} failed"))) } else { Ok(()) }
    }

    pub fn count(&self, what: &str) -> usize {
        self.log.borrow().iter().filter(|entry| entry.starts_with(what)).count()
    }

    pub fn take_log(&self) -> Vec<String> {
        self.log.take()
    }
}

pub struct RecordingProtocol(pub Rc<Recorder>);

impl ProtocolSink<TestHost> for RecordingProtocol {
    fn connection_made(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.0.record("made")
    }

    fn is_buffered(&self) -> bool {
        false
    }

    fn data_received(&self, _: Cx<'_, TestHost>, data: &[u8]) -> Result<(), Failure> {
        assert!(!data.is_empty());
        self.0.received.borrow_mut().extend_from_slice(data);
        self.0.record("data")
    }

    fn receive_into(&self, _: Cx<'_, TestHost>, _: RecvFn<'_>) -> Result<io::Result<usize>, Failure> {
        unreachable!("pipes do not use buffered protocols")
    }

    fn buffer_updated(&self, _: Cx<'_, TestHost>, _: usize) -> Result<(), Failure> {
        unreachable!("pipes do not use buffered protocols")
    }

    fn eof_received(&self, _: Cx<'_, TestHost>) -> Result<bool, Failure> {
        self.0.record("eof").map(|()| true)
    }

    fn connection_lost(&self, _: Cx<'_, TestHost>, error: Option<Failure>) -> Result<(), Failure> {
        match error {
            None => self.0.record("lost"),
            Some(Failure(text)) => self.0.record(&format!("lost {text}")),
        }
    }

    fn pause_writing(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.0.record("pause")
    }

    fn resume_writing(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        self.0.record("resume")
    }

    fn detach(&self, _: Cx<'_, TestHost>) -> Result<(), Failure> {
        let hook = self.0.hook.take();
        drop(hook);
        Ok(())
    }
}

/// A pipe transport on a loop. Clones share it.
pub struct Transport<P>(Rc<PipeSource<P>>);

impl<P> Clone for Transport<P> {
    fn clone(&self) -> Self {
        Transport(Rc::clone(&self.0))
    }
}

pub struct PipeSource<P> {
    pipe: P,
    engine: Weak<Engine<TestHost>>,
}

pub type Reader = ReadPipe<TestHost, RecordingProtocol>;
pub type Writer = WritePipe<TestHost, RecordingProtocol>;

macro_rules! source {
    ($pipe:ty) => {
        impl Source for PipeSource<$pipe> {
            fn io_ready(
                self: Rc<Self>,
                engine: &Engine<TestHost>,
                readiness: Readiness,
            ) -> Result<(), Failure> {
                let this: Rc<dyn Source> = self.clone();
                self.pipe.io_ready(Cx { engine, this: &this }, readiness)
            }

            fn run_deferred(
                self: Rc<Self>,
                engine: &Engine<TestHost>,
                deferred: DeferredCall,
            ) -> Result<(), Failure> {
                let this: Rc<dyn Source> = self.clone();
                self.pipe.run_deferred(Cx { engine, this: &this }, deferred)
            }
        }
    };
}

source!(Reader);
source!(Writer);

impl<P: 'static> Transport<P>
where
    PipeSource<P>: Source,
{
    pub fn pipe(&self) -> &P {
        &self.0.pipe
    }

    /// Calls a method of the transport, unless its loop is dropped.
    pub fn with<R>(&self, call: impl FnOnce(&P, Cx<'_, TestHost>) -> Result<R, Failure>) -> Option<R> {
        let engine = self.0.engine.upgrade()?;
        let this: Rc<dyn Source> = Rc::<PipeSource<P>>::clone(&self.0);
        let result = call(&self.0.pipe, Cx { engine: &engine, this: &this });
        result.map_err(|Failure(text)| engine.host().reports.borrow_mut().push(text)).ok()
    }
}

impl Transport<Writer> {
    pub fn write(&self, data: &[u8]) {
        self.with(|pipe, cx| pipe.write(cx, data, || Some(data.to_vec())));
    }
}

/// A loop with a test host.
pub struct TestLoop {
    pub engine: Rc<Engine<TestHost>>,
    /// Has no effect on epoll.
    pub control: FakeControl,
}

impl TestLoop {
    pub fn new(on: TestBackend) -> Self {
        let (backend, control) = on.open();
        let engine = Engine::new(TestHost::default(), backend, Box::new(MonotonicClock)).unwrap();
        let engine = Rc::new(engine);
        *engine.host().engine.borrow_mut() = Rc::downgrade(&engine);
        TestLoop { engine, control }
    }

    fn held<P>(&self, pipe: P) -> Transport<P> {
        Transport(Rc::new(PipeSource { pipe, engine: Rc::downgrade(&self.engine) }))
    }

    /// An open read transport on `fd`.
    pub fn reader(&self, fd: OwnedFd) -> (Transport<Reader>, Rc<Recorder>) {
        prepare_pipe(&fd).unwrap().unwrap();
        let recorder = Rc::new(Recorder::default());
        let transport = self.held(ReadPipe::new(fd, RecordingProtocol(Rc::clone(&recorder))));
        transport.with(ReadPipe::open);
        (transport, recorder)
    }

    /// An open write transport on `fd`.
    pub fn writer(&self, fd: OwnedFd) -> (Transport<Writer>, Rc<Recorder>) {
        let kind = prepare_pipe(&fd).unwrap().unwrap();
        self.writer_of_kind(fd, kind)
    }

    pub fn writer_of_kind(&self, fd: OwnedFd, kind: PipeKind) -> (Transport<Writer>, Rc<Recorder>) {
        let recorder = Rc::new(Recorder::default());
        let transport = self.held(WritePipe::new(fd, kind, RecordingProtocol(Rc::clone(&recorder))));
        transport.with(WritePipe::open);
        (transport, recorder)
    }

    /// Runs one iteration without blocking.
    pub fn run_once(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    pub fn run_iterations(&self, count: usize) {
        (0..count).for_each(|_| self.run_once());
    }

    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !condition() {
            assert!(start.elapsed() < TIMEOUT, "timed out waiting until {what}");
            self.run_once();
        }
    }

    /// Checks that nothing is left on the loop, and checks the reports.
    #[track_caller]
    pub fn assert_idle(&self, reports: &[&str]) {
        self.run_iterations(3);
        assert_eq!((self.engine.ready_len(), self.engine.registered_len()), (0, 0), "the loop is not idle");
        assert_eq!(self.engine.host().reports.take(), reports);
    }
}

impl Drop for TestLoop {
    fn drop(&mut self) {
        drop(self.engine.close());
    }
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

/// Reads all available data.
pub fn drain(fd: &OwnedFd) -> Vec<u8> {
    rustix::io::ioctl_fionbio(fd, true).unwrap();
    let mut all = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = rustix::io::read(fd, &mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}
