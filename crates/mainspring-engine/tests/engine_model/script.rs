//! What a script says, and what is written down when it runs.

use mainspring_engine::clock::Time;
use proptest::prelude::*;
use std::time::Duration;

pub const WATCHES: usize = 3;
pub const MAX_OVERDUE: Duration = Duration::from_millis(30);
/// Calls past this number do nothing, so that every script ends.
pub const MAX_CALLS: usize = 200;

/// What happens between passes, or in a call.
#[derive(Clone, Debug)]
pub enum Deed {
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
pub enum Step {
    Do(Deed),
    IterationBound,
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
pub struct Script {
    pub steps: Vec<Step>,
    /// What the calls do, in turn.
    pub deeds: Vec<Vec<Deed>>,
    pub io_first: bool,
    pub max_overdue: bool,
}

pub fn script() -> impl Strategy<Value = Script> {
    let step = prop_oneof![
        3 => deed().prop_map(Step::Do),
        3 => Just(Step::IterationBound),
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
pub enum Ran {
    Call(usize, Time),
    Watch(usize, Time),
    Cancelled(usize, bool),
}

pub fn after(now: Time, millis: u64) -> Time {
    now.saturating_add(Duration::from_millis(millis))
}
