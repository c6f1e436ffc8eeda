//! The model: plain lists, and an iteration that runs the list of ready calls.

use crate::script::{Action, MAX_CALLS, MAX_OVERDUE, Ran, Script, Step, WATCHES, after};
use mainspring_engine::clock::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Item {
    Numbered(usize),
    /// A socket, and which of its watches.
    Watch(usize, usize),
    Stop,
}

#[derive(Default)]
struct Model {
    actions: Vec<Vec<Action>>,
    io_first: bool,
    max_overdue: Option<Duration>,
    now: Time,
    ready: VecDeque<Item>,
    background: VecDeque<(Time, Item)>,
    /// Ordered by time, then insertion.
    timers: BTreeMap<(Time, usize), Item>,
    announced: Vec<(usize, usize)>,
    /// For each socket: how often it was registered, and whether it is.
    registrations: [(usize, bool); WATCHES],
    /// For each socket: the current watch, and whether it is active.
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

    fn perform(&mut self, action: &Action) {
        match *action {
            // A call from another thread takes its place among the ready calls when it is sent.
            Action::CallSoon | Action::Send => {
                let number = self.number();
                self.ready.extend(number.map(Item::Numbered));
            }
            Action::CallAfter(millis) => {
                if let Some(number) = self.number() {
                    let when = after(self.now, millis);
                    let sequence = self.call_at(when, Item::Numbered(number));
                    self.timers_made.push((when, sequence, number));
                }
            }
            Action::CancelTimer(choice) => {
                let choice = choice % self.timers_made.len().max(1);
                if let Some(&(when, sequence, number)) = self.timers_made.get(choice) {
                    let is_cancelled = self.timers.remove(&(when, sequence)).is_some();
                    self.ran.push(Ran::Cancelled(number, is_cancelled));
                }
            }
            Action::CancelCall(choice) => {
                self.cancelled.insert(choice % self.made.max(1));
            }
            Action::Background => {
                let number = self.number();
                self.background.extend(number.map(|number| (self.now, Item::Numbered(number))));
            }
            Action::Watch(index) => {
                self.watches[index] = (self.watches[index].0 + 1, true);
                let (count, is_registered) = self.registrations[index];
                self.registrations[index] = (count + usize::from(!is_registered), true);
            }
            Action::Unwatch(index) => {
                self.watches[index].1 = false;
                self.registrations[index].1 = false;
            }
            Action::Announce(index) => {
                if self.may_announce && self.registrations[index].0 > 0 {
                    self.announced.push((index, self.registrations[index].0));
                }
            }
            Action::Advance(millis) => self.now = after(self.now, millis),
        }
    }

    fn run_iteration(&mut self) {
        let is_busy = !self.ready.is_empty() || !self.background.is_empty();
        if !is_busy
            && self.announced.is_empty()
            && !self.is_stopping
            && let Some((&(when, _), _)) = self.timers.first_key_value()
        {
            self.now = self.now.max(when);
        }
        let mut io = self.poll();
        if !self.io_first {
            self.ready.extend(io.drain(..));
        }
        let late = self.timers.split_off(&(Time::from_nanos(self.now.as_nanos() + 1), 0));
        self.ready.extend(std::mem::replace(&mut self.timers, late).into_values());
        let ready = std::mem::take(&mut self.ready);
        if io.is_empty() && ready.is_empty() {
            self.background.pop_front().into_iter().for_each(|(_, item)| self.run(item));
        }
        for (nth, item) in ready.into_iter().enumerate() {
            if self.io_first && nth > 0 {
                io = self.poll();
            }
            io.drain(..).for_each(|item| self.run(item));
            self.pop_overdue().into_iter().for_each(|item| self.run(item));
            self.run(item);
        }
        io.into_iter().for_each(|item| self.run(item));
    }

    fn pop_overdue(&mut self) -> Option<Item> {
        let (limit, &(since, item)) = (self.max_overdue?, self.background.front()?);
        (self.now.saturating_duration_since(since) > limit).then(|| {
            self.background.pop_front();
            item
        })
    }

    /// The calls of the announced events.
    fn poll(&mut self) -> Vec<Item> {
        let announced = std::mem::take(&mut self.announced);
        let announced =
            announced.into_iter().filter(|&(index, which)| self.registrations[index] == (which, true));
        announced.map(|(index, _)| Item::Watch(index, self.watches[index].0)).collect()
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
                let actions = self.actions[number % self.actions.len()].clone();
                actions.iter().for_each(|action| self.perform(action));
            }
        }
    }
}

/// Runs `script` on the model. Returns the record of the run, and the number of calls and timers left.
pub fn run_on_the_model(script: &Script) -> (Vec<Ran>, [usize; 2]) {
    let mut model = Model {
        actions: script.actions.clone(),
        io_first: script.io_first,
        max_overdue: script.max_overdue.then_some(MAX_OVERDUE),
        may_announce: true,
        ..Model::default()
    };
    for step in &script.steps {
        match step {
            Step::Do(action) => model.perform(action),
            Step::RunIteration => {
                model.is_stopping = true;
                model.run_iteration();
            }
            Step::RunFor(millis) => {
                model.may_announce = false;
                model.call_at(after(model.now, *millis), Item::Stop);
                while !model.is_stopping {
                    model.run_iteration();
                }
                model.may_announce = true;
            }
        }
        model.is_stopping = false;
    }
    (model.ran, [model.ready.len() + model.background.len(), model.timers.len()])
}
