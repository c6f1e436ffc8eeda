//! The ready lanes against a naive model: plain lists, and an iteration that runs the list of ready items.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use std::collections::VecDeque;
use std::time::Duration;

use mainspring_engine::clock::Time;
use mainspring_engine::ready_queue::{Lane, Lanes};
use proptest::prelude::*;

/// The limit of the loop, in nanoseconds.
const LIMIT: u64 = 50;

/// The lanes to which an item pushes new items when it runs.
type Pushes = Vec<Lane>;

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![2 => Just(Lane::Urgent), 4 => Just(Lane::Normal), 1 => Just(Lane::Background)]
}

#[derive(Clone, Debug)]
enum Step {
    /// Pushes to a lane; to the background lane with a limit in nanoseconds.
    Push(Lane, Option<u64>),
    Advance(u64),
    SetIoFirst(bool),
    /// Runs one iteration. Each item pushes to the next of these lists.
    RunIteration(Vec<Pushes>),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let pushes = prop::collection::vec(lane(), 0..3);
    prop_oneof![
        8 => (lane(), prop::option::of(0..80u64)).prop_map(|(lane, limit)| Step::Push(lane, limit)),
        2 => (0..80u64).prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::SetIoFirst),
        4 => prop::collection::vec(pushes, 0..12).prop_map(Step::RunIteration),
        1 => (0..8u8).prop_map(|luck| if luck == 0 { Step::Clear } else { Step::Advance(1) }),
    ]
}

/// An item in the background lane.
struct Waiting {
    since: u64,
    limit: Option<u64>,
    item: usize,
}

#[derive(Default)]
struct Model {
    urgent: Vec<usize>,
    normal: Vec<usize>,
    background: Vec<Waiting>,
    io_first: bool,
    now: u64,
    pushed: usize,
}

impl Model {
    fn push(&mut self, lane: Lane, limit: Option<u64>) -> usize {
        let item = self.pushed;
        self.pushed += 1;
        match lane {
            Lane::Urgent => self.urgent.push(item),
            Lane::Normal => self.normal.push(item),
            Lane::Background => self.background.push(Waiting { since: self.now, limit, item }),
        }
        item
    }

    fn pop_overdue(&mut self) -> Option<usize> {
        let is_overdue = |waiting: &Waiting| self.now - waiting.since > waiting.limit.unwrap_or(LIMIT);
        let index = self.background.iter().position(is_overdue)?;
        Some(self.background.remove(index).item)
    }

    fn everything(&self) -> Vec<usize> {
        let background = self.background.iter().map(|waiting| waiting.item);
        self.urgent.iter().chain(&self.normal).copied().chain(background).collect()
    }

    /// Runs an iteration. `run_item` is called with each item and returns the lanes to which it pushes.
    fn run_iteration(&mut self, mut run_item: impl FnMut(usize) -> Pushes) {
        let mut urgent = std::mem::take(&mut self.urgent);
        let normal = std::mem::take(&mut self.normal);
        let mut run = |model: &mut Model, item| {
            for lane in run_item(item) {
                model.push(lane, None);
            }
        };
        if urgent.is_empty() && normal.is_empty() {
            if !self.background.is_empty() {
                let waiting = self.background.remove(0);
                run(self, waiting.item);
            }
            return;
        }
        for (nth, item) in normal.iter().copied().enumerate() {
            if self.io_first && nth > 0 {
                urgent = std::mem::take(&mut self.urgent);
            }
            for item in urgent.drain(..) {
                run(self, item);
            }
            if let Some(overdue) = self.pop_overdue() {
                run(self, overdue);
            }
            run(self, item);
        }
        for item in urgent {
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
                Step::Push(lane, limit) => push(&mut lanes, lane, model.push(lane, limit), model.now, limit),
                Step::Advance(by) => model.now += by,
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
                    let (now, limit) = (Time::from_nanos(model.now), Some(Duration::from_nanos(LIMIT)));
                    while let Some(item) = lanes.next(&mut iteration, Some(now), limit) {
                        actual.push(item);
                        for lane in remaining.pop_front().unwrap_or_default() {
                            push(&mut lanes, lane, next_item, model.now, None);
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
            // Background items with different limits come in no order.
            let mut held: Vec<usize> = lanes.iter().copied().collect();
            held[lanes.len() - lanes.len_of(Lane::Background)..].sort_unstable();
            prop_assert_eq!(lanes.len(), held.len());
            prop_assert_eq!(lanes.is_empty(), held.is_empty());
            prop_assert_eq!(held, model.everything());
        }
    }
}

fn push(lanes: &mut Lanes<usize>, lane: Lane, item: usize, now: u64, limit: Option<u64>) {
    let pushed = match lane {
        Lane::Urgent => lanes.try_push_urgent(item),
        Lane::Normal => {
            lanes.push_normal(item);
            Ok(())
        }
        Lane::Background => {
            lanes.try_push_background(item, Time::from_nanos(now), limit.map(Duration::from_nanos))
        }
    };
    assert_eq!(pushed, Ok(()));
}
