//! A face of the engine that does nothing but write down what its protocols are told.

use mainspring_engine::clock::MonotonicClock;
use mainspring_engine::poller::{Backend, open_epoll};
use mainspring_engine::testing::{FakeControl, FakePoller};
use mainspring_engine::transport::{
    Cx, DeferredCall, PipeKind, ProtocolSink, ReadPipe, RecvFn, TransportHost, WritePipe, prepare_pipe,
};
use mainspring_engine::{Engine, Host, Readiness};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use test_support::{On, PATIENCE};

/// A call: a closure, or a step of a source.
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
    fn io_ready(self: Rc<Self>, engine: &Engine<Bare>, readiness: Readiness) -> Result<(), Failure>;
    fn run_deferred(self: Rc<Self>, engine: &Engine<Bare>, notice: DeferredCall) -> Result<(), Failure>;
}

/// What went wrong, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

#[derive(Default)]
pub struct Bare {
    engine: RefCell<Weak<Engine<Bare>>>,
    pub reports: RefCell<Vec<String>>,
}

impl Bare {
    fn engine(&self) -> Rc<Engine<Bare>> {
        self.engine.borrow().upgrade().expect("the engine is alive while it runs")
    }

    fn note(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        if let Err(Failure(text)) = result {
            self.reports.borrow_mut().push(text);
        }
        Ok(())
    }
}

impl Host for Bare {
    type Call = Call;
    type Watch = Watch;
    type Source = Rc<dyn Source>;
    type Owner = ();
    type Inbound = ();
    type Error = Failure;

    fn run_call(&self, call: Call) -> Result<(), Failure> {
        match call {
            Call::Closure(closure) => closure(),
            Call::Io(source, readiness) => self.note(source.io_ready(&self.engine(), readiness))?,
            Call::Step(source, notice) => self.note(source.run_deferred(&self.engine(), notice))?,
        }
        Ok(())
    }

    fn io_ready(&self, source: Rc<dyn Source>, readiness: Readiness) -> Option<Call> {
        Some(Call::Io(source, readiness))
    }

    fn scope_ended(&self, _: Rc<dyn Source>) -> Result<(), Failure> {
        unreachable!("nobody asks for it")
    }

