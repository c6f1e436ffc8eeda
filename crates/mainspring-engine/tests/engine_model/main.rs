//! The engine against a naive model of asyncio's rules.
//!
//! A script lists the actions between iterations and the actions of each call: schedule calls, set and cancel timers,
//! send to the inbox, register fds and inject their events. The engine runs the script under a test host, on virtual
//! time; the model runs it on lists. Both must run the same calls, in the same order, at the same times.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod engine;
mod model;
mod script;

use engine::run_on_the_engine;
use model::run_on_the_model;
use proptest::prelude::*;
use script::script;

#[test]
fn the_engine_runs_the_same_calls_as_the_model() {
    test_support::isolated(|| {
        proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }, |(script in script())| {
            prop_assert_eq!(run_on_the_engine(&script), run_on_the_model(&script));
        });
    });
}
