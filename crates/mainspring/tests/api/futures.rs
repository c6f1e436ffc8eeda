//! `Future`: results set by other code, done callbacks, cancellation.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_iteration};
use mainspring::{Error, Future, FutureError, spawn, timeout};
use std::time::Duration;

#[test]
fn all_waiters_get_the_result_in_order() {
    let event_loop = new_loop();
    let log = Log::new();
    let future: Future<i32> = event_loop.create_future();
    for name in ["a", "b"] {
        let (future, log) = (future.clone(), log.clone());
        event_loop.spawn(async move { log.add(format!("{name}: {}", future.await.unwrap())) }).unwrap();
    }
    run_one_iteration(&event_loop);
    let callback = log.clone();
    future.add_done_callback(move |future| callback.add(format!("c: {:?}", future.result().unwrap().ok())));
    assert!(!future.done() && future.result().is_none());
    future.set_result(7).unwrap();
    log.assert([]);
    run_one_iteration(&event_loop);
    log.assert(["a: 7".to_owned(), "b: 7".to_owned(), "c: Some(7)".to_owned()]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_callback_added_to_a_done_future_runs_in_the_next_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    let future = event_loop.create_future();
    future.set_result(()).unwrap();
    let called = log.clone();
    future.add_done_callback(move |_| called.add("called"));
    log.assert([]);
    run_one_iteration(&event_loop);
    log.assert(["called"]);
}

#[test]
fn a_result_can_be_set_only_once() {
    let event_loop = new_loop();
    let future = event_loop.create_future();
    future.set_result(1).unwrap();
    assert!(matches!(future.set_result(2), Err(Error::AlreadyDone)));
    assert!(matches!(future.set_error("no"), Err(Error::AlreadyDone)));
    assert!(!future.cancel());
    assert_eq!(run_on(&event_loop, future).unwrap(), 1);
}

#[test]
fn a_future_can_fail_or_be_cancelled() {
    let event_loop = new_loop();
    let failed: Future<()> = event_loop.create_future();
    failed.set_error("reason").unwrap();
    assert_eq!(failed.with_result(|result| result.unwrap_err().to_string()).unwrap(), "reason");
    assert!(matches!(run_on(&event_loop, failed), Err(FutureError::Failed(_))));
    let cancelled: Future<()> = event_loop.create_future();
    assert!(cancelled.cancel());
    assert!(cancelled.cancelled() && cancelled.done());
    assert!(run_on(&event_loop, cancelled).unwrap_err().is_cancelled());
}

#[test]
fn a_waiter_that_stopped_waiting_is_not_woken() {
    let event_loop = new_loop();
    let future: Future<()> = event_loop.create_future();
    let waited = future.clone();
    run_on(&event_loop, async {
        for _ in 0..3 {
            timeout(Duration::ZERO, waited.clone()).await.unwrap_err();
        }
        let task = spawn(waited.clone());
        mainspring::sleep(Duration::ZERO).await;
        task.cancel();
        assert!(task.await.unwrap_err().is_cancelled());
    });
    future.set_result(()).unwrap();
    assert_eq!(event_loop.metrics().ready, 0);
}

#[test]
fn a_done_callback_may_add_another() {
    let event_loop = new_loop();
    let log = Log::new();
    let future: Future<()> = event_loop.create_future();
    let outer = log.clone();
    future.add_done_callback(move |future| {
        outer.add("outer");
        let inner = outer.clone();
        future.add_done_callback(move |_| inner.add("inner"));
    });
    future.cancel();
    run_one_iteration(&event_loop);
    log.assert(["outer"]);
    run_one_iteration(&event_loop);
    log.assert(["outer", "inner"]);
}
