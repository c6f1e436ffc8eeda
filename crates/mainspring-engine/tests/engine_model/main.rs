//! The engine against a naive model of asyncio's rules.
//!
//! A script says what happens between passes and what each call does when it runs: make other calls ready, set and cancel
//! timers, send to the inbox, watch descriptors and have them announced. The engine runs it under a host of its own, on
//! virtual time and on a back end that announces what it is told; the model runs it on lists. Both must call the same
//! calls, in the same order, at the same times.
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
fn the_engine_runs_what_asyncio_would_in_the_same_order_at_the_same_times() {
    test_support::guarded(|| {
        proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) }, |(script in script())| {
            prop_assert_eq!(run_on_the_engine(&script), run_on_the_model(&script));
        });
    });
}
