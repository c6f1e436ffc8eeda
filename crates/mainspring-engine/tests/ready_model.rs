//! The ready lanes against a naive model: plain lists, and a pass that is a list of what was ready.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use std::collections::VecDeque;
use std::time::Duration;

use mainspring_engine::clock::Time;
use mainspring_engine::ready_queue::{Lane, Lanes};
use proptest::prelude::*;

const LIMIT: Duration = Duration::from_nanos(50);

/// What an item does when it runs: the lanes it pushes new items to.
type Deeds = Vec<Lane>;

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![2 => Just(Lane::Io), 4 => Just(Lane::Normal), 1 => Just(Lane::Background)]
}

#[derive(Clone, Debug)]
enum Step {
    Push(Lane),
    Promote(u64),
    SetIoFirst(bool),
    /// Run one pass, in which the items do these deeds, one after the other.
    IterationBound(Vec<Deeds>),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let deeds = prop::collection::vec(lane(), 0..3);
    prop_oneof![
        8 => lane().prop_map(Step::Push),
        2 => (0..80u64).prop_map(Step::Promote),
        1 => any::<bool>().prop_map(Step::SetIoFirst),
        4 => prop::collection::vec(deeds, 0..12).prop_map(Step::IterationBound),
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

    /// Runs a pass; `ran` is told each item as it runs, and the lanes that it pushes to are answered.
    fn pass(&mut self, mut ran: impl FnMut(usize) -> Deeds) {
        let mut io = std::mem::take(&mut self.io);
        let normal = std::mem::take(&mut self.normal);
        let mut run = |model: &mut Model, item| {
            for lane in ran(item) {
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
    fn the_lanes_behave_like_plain_lists(steps in prop::collection::vec(step(), 1..80)) {
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
                Step::IterationBound(deeds) => {
                    let mut expected = Vec::new();
                    let mut next_item = model.pushed;
                    let mut ahead = VecDeque::from(deeds.clone());
                    model.pass(|item| {
                        expected.push(item);
                        ahead.pop_front().unwrap_or_default()
                    });
                    let mut ran = Vec::new();
                    let mut ahead = VecDeque::from(deeds);
                    let mut pass = lanes.begin_iteration();
                    while let Some(item) = lanes.next(&mut pass) {
                        ran.push(item);
                        for lane in ahead.pop_front().unwrap_or_default() {
                            push(&mut lanes, lane, next_item, model.now);
                            next_item += 1;
                        }
                    }
                    prop_assert_eq!(ran, expected);
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

/// Pushes in either of the two ways that the background lane has.
fn push(lanes: &mut Lanes<usize>, lane: Lane, item: usize, now: u64) {
    if lane == Lane::Background && item.is_multiple_of(2) {
        lanes.push_background(item, Time::from_nanos(now));
    } else {
        lanes.push(lane, item);
    }
}
