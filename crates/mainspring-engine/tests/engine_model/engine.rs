//! The engine under a test host, on virtual time and with a back end that reports injected events.

use crate::script::{Action, MAX_CALLS, MAX_OVERDUE, Ran, Script, Step, WATCHES, after};
use mainspring_engine::clock::Clock;
use mainspring_engine::poller::Key;
use mainspring_engine::ready_queue::Lane;
use mainspring_engine::testing::{FakeControl, FakePoller, VirtualClock};
use mainspring_engine::timers::TimerKey;
use mainspring_engine::{Direction, Engine, Host, Readiness};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::Duration;

#[derive(Clone)]
enum Call {
    Numbered(usize),
    Watch(Rc<Watched>),
    Stop,
}

struct Watched {
    index: usize,
    is_alive: Cell<bool>,
}

#[derive(Clone)]
struct WatchHandle(Rc<Watched>);

impl From<WatchHandle> for Call {
    fn from(watch: WatchHandle) -> Self {
        Call::Watch(watch.0)
    }
}

/// The host and the state of the engine's run of a script.
struct ScriptHost {
    engine: OnceCell<Weak<Engine<ScriptHost>>>,
    clock: VirtualClock,
    control: FakeControl,
    actions: Vec<Vec<Action>>,
    ran: RefCell<Vec<Ran>>,
    made: Cell<usize>,
    timers: RefCell<Vec<(TimerKey, usize)>>,
    cancelled: RefCell<BTreeSet<usize>>,
    sockets: Vec<(UnixStream, UnixStream)>,
    /// The last key of each socket, which may be stale.
    keys: RefCell<[Option<Key>; WATCHES]>,
    /// Events are injected only when it is certain which iteration sees them: in one that the script requests.
    may_announce: Cell<bool>,
}

impl Host for ScriptHost {
    type Call = Call;
    type Handle = Call;
    type Watch = WatchHandle;
    type Source = ();
    type Owner = ();
    type Inbound = usize;
    type Error = String;

    fn run_call(&self, call: Call) -> Result<(), String> {
        let Some(engine) = self.engine.get().and_then(Weak::upgrade) else {
            return Err("the engine is gone".into());
        };
        match call {
            Call::Stop => engine.stop(),
            Call::Watch(watch) if watch.is_alive.get() => {
                self.ran.borrow_mut().push(Ran::Watch(watch.index, self.clock.now()));
            }
            Call::Watch(_) => {}
            Call::Numbered(number) => {
                if !self.cancelled.borrow().contains(&number) {
                    self.ran.borrow_mut().push(Ran::Call(number, self.clock.now()));
                    let actions = self.actions[number % self.actions.len()].clone();
                    actions.iter().for_each(|action| self.perform(&engine, action));
                }
            }
        }
        Ok(())
    }

    fn io_ready(&self, (): (), _: Readiness) -> Option<Call> {
        unreachable!("the script registers no source")
    }

    fn scope_ended(&self, _: ()) -> Result<(), String> {
        Err("the script registers no source".into())
    }

    fn receive(&self, number: usize) -> Option<Call> {
        Some(Call::Numbered(number))
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> Result<(), String> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> String {
        error.to_string()
    }
}

impl ScriptHost {
    /// The number of a new call, unless [`MAX_CALLS`] is reached.
    fn number(&self) -> Option<usize> {
        let number = self.made.get();
        (number < MAX_CALLS).then(|| {
            self.made.set(number + 1);
            number
        })
    }

    fn perform(&self, engine: &Engine<ScriptHost>, action: &Action) {
        match *action {
            Action::CallSoon => {
                self.number().into_iter().for_each(|number| engine.call_soon(Call::Numbered(number)));
            }
            Action::CallAfter(millis) => {
                if let Some(number) = self.number() {
                    let key = engine.call_at(after(engine.now(), millis), Call::Numbered(number));
                    self.timers.borrow_mut().push((key, number));
                }
            }
            Action::CancelTimer(choice) => {
                let timers = self.timers.borrow();
                if let Some(&(key, number)) = timers.get(choice % timers.len().max(1)) {
                    let cancelled = engine.cancel_timer(key);
                    assert!(cancelled.iter().all(|call| matches!(call, Call::Numbered(it) if *it == number)));
                    self.ran.borrow_mut().push(Ran::Cancelled(number, cancelled.is_some()));
                }
            }
            Action::CancelCall(choice) => {
                self.cancelled.borrow_mut().insert(choice % self.made.get().max(1));
            }
            Action::Background => {
                let number = self.number();
                number
                    .into_iter()
                    .for_each(|number| engine.call_soon_in(Lane::Background, Call::Numbered(number)));
            }
            Action::Send => {
                self.number().into_iter().for_each(|number| engine.inbox().push(number).unwrap());
            }
            Action::Watch(index) => {
                let watch = WatchHandle(Rc::new(Watched { index, is_alive: Cell::new(true) }));
                let fd = self.sockets[index].0.as_raw_fd();
                let replaced = engine.watch(fd, Direction::Inbound, watch).unwrap();
                replaced.iter().for_each(|watch| watch.0.is_alive.set(false));
                self.keys.borrow_mut()[index] = self.control.key_of(fd);
            }
            Action::Unwatch(index) => {
                let fd = self.sockets[index].0.as_raw_fd();
                let removed = engine.unwatch(fd, Direction::Inbound).unwrap();
                removed.iter().for_each(|watch| watch.0.is_alive.set(false));
            }
            Action::Announce(index) => {
                if let Some(key) = self.keys.borrow()[index].filter(|_| self.may_announce.get()) {
                    self.control.inject(key, Readiness::BOTH);
                }
            }
            Action::Advance(millis) => self.clock.advance(Duration::from_millis(millis)),
        }
    }
}

/// Runs `script` on the engine. Returns the record of the run, and the number of calls and timers left.
pub fn run_on_the_engine(script: &Script) -> (Vec<Ran>, [usize; 2]) {
    let clock = VirtualClock::default();
    let (backend, control) = FakePoller::open().unwrap();
    let host = ScriptHost {
        engine: OnceCell::new(),
        clock: clock.clone(),
        control,
        actions: script.actions.clone(),
        ran: RefCell::default(),
        made: Cell::new(0),
        timers: RefCell::default(),
        cancelled: RefCell::default(),
        sockets: (0..WATCHES).map(|_| UnixStream::pair().unwrap()).collect(),
        keys: RefCell::default(),
        may_announce: Cell::new(true),
    };
    let engine = Rc::new(Engine::new(host, backend, Box::new(clock)).unwrap());
    let host = engine.host();
    assert!(host.engine.set(Rc::downgrade(&engine)).is_ok());
    engine.set_io_first(script.io_first);
    engine.set_max_overdue(script.max_overdue.then_some(MAX_OVERDUE));
    for step in &script.steps {
        match step {
            Step::Do(action) => host.perform(&engine, action),
            Step::RunIteration => {
                engine.stop();
                engine.run_forever().unwrap();
            }
            Step::RunFor(millis) => {
                host.may_announce.set(false);
                engine.call_at(after(engine.now(), *millis), Call::Stop);
                engine.run_forever().unwrap();
                host.may_announce.set(true);
            }
        }
        assert!(!engine.is_stopping());
    }
    let mut sent = 0;
    engine.inbox().for_each(&mut |_| sent += 1);
    let left = [engine.ready_len() + sent, engine.timers_len()];
    drop(engine.close());
    assert_eq!([engine.ready_len(), engine.timers_len(), engine.registered_len()], [0; 3]);
    (host.ran.take(), left)
}
