//! asyncio's scheduling order: `call_soon`, timers, `stop`, exception handlers.

use crate::support::{Log, collect_reports, new_loop, run_one_iteration, virtual_loop};
use mainspring::{EventLoop, Time};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn calls_run_in_the_order_they_were_scheduled() {
    let event_loop = new_loop();
    let log = Log::new();
    for number in 0..5 {
        event_loop.call_soon(log.adder(number)).unwrap();
    }
    run_one_iteration(&event_loop);
    log.assert([0, 1, 2, 3, 4]);
}

#[test]
fn an_iteration_runs_only_calls_that_were_ready_at_its_start() {
    let event_loop = new_loop();
    let log = Log::new();
    let (scheduler, later) = (event_loop.clone(), log.clone());
    event_loop
        .call_soon(move || {
            later.add("first");
            scheduler.call_soon(later.adder("scheduled in the iteration")).unwrap();
        })
        .unwrap();
    event_loop.call_soon(log.adder("second")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["first", "second"]);
    run_one_iteration(&event_loop);
    log.assert(["first", "second", "scheduled in the iteration"]);
}

#[test]
fn stop_lets_the_current_iteration_finish() {
    let event_loop = new_loop();
    let log = Log::new();
    let (stopper, after) = (event_loop.clone(), log.clone());
    event_loop
        .call_soon(move || {
            stopper.stop();
            stopper.call_soon(after.adder("next iteration")).unwrap();
        })
        .unwrap();
    event_loop.call_soon(log.adder("same iteration")).unwrap();
    event_loop.run_forever().unwrap();
    log.assert(["same iteration"]);
    assert_eq!(event_loop.metrics().ready, 1);
}

#[test]
fn a_loop_stopped_before_it_runs_does_one_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    event_loop.call_soon(log.adder(())).unwrap();
    event_loop.stop();
    event_loop.run_forever().unwrap();
    log.assert([()]);
}

#[test]
fn cancelling_a_call_drops_its_closure_at_once() {
    let event_loop = new_loop();
    let held = Rc::new(());
    let in_closure = Rc::clone(&held);
    let handle = event_loop.call_soon(move || panic!("{in_closure:?}")).unwrap();
    let in_closure = Rc::clone(&held);
    let timer = event_loop.call_later(Duration::from_secs(1), move || panic!("{in_closure:?}")).unwrap();
    assert!(!handle.cancelled() && !timer.cancelled());
    assert_eq!(Rc::strong_count(&held), 3);
    handle.cancel();
    timer.cancel();
    assert!(handle.cancelled() && timer.cancelled());
    assert_eq!(Rc::strong_count(&held), 1);
    assert_eq!(event_loop.metrics().timers, 0);
    let reports = collect_reports(&event_loop);
    run_one_iteration(&event_loop);
    reports.assert([]);
}

#[test]
fn a_due_timer_can_be_cancelled_before_it_runs() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let when = event_loop.time().saturating_add(Duration::from_millis(5));
    let (first, second) = (log.clone(), log.clone());
    let target = Rc::new(std::cell::OnceCell::<mainspring::TimerHandle>::new());
    let canceller = Rc::clone(&target);
    event_loop
        .call_at(when, move || {
            first.add("canceller");
            canceller.get().unwrap().cancel();
        })
        .unwrap();
    let _ = target.set(event_loop.call_at(when, move || second.add("target")).unwrap());
    let stopper = event_loop.clone();
    event_loop.call_at(when, move || stopper.stop()).unwrap();
    event_loop.run_forever().unwrap();
    log.assert(["canceller"]);
}

#[test]
fn timers_run_by_deadline_and_equal_deadlines_in_creation_order() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let start = event_loop.time();
    let mut handles = Vec::new();
    for (entry, delay) in [("c", 2), ("a", 1), ("d", 2), ("b", 1), ("e", 3600)] {
        let when = start.saturating_add(Duration::from_secs(delay));
        handles.push(event_loop.call_at(when, log.adder(entry)).unwrap());
    }
    handles.sort();
    let whens: Vec<_> = handles.iter().map(|handle| handle.when()).collect();
    assert!(whens.is_sorted());
    assert!(handles[0] < handles[1] && handles[0] == handles[0].clone());
    let stopper = event_loop.clone();
    event_loop.call_later(Duration::from_secs(3600), move || stopper.stop()).unwrap();
    event_loop.run_forever().unwrap();
    log.assert(["a", "b", "c", "d", "e"]);
}

#[test]
fn no_timer_is_early_by_the_loops_clock() {
    let event_loop = new_loop();
    let log = Log::new();
    for micros in [0, 1, 40, 700, 1_500, 3_000] {
        let (clock, log) = (event_loop.clone(), log.clone());
        let when = event_loop.time().saturating_add(Duration::from_micros(micros));
        event_loop.call_at(when, move || log.add(clock.time() >= when)).unwrap();
    }
    let stopper = event_loop.clone();
    event_loop.call_later(Duration::from_millis(5), move || stopper.stop()).unwrap();
    event_loop.run_forever().unwrap();
    log.assert([true; 6]);
}

#[test]
fn a_timer_at_time_never_does_not_run_and_can_be_cancelled() {
    let (event_loop, _clock) = virtual_loop();
    let never = event_loop.call_at(Time::NEVER, || panic!("never")).unwrap();
    let too_long = event_loop.call_later(Duration::MAX, || panic!("never")).unwrap();
    let stopper = event_loop.clone();
    event_loop.call_later(Duration::from_secs(3600), move || stopper.stop()).unwrap();
    event_loop.run_forever().unwrap();
    never.cancel();
    too_long.cancel();
    assert_eq!(event_loop.metrics().timers, 0);
}

#[test]
fn a_panicking_callback_is_reported_and_the_others_run() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let log = Log::new();
    event_loop.call_soon(|| panic!("number {}", 1)).unwrap();
    event_loop.call_soon(log.adder("after")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["after"]);
    reports.assert(["A callback panicked: panic: number 1".to_owned()]);
}

#[test]
fn a_panicking_exception_handler_does_not_end_the_loop() {
    let event_loop = new_loop();
    event_loop.set_exception_handler(|_| panic!("handler"));
    let log = Log::new();
    event_loop.call_soon(|| panic!("callback")).unwrap();
    event_loop.call_soon(log.adder("after")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["after"]);
}

#[test]
fn an_exception_handler_may_replace_itself() {
    let event_loop = new_loop();
    let log = Log::new();
    let (inner, first) = (event_loop.clone(), log.clone());
    event_loop.set_exception_handler(move |context| {
        first.add(format!("first: {}", context.message()));
        let second = first.clone();
        inner.set_exception_handler(move |context| second.add(format!("second: {}", context.message())));
    });
    for message in ["one", "two"] {
        event_loop.call_exception_handler(&mainspring::ExceptionContext::new(message));
    }
    event_loop.reset_exception_handler();
    log.assert(["first: one".to_owned(), "second: two".to_owned()]);
}

#[test]
fn the_current_loop_is_set_while_it_runs() {
    assert!(EventLoop::try_current().is_none());
    let event_loop = EventLoop::builder().name("the loop").build().unwrap();
    let log = Log::new();
    let names = log.clone();
    event_loop.call_soon(move || names.add(EventLoop::current().name())).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["the loop".to_owned()]);
    assert!(EventLoop::try_current().is_none());
}