    fn receive(&self, (): ()) -> Call {
        Call::Closure(Rc::new(|| {}))
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

impl TransportHost for Bare {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    fn deferred_call(&self, source: &Rc<dyn Source>, notice: DeferredCall) -> Result<Call, Failure> {
        Ok(Call::Step(source.clone(), notice))
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
        self.reports.borrow_mut().push("written too late".to_owned());
        Ok(())
    }
}

type Hook = Rc<dyn Fn(&str)>;

/// A protocol: writes down what it is told, and does on each occasion what the test wants.
#[derive(Default)]
pub struct Told {
    pub log: RefCell<Vec<String>>,
    pub received: RefCell<Vec<u8>>,
    pub hook: RefCell<Option<Hook>>,
    /// Fails in the callback of this name.
    pub fails_in: Cell<Option<&'static str>>,
}

impl Told {
    fn tell(&self, what: &str) -> Result<(), Failure> {
        self.log.borrow_mut().push(what.to_owned());
        let name = what.split(' ').next().unwrap_or_default();
        let hook = self.hook.borrow().clone();
        if let Some(hook) = hook {
            hook(name);
        }
        if self.fails_in.get() == Some(name) { Err(Failure(format!("{name} failed"))) } else { Ok(()) }
    }

    pub fn count(&self, what: &str) -> usize {
        self.log.borrow().iter().filter(|told| told.starts_with(what)).count()
    }

    pub fn take_log(&self) -> Vec<String> {
        self.log.take()
    }
}

pub struct Above(pub Rc<Told>);

impl ProtocolSink<Bare> for Above {
    fn connection_made(&self, _: Cx<'_, Bare>) -> Result<(), Failure> {
        self.0.tell("made")
    }

    fn is_buffered(&self) -> bool {
        false
    }

    fn data_received(&self, _: Cx<'_, Bare>, data: &[u8]) -> Result<(), Failure> {
        assert!(!data.is_empty());
        self.0.received.borrow_mut().extend_from_slice(data);
        self.0.tell("data")
    }

    fn receive_into(&self, _: Cx<'_, Bare>, _: RecvFn<'_>) -> Result<io::Result<usize>, Failure> {
        unreachable!("pipes ask for no buffer")
    }

    fn buffer_updated(&self, _: Cx<'_, Bare>, _: usize) -> Result<(), Failure> {
        unreachable!("pipes ask for no buffer")
    }

    fn eof_received(&self, _: Cx<'_, Bare>) -> Result<bool, Failure> {
        self.0.tell("eof").map(|()| true)
    }

    fn connection_lost(&self, _: Cx<'_, Bare>, error: Option<Failure>) -> Result<(), Failure> {
        match error {
            None => self.0.tell("lost"),
            Some(Failure(text)) => self.0.tell(&format!("lost {text}")),
        }
    }

    fn pause_writing(&self, _: Cx<'_, Bare>) -> Result<(), Failure> {
        self.0.tell("pause")
    }

    fn resume_writing(&self, _: Cx<'_, Bare>) -> Result<(), Failure> {
        self.0.tell("resume")
    }

    fn detach(&self, _: Cx<'_, Bare>) -> Result<(), Failure> {
        let hook = self.0.hook.take();
        drop(hook);
        Ok(())
    }
}

/// A pipe transport on a loop. A clone is the same one.
pub struct Transport<P>(Rc<Held<P>>);

impl<P> Clone for Transport<P> {
    fn clone(&self) -> Self {
        Transport(Rc::clone(&self.0))
    }
}

pub struct Held<P> {
    pipe: P,
    engine: Weak<Engine<Bare>>,
}

pub type Reader = ReadPipe<Bare, Above>;
pub type Writer = WritePipe<Bare, Above>;

macro_rules! source {
    ($pipe:ty) => {
        impl Source for Held<$pipe> {
            fn io_ready(self: Rc<Self>, engine: &Engine<Bare>, readiness: Readiness) -> Result<(), Failure> {
                let this: Rc<dyn Source> = self.clone();
                self.pipe.io_ready(Cx { engine, this: &this }, readiness)
            }

            fn run_deferred(
                self: Rc<Self>,
                engine: &Engine<Bare>,
                notice: DeferredCall,
            ) -> Result<(), Failure> {
                let this: Rc<dyn Source> = self.clone();
                self.pipe.run_deferred(Cx { engine, this: &this }, notice)
            }
        }
    };
}

source!(Reader);
source!(Writer);

impl<P: 'static> Transport<P>
where
    Held<P>: Source,
{
    pub fn pipe(&self) -> &P {
        &self.0.pipe
    }

    /// Calls a method of the transport, unless its loop is gone.
    pub fn with<R>(&self, call: impl FnOnce(&P, Cx<'_, Bare>) -> Result<R, Failure>) -> Option<R> {
        let engine = self.0.engine.upgrade()?;
        let this: Rc<dyn Source> = Rc::<Held<P>>::clone(&self.0);
        let result = call(&self.0.pipe, Cx { engine: &engine, this: &this });
        result.map_err(|Failure(text)| engine.host().reports.borrow_mut().push(text)).ok()
    }
}

impl Transport<Writer> {
    pub fn write(&self, data: &[u8]) {
        self.with(|pipe, cx| pipe.write(cx, data, || Some(data.to_vec())));
    }
}

/// A loop under the bare face.
pub struct Bench {
    pub engine: Rc<Engine<Bare>>,
    /// Without effect on epoll.
    pub control: FakeControl,
}

pub fn backend(on: On) -> (Backend, FakeControl) {
    match on {
        On::Epoll => (open_epoll().unwrap(), FakeControl::default()),
        On::Fake => FakePoller::open().unwrap(),
    }
}

impl Bench {
    pub fn new(on: On) -> Self {
        let (backend, control) = backend(on);
        let engine = Engine::new(Bare::default(), backend, Box::new(MonotonicClock)).unwrap();
        let engine = Rc::new(engine);
        *engine.host().engine.borrow_mut() = Rc::downgrade(&engine);
        Bench { engine, control }
    }

    fn held<P>(&self, pipe: P) -> Transport<P> {
        Transport(Rc::new(Held { pipe, engine: Rc::downgrade(&self.engine) }))
    }

    /// A reading transport on the end `fd`, open.
    pub fn reader(&self, fd: OwnedFd) -> (Transport<Reader>, Rc<Told>) {
        prepare_pipe(&fd).unwrap().unwrap();
        let told = Rc::new(Told::default());
        let transport = self.held(ReadPipe::new(fd, Above(Rc::clone(&told))));
        transport.with(ReadPipe::open);
        (transport, told)
    }

    /// A writing transport on the end `fd`, open.
    pub fn writer(&self, fd: OwnedFd) -> (Transport<Writer>, Rc<Told>) {
        let kind = prepare_pipe(&fd).unwrap().unwrap();
        self.writer_of_kind(fd, kind)
    }

    pub fn writer_of_kind(&self, fd: OwnedFd, kind: PipeKind) -> (Transport<Writer>, Rc<Told>) {
        let told = Rc::new(Told::default());
        let transport = self.held(WritePipe::new(fd, kind, Above(Rc::clone(&told))));
        transport.with(WritePipe::open);
        (transport, told)
    }

    /// One pass, without waiting.
    pub fn pass(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    pub fn passes(&self, count: usize) {
        (0..count).for_each(|_| self.pass());
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "it never happens that {what}");
            self.pass();
        }
    }

    /// Checks that nothing is left on the loop, and what was reported.
    #[track_caller]
    pub fn assert_idle(&self, reports: &[&str]) {
        self.passes(3);
        assert_eq!((self.engine.ready_len(), self.engine.registered_len()), (0, 0), "something is left");
        assert_eq!(self.engine.host().reports.take(), reports);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.engine.close());
    }
}

pub fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

/// Everything that can be read now.
pub fn drain(fd: &OwnedFd) -> Vec<u8> {
    rustix::io::ioctl_fionbio(fd, true).unwrap();
    let mut all = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = rustix::io::read(fd, &mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}
