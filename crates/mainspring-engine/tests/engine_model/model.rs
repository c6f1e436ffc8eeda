//! The model: plain lists, and a pass that is a list of what was ready.

use crate::script::{Deed, MAX_CALLS, MAX_OVERDUE, Ran, Script, Step, WATCHES, after};
use mainspring_engine::clock::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

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
            // What another thread sends has its place among the calls from the moment it is sent.
            Deed::CallSoon | Deed::Send => {
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
        let is_busy = !self.ready.is_empty() || !self.background.is_empty();
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

/// Runs `script` on the model: what ran, and how many calls and timers are left.
pub fn run_on_the_model(script: &Script) -> (Vec<Ran>, [usize; 2]) {
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
            Step::IterationBound => {
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
