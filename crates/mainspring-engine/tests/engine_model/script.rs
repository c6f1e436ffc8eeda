//! The script, and the record of its run.

use mainspring_engine::clock::Time;
use proptest::prelude::*;
use std::time::Duration;

pub const WATCHES: usize = 3;
pub const MAX_OVERDUE: Duration = Duration::from_millis(30);
/// Calls beyond this number do nothing, so that every script ends.
pub const MAX_CALLS: usize = 200;

/// An action between iterations, or in a call.
#[derive(Clone, Debug)]
pub enum Action {
    CallSoon,
    CallAfter(u64),
    /// Cancels one of the timers created so far.
    CancelTimer(usize),
    /// Prevents one of the calls created so far from running, like cancelling a handle.
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
    Do(Action),
    RunIteration,
    /// Runs until a timer that is due after this many milliseconds stops the loop.
    RunFor(u64),
}

fn action() -> impl Strategy<Value = Action> {
    // Short delays, so that deadlines coincide; some long ones, so that they use the wheel.
    let delay = prop_oneof![4 => 0..4u64, 2 => 0..40u64, 1 => 0..100_000u64];
    prop_oneof![
        4 => Just(Action::CallSoon),
        4 => delay.prop_map(Action::CallAfter),
        2 => any::<usize>().prop_map(Action::CancelTimer),
        1 => any::<usize>().prop_map(Action::CancelCall),
        2 => Just(Action::Background),
        2 => Just(Action::Send),
        1 => (0..WATCHES).prop_map(Action::Watch),
        1 => (0..WATCHES).prop_map(Action::Unwatch),
        3 => (0..WATCHES).prop_map(Action::Announce),
        1 => (0..50u64).prop_map(Action::Advance),
    ]
}

#[derive(Clone, Debug)]
pub struct Script {
    pub steps: Vec<Step>,
    /// The actions of each call, in the order in which the calls run.
    pub actions: Vec<Vec<Action>>,
    pub io_first: bool,
    pub max_overdue: bool,
}

pub fn script() -> impl Strategy<Value = Script> {
    let step = prop_oneof![
        3 => action().prop_map(Step::Do),
        3 => Just(Step::RunIteration),
        1 => (0..200u64).prop_map(Step::RunFor),
    ];
    let steps = prop::collection::vec(step, 0..40);
    let actions = prop::collection::vec(prop::collection::vec(action(), 0..4), 1..12);
    (steps, actions, any::<bool>(), any::<bool>())
        .prop_map(|(steps, actions, io_first, max_overdue)| Script { steps, actions, io_first, max_overdue })
}

/// A record of a call or a watch that ran, with its time, or of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    Call(usize, Time),
    Watch(usize, Time),
    Cancelled(usize, bool),
}

pub fn after(now: Time, millis: u64) -> Time {
    now.saturating_add(Duration::from_millis(millis))
}
