//! How long background calls wait on a busy loop.

use super::{SECOND, run_busy_iterations};
use crate::support::{Log, run_one_iteration, virtual_loop};
use mainspring::testing::VirtualClock;
use mainspring::{EventLoop, after, background};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn after_in_a_background_task_waits_for_its_limit_once() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::<mainspring::Time>::new();
    let inside = log.clone();
    let start = event_loop.time();
    let task = background(SECOND, || {
        event_loop.spawn(async move {
            after(SECOND).await;
            inside.add(EventLoop::current().time());
        })
    });
    run_one_iteration(&event_loop);
    run_busy_iterations(&event_loop, &clock, 30);
    assert!(task.unwrap().is_finished());
    let waited = log.entries()[0].saturating_duration_since(start);
    // The delay, the limit, and an iteration each to notice them and to wake the task.
    assert!((2 * SECOND..=2 * SECOND + 3 * SECOND / 10).contains(&waited), "{waited:?}");
}

#[test]
fn call_after_waits_for_its_delay_and_for_an_idle_iteration() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    event_loop.call_after(SECOND, log.adder("after")).unwrap();
    let cancelled = event_loop.call_after(SECOND, || unreachable!()).unwrap();
    run_busy_iterations(&event_loop, &clock, 20);
    log.assert([]);
    cancelled.cancel();
    run_one_iteration(&event_loop);
    log.assert(["after"]);
    event_loop.close().unwrap();
    assert!(event_loop.call_after(SECOND, || ()).is_err());
}

/// Schedules a chain of normal calls with these durations, each of which schedules the next.
fn run_chain(event_loop: &EventLoop, clock: &VirtualClock, mut durations: std::vec::IntoIter<u64>) {
    let Some(nanos) = durations.next() else { return };
    let (inner, clock) = (event_loop.clone(), clock.clone());
    let call = move || {
        clock.advance(Duration::from_nanos(nanos));
        run_chain(&inner, &clock, durations);
    };
    event_loop.call_soon(call).unwrap();
}

/// Schedules a background call with the first limit, which schedules the next. Logs how long each waited after its limit.
fn run_background(event_loop: &EventLoop, mut limits: std::vec::IntoIter<u64>, overdue: &Log<u64>) {
    let Some(limit) = limits.next() else { return };
    let ready = event_loop.time();
    let (inner, overdue) = (event_loop.clone(), overdue.clone());
    let call = move || {
        let waited = inner.time().saturating_duration_since(ready).as_nanos() as u64;
        overdue.add(waited.saturating_sub(limit));
        run_background(&inner, limits, &overdue);
    };
    background(Duration::from_nanos(limit), || event_loop.call_soon(call)).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_single_background_call_starts_at_most_one_callback_after_its_limit(
        chains in prop::collection::vec(prop::collection::vec(0..50_u64, 0..60), 0..5),
        limits in prop::collection::vec(0..300_u64, 1..10),
    ) {
        let (event_loop, clock) = virtual_loop();
        let longest = chains.iter().flatten().max().copied().unwrap_or_default();
        let overdue = Log::new();
        let count = limits.len();
        run_background(&event_loop, limits.into_iter(), &overdue);
        for chain in chains {
            run_chain(&event_loop, &clock, chain.into_iter());
        }
        event_loop.run_until_idle().unwrap();
        let overdue = overdue.entries();
        prop_assert_eq!(overdue.len(), count);
        prop_assert!(overdue.iter().all(|&time| time <= longest), "{:?}, longest callback {}", overdue, longest);
    }
}
