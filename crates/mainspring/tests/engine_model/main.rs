//! The engine against a naive model of asyncio's rules: plain lists, and a pass that is a list of what was ready.
//!
//! A script says what happens between passes and what each call does when it runs: make other calls ready, set and cancel
//! timers, send to the inbox, watch descriptors and have them announced. The engine runs it under a host of its own, on
//! virtual time and on a back end that announces what it is told; the model runs it on lists. Both must call the same
//! calls, in the same order, at the same times.
#![cfg(not(loom))]

#[macro_use]
extern crate checked_test;

#[path = "support/leak_check.rs"]
mod leak_check;
mod support;

use mainspring::Time;
use mainspring::clock::Clock;
use mainspring::engine::{Direction, Engine, Host, Readiness};
use mainspring::poller::Key;
use mainspring::ready::Lane;
use mainspring::testing::{FakeControl, FakePoller, VirtualClock};
use mainspring::timers::TimerKey;
use proptest::prelude::*;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::{Rc, Weak};
use std::time::Duration;

const WATCHES: usize = 3;
const MAX_OVERDUE: Duration = Duration::from_millis(30);
/// Calls past this number do nothing, so that every script ends.
const MAX_CALLS: usize = 200;

/// What happens between passes, or in a call.
#[derive(Clone, Debug)]
enum Deed {
    CallSoon,
    CallAfter(u64),
    /// Cancels one of the timers ever made.
    CancelTimer(usize),
    /// Keeps one of the calls ever made from running, as a handle does.
    CancelCall(usize),
    Background,
    Send,
    Watch(usize),
    Unwatch(usize),
    Announce(usize),
    Advance(u64),
}

#[derive(Clone, Debug)]
enum Step {
    Do(Deed),
    Pass,
    /// Runs until a timer that is due after so long stops the loop.
    RunFor(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    // Few milliseconds, so that deadlines meet; some far, so that they lie in buckets of the wheel.
    let delay = prop_oneof![4 => 0..4u64, 2 => 0..40u64, 1 => 0..100_000u64];
    prop_oneof![
        4 => Just(Deed::CallSoon),
        4 => delay.prop_map(Deed::CallAfter),
        2 => any::<usize>().prop_map(Deed::CancelTimer),
        1 => any::<usize>().prop_map(Deed::CancelCall),
        2 => Just(Deed::Background),
        2 => Just(Deed::Send),
        1 => (0..WATCHES).prop_map(Deed::Watch),
        1 => (0..WATCHES).prop_map(Deed::Unwatch),
        3 => (0..WATCHES).prop_map(Deed::Announce),
        1 => (0..50u64).prop_map(Deed::Advance),
    ]
}

#[derive(Clone, Debug)]
struct Script {
    steps: Vec<Step>,
    /// What the calls do, in turn.
    deeds: Vec<Vec<Deed>>,
    io_first: bool,
    max_overdue: bool,
}

fn script() -> impl Strategy<Value = Script> {
    let step = prop_oneof![
        3 => deed().prop_map(Step::Do),
        3 => Just(Step::Pass),
        1 => (0..200u64).prop_map(Step::RunFor),
    ];
    let steps = prop::collection::vec(step, 0..40);
    let deeds = prop::collection::vec(prop::collection::vec(deed(), 0..4), 1..12);
    (steps, deeds, any::<bool>(), any::<bool>()).prop_map(|(steps, deeds, io_first, max_overdue)| Script {
        steps,
        deeds,
        io_first,
        max_overdue,
    })
}

/// Something that ran: a call, or a watch, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Call(usize, Time),
    Watch(usize, Time),
    Cancelled(usize, bool),
}

fn after(now: Time, millis: u64) -> Time {
    now.saturating_add(Duration::from_millis(millis))
}

// ---- The engine under a host of its own ----

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

/// The host, and everything else the engine's side of a script needs.
struct ScriptHost {
    engine: OnceCell<Weak<Engine<ScriptHost>>>,
    clock: VirtualClock,
    control: FakeControl,
    deeds: Vec<Vec<Deed>>,
    ran: RefCell<Vec<Ran>>,
    made: Cell<usize>,
    timers: RefCell<Vec<(TimerKey, usize)>>,
    cancelled: RefCell<BTreeSet<usize>>,
    sockets: Vec<(UnixStream, UnixStream)>,
    /// The last key of each socket: it may be stale.
    keys: RefCell<[Option<Key>; WATCHES]>,
    /// Events are announced only where it is sure which pass sees them: in one that is asked for.
    may_announce: Cell<bool>,
}

impl Host for ScriptHost {
    type Call = Call;
    type Watch = WatchHandle;
    type Source = ();
    type Inbound = usize;
    type Error = String;

