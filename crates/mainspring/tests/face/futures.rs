//! Futures that somebody settles.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_pass};
use mainspring::{Error, Future, FutureError, spawn, timeout};
use std::time::Duration;

#[test]
fn everybody_who_waits_gets_the_result_in_the_order_they_came() {
    let event_loop = new_loop();
    let log = Log::new();
    let future: Future<i32> = event_loop.create_future();
    for name in ["a", "b"] {
        let (future, log) = (future.clone(), log.clone());
        event_loop.spawn(async move { log.add(format!("{name}: {}", future.await.unwrap())) }).unwrap();
    }
    run_one_pass(&event_loop);
    let callback = log.clone();
    future.add_done_callback(move |future| callback.add(format!("c: {:?}", future.result().unwrap().ok())));
    assert!(!future.done() && future.result().is_none());
    future.set_result(7).unwrap();
    log.assert([]);
    run_one_pass(&event_loop);
    log.assert(["a: 7".to_owned(), "b: 7".to_owned(), "c: Some(7)".to_owned()]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_callback_on_a_done_future_is_called_soon_and_not_at_once() {
    let event_loop = new_loop();
    let log = Log::new();
    let future = event_loop.create_future();
    future.set_result(()).unwrap();
    let called = log.clone();
    future.add_done_callback(move |_| called.add("called"));
    log.assert([]);
    run_one_pass(&event_loop);
    log.assert(["called"]);
}

#[test]
fn a_future_is_settled_once() {
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
    failed.set_error("for a reason").unwrap();
    assert_eq!(failed.with_result(|result| result.unwrap_err().to_string()).unwrap(), "for a reason");
    assert!(matches!(run_on(&event_loop, failed), Err(FutureError::Failed(_))));
    let cancelled: Future<()> = event_loop.create_future();
    assert!(cancelled.cancel());
    assert!(cancelled.cancelled() && cancelled.done());
    assert!(run_on(&event_loop, cancelled).unwrap_err().is_cancelled());
}

#[test]
fn whoever_stops_waiting_is_not_woken() {
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
fn a_callback_may_add_another() {
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
    run_one_pass(&event_loop);
    log.assert(["outer"]);
    run_one_pass(&event_loop);
    log.assert(["outer", "inner"]);
}
