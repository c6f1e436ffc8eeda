//! The ready lanes against a naive model: plain lists, and an iteration that runs the list of ready items.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use std::collections::VecDeque;
use std::time::Duration;

use mainspring_engine::clock::Time;
use mainspring_engine::ready_queue::{Lane, Lanes};
use proptest::prelude::*;

const LIMIT: Duration = Duration::from_nanos(50);

/// The lanes to which an item pushes new items when it runs.
type Pushes = Vec<Lane>;

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![2 => Just(Lane::Io), 4 => Just(Lane::Normal), 1 => Just(Lane::Background)]
}

#[derive(Clone, Debug)]
enum Step {
    Push(Lane),
    Promote(u64),
    SetIoFirst(bool),
    /// Runs one iteration. Each item pushes to the next of these lists.
    RunIteration(Vec<Pushes>),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let pushes = prop::collection::vec(lane(), 0..3);
    prop_oneof![
        8 => lane().prop_map(Step::Push),
        2 => (0..80u64).prop_map(Step::Promote),
        1 => any::<bool>().prop_map(Step::SetIoFirst),
        4 => prop::collection::vec(pushes, 0..12).prop_map(Step::RunIteration),
        1 => (0..8u8).prop_map(|luck| if luck == 0 { Step::Clear } else { Step::Promote(1) }),
    ]
}

#[derive(Default)]
struct Model {
    io: Vec<usize>,
    normal: Vec<usize>,
    background: Vec<(u64, usize)>,
    io_first: bool,
    now: u64,
    pushed: usize,
}

impl Model {
    fn push(&mut self, lane: Lane) -> usize {
        let item = self.pushed;
        self.pushed += 1;
        match lane {
            Lane::Io => self.io.push(item),
            Lane::Normal => self.normal.push(item),
            Lane::Background => self.background.push((self.now, item)),
        }
        item
    }

    fn promote(&mut self) {
        let (overdue, rest) =
            self.background.drain(..).partition(|&(since, _)| Duration::from_nanos(self.now - since) > LIMIT);
        self.background = rest;
        let overdue: Vec<(u64, usize)> = overdue;
        self.normal.extend(overdue.into_iter().map(|(_, item)| item));
    }

    fn everything(&self) -> Vec<usize> {
        let background = self.background.iter().map(|&(_, item)| item);
        self.io.iter().chain(&self.normal).copied().chain(background).collect()
    }

    /// Runs an iteration. `run_item` is called with each item and returns the lanes to which it pushes.
    fn run_iteration(&mut self, mut run_item: impl FnMut(usize) -> Pushes) {
        let mut io = std::mem::take(&mut self.io);
        let normal = std::mem::take(&mut self.normal);
        let mut run = |model: &mut Model, item| {
            for lane in run_item(item) {
                model.push(lane);
            }
        };
        if io.is_empty() && normal.is_empty() {
            if !self.background.is_empty() {
                let (_, item) = self.background.remove(0);
                run(self, item);
            }
            return;
        }
        for (nth, item) in normal.iter().copied().enumerate() {
            if self.io_first && nth > 0 {
                io = std::mem::take(&mut self.io);
            }
            for item in io.drain(..) {
                run(self, item);
            }
            run(self, item);
        }
        for item in io {
            run(self, item);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_lanes_behave_like_the_model(steps in prop::collection::vec(step(), 1..80)) {
        let mut lanes = Lanes::new();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Push(lane) => push(&mut lanes, lane, model.push(lane), model.now),
                Step::Promote(by) => {
                    model.now += by;
                    model.promote();
                    lanes.promote_overdue(Time::from_nanos(model.now), LIMIT);
                }
                Step::SetIoFirst(io_first) => {
                    model.io_first = io_first;
                    lanes.set_io_first(io_first);
                }
                Step::RunIteration(pushes) => {
                    let mut expected = Vec::new();
                    let mut next_item = model.pushed;
                    let mut remaining = VecDeque::from(pushes.clone());
                    model.run_iteration(|item| {
                        expected.push(item);
                        remaining.pop_front().unwrap_or_default()
                    });
                    let mut actual = Vec::new();
                    let mut remaining = VecDeque::from(pushes);
                    let mut iteration = lanes.begin_iteration();
                    while let Some(item) = lanes.next(&mut iteration) {
                        actual.push(item);
                        for lane in remaining.pop_front().unwrap_or_default() {
                            push(&mut lanes, lane, next_item, model.now);
                            next_item += 1;
                        }
                    }
                    prop_assert_eq!(actual, expected);
                }
                Step::Clear => {
                    prop_assert_eq!(lanes.clear(), model.everything());
                    let (io_first, now, pushed) = (model.io_first, model.now, model.pushed);
                    model = Model { io_first, now, pushed, ..Model::default() };
                }
            }
            let held: Vec<usize> = lanes.iter().copied().collect();
            prop_assert_eq!(lanes.len(), held.len());
            prop_assert_eq!(lanes.is_empty(), held.is_empty());
            prop_assert_eq!(held, model.everything());
        }
    }
}

/// Pushes in one of the two ways that the background lane has.
fn push(lanes: &mut Lanes<usize>, lane: Lane, item: usize, now: u64) {
    if lane == Lane::Background && item.is_multiple_of(2) {
        lanes.push_background(item, Time::from_nanos(now));
    } else {
        lanes.push(lane, item);
    }
}