    fn run_call(&self, call: Call) -> Result<(), String> {
        let Some(engine) = self.engine.get().and_then(Weak::upgrade) else { return Err("no engine".into()) };
        match call {
            Call::Stop => engine.stop(),
            Call::Watch(watch) if watch.is_alive.get() => {
                self.ran.borrow_mut().push(Ran::Watch(watch.index, self.clock.now()));
            }
            Call::Watch(_) => {}
            Call::Numbered(number) => {
                if !self.cancelled.borrow().contains(&number) {
                    self.ran.borrow_mut().push(Ran::Call(number, self.clock.now()));
                    let deeds = self.deeds[number % self.deeds.len()].clone();
                    deeds.iter().for_each(|deed| self.perform(&engine, deed));
                }
            }
        }
        Ok(())
    }

    fn io_ready(&self, (): (), _: Readiness) -> Result<(), String> {
        Err("there is no source".into())
    }

    fn receive(&self, number: usize) -> Call {
        Call::Numbered(number)
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
    /// The number of a new call, while there may be more.
    fn number(&self) -> Option<usize> {
        let number = self.made.get();
        (number < MAX_CALLS).then(|| {
            self.made.set(number + 1);
            number
        })
    }

    fn perform(&self, engine: &Engine<ScriptHost>, deed: &Deed) {
        match *deed {
            Deed::CallSoon => {
                self.number().into_iter().for_each(|number| engine.call_soon(Call::Numbered(number)));
            }
            Deed::CallAfter(millis) => {
                if let Some(number) = self.number() {
                    let key = engine.call_at(after(engine.now(), millis), Call::Numbered(number));
                    self.timers.borrow_mut().push((key, number));
                }
            }
            Deed::CancelTimer(choice) => {
                let timers = self.timers.borrow();
                if let Some(&(key, number)) = timers.get(choice % timers.len().max(1)) {
                    let cancelled = engine.cancel_timer(key);
                    assert!(cancelled.iter().all(|call| matches!(call, Call::Numbered(it) if *it == number)));
                    self.ran.borrow_mut().push(Ran::Cancelled(number, cancelled.is_some()));
                }
            }
            Deed::CancelCall(choice) => {
                self.cancelled.borrow_mut().insert(choice % self.made.get().max(1));
            }
            Deed::Background => {
                let number = self.number();
                number
                    .into_iter()
                    .for_each(|number| engine.call_soon_in(Lane::Background, Call::Numbered(number)));
            }
            Deed::Send => {
                self.number().into_iter().for_each(|number| engine.inbox().push(number).unwrap());
            }
            Deed::Watch(index) => {
                let watch = WatchHandle(Rc::new(Watched { index, is_alive: Cell::new(true) }));
                let fd = self.sockets[index].0.as_raw_fd();
                let replaced = engine.watch(fd, Direction::Inbound, watch).unwrap();
                replaced.iter().for_each(|watch| watch.0.is_alive.set(false));
                self.keys.borrow_mut()[index] = self.control.key_of(fd);
            }
            Deed::Unwatch(index) => {
                let fd = self.sockets[index].0.as_raw_fd();
                let removed = engine.unwatch(fd, Direction::Inbound).unwrap();
                removed.iter().for_each(|watch| watch.0.is_alive.set(false));
            }
            Deed::Announce(index) => {
                if let Some(key) = self.keys.borrow()[index].filter(|_| self.may_announce.get()) {
                    self.control.inject(key, Readiness::BOTH);
                }
            }
            Deed::Advance(millis) => self.clock.advance(Duration::from_millis(millis)),
        }
    }
}

fn run_on_the_engine(script: &Script) -> (Vec<Ran>, [usize; 2]) {
    let clock = VirtualClock::default();
    let (backend, control) = FakePoller::open().unwrap();
    let host = ScriptHost {
        engine: OnceCell::new(),
        clock: clock.clone(),
        control,
        deeds: script.deeds.clone(),
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
            Step::Do(deed) => host.perform(&engine, deed),
            Step::Pass => {
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
    let left = [engine.ready_len(), engine.timers_len()];
    drop(engine.close());
    assert_eq!([engine.ready_len(), engine.timers_len(), engine.registered_len()], [0; 3]);
    (host.ran.take(), left)
}

// ---- The model ----

#[derive(Clone, Copy, Debug)]
enum Item {
    Numbered(usize),
    /// A watch and which one of its socket.
    Watch(usize, usize),
    Stop,
}

#[derive(Default)]
struct Model {
    deeds: Vec<Vec<Deed>>,
    io_first: bool,
    max_overdue: Option<Duration>,
    now: Time,
    ready: VecDeque<Item>,
    background: VecDeque<(Time, Item)>,
    /// By time and order.
    timers: BTreeMap<(Time, usize), Item>,
    inbox: Vec<Item>,
    announced: Vec<(usize, usize)>,
    /// Of each socket: how often it was registered, and whether it is.
    registrations: [(usize, bool); WATCHES],
    /// Of each socket: which watch is the one in force.
    watches: [(usize, bool); WATCHES],
    ran: Vec<Ran>,
    made: usize,
    timers_made: Vec<(Time, usize, usize)>,
    sequence: usize,
    cancelled: BTreeSet<usize>,
    may_announce: bool,
    is_stopping: bool,
}

impl Model {
    fn number(&mut self) -> Option<usize> {
        (self.made < MAX_CALLS).then(|| {
            self.made += 1;
            self.made - 1
        })
    }

    fn call_at(&mut self, when: Time, item: Item) -> usize {
        self.sequence += 1;
        self.timers.insert((when, self.sequence), item);
        self.sequence
    }

    fn perform(&mut self, deed: &Deed) {
        match *deed {
            Deed::CallSoon => {
                let number = self.number();
                self.ready.extend(number.map(Item::Numbered));
            }
            Deed::CallAfter(millis) => {
                if let Some(number) = self.number() {
                    let when = after(self.now, millis);
                    let sequence = self.call_at(when, Item::Numbered(number));
                    self.timers_made.push((when, sequence, number));
                }
            }
            Deed::CancelTimer(choice) => {
                let choice = choice % self.timers_made.len().max(1);
                if let Some(&(when, sequence, number)) = self.timers_made.get(choice) {
                    let is_cancelled = self.timers.remove(&(when, sequence)).is_some();
                    self.ran.push(Ran::Cancelled(number, is_cancelled));
                }
            }
            Deed::CancelCall(choice) => {
                self.cancelled.insert(choice % self.made.max(1));
            }
            Deed::Background => {
                let number = self.number();
                self.background.extend(number.map(|number| (self.now, Item::Numbered(number))));
            }
            Deed::Send => {
                let number = self.number();
                self.inbox.extend(number.map(Item::Numbered));
            }
            Deed::Watch(index) => {
                self.watches[index] = (self.watches[index].0 + 1, true);
                let (count, is_registered) = self.registrations[index];
                self.registrations[index] = (count + usize::from(!is_registered), true);
            }
            Deed::Unwatch(index) => {
                self.watches[index].1 = false;
                self.registrations[index].1 = false;
            }
            Deed::Announce(index) => {
                if self.may_announce && self.registrations[index].0 > 0 {
                    self.announced.push((index, self.registrations[index].0));
                }
            }
            Deed::Advance(millis) => self.now = after(self.now, millis),
        }
    }

    fn pass(&mut self) {
        let is_busy = !self.ready.is_empty() || !self.background.is_empty() || !self.inbox.is_empty();
        if !is_busy
            && self.announced.is_empty()
            && !self.is_stopping
            && let Some((&(when, _), _)) = self.timers.first_key_value()
        {
            self.now = self.now.max(when);
        }
        let announced = std::mem::take(&mut self.announced);
        let announced =
            announced.into_iter().filter(|&(index, which)| self.registrations[index] == (which, true));
        let io: Vec<_> = announced.map(|(index, _)| Item::Watch(index, self.watches[index].0)).collect();
        let mut served = Vec::new();
        if self.io_first {
            served.extend(io);
        } else {
            self.ready.extend(io);
        }
        self.ready.append(&mut std::mem::take(&mut self.inbox).into());
        let late = self.timers.split_off(&(Time::from_nanos(self.now.as_nanos() + 1), 0));
        self.ready.extend(std::mem::replace(&mut self.timers, late).into_values());
        if let Some(limit) = self.max_overdue {
            while self
                .background
                .front()
                .is_some_and(|&(since, _)| self.now.saturating_duration_since(since) > limit)
            {
                self.ready.extend(self.background.pop_front().map(|(_, item)| item));
            }
        }
        served.append(&mut std::mem::take(&mut self.ready).into());
        if served.is_empty() {
            served.extend(self.background.pop_front().map(|(_, item)| item));
        }
        for item in served {
            self.run(item);
        }
    }

    fn run(&mut self, item: Item) {
        match item {
            Item::Stop => self.is_stopping = true,
            Item::Watch(index, which) => {
                if self.watches[index] == (which, true) {
                    self.ran.push(Ran::Watch(index, self.now));
                }
            }
            Item::Numbered(number) if self.cancelled.contains(&number) => {}
            Item::Numbered(number) => {
                self.ran.push(Ran::Call(number, self.now));
                let deeds = self.deeds[number % self.deeds.len()].clone();
                deeds.iter().for_each(|deed| self.perform(deed));
            }
        }
    }
}

fn run_on_the_model(script: &Script) -> (Vec<Ran>, [usize; 2]) {
    let mut model = Model {
        deeds: script.deeds.clone(),
        io_first: script.io_first,
        max_overdue: script.max_overdue.then_some(MAX_OVERDUE),
        may_announce: true,
        ..Model::default()
    };
    for step in &script.steps {
        match step {
            Step::Do(deed) => model.perform(deed),
            Step::Pass => {
                model.is_stopping = true;
                model.pass();
            }
            Step::RunFor(millis) => {
                model.may_announce = false;
                model.call_at(after(model.now, *millis), Item::Stop);
                while !model.is_stopping {
                    model.pass();
                }
                model.may_announce = true;
            }
        }
        model.is_stopping = false;
    }
    (model.ran, [model.ready.len() + model.background.len(), model.timers.len()])
}

#[test]
fn the_engine_runs_what_asyncio_would_in_the_same_order_at_the_same_times() {
    support::guarded(|| {
        proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }, |(script in script())| {
            prop_assert_eq!(run_on_the_engine(&script), run_on_the_model(&script));
        });
    });
}
