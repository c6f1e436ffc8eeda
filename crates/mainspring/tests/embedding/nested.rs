//! Nested runs.

use crate::Log;
use mainspring::context::ContextVar;
use mainspring::{Error, EventLoop, current_task, sleep, spawn, spawn_named, yield_now};
use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

static VARIABLE: ContextVar<&'static str> = ContextVar::new("variable");

fn new_loop() -> EventLoop {
    EventLoop::builder().nested(true).build().unwrap()
}

#[test]
fn a_nested_run_is_refused_unless_it_is_allowed() {
    let event_loop = EventLoop::new().unwrap();
    let refused = event_loop.run_until_complete(async { EventLoop::current().run_until_complete(async {}) });
    assert!(matches!(refused, Ok(Err(Error::AlreadyRunning))));
    event_loop.allow_nested(true);
    let ran = event_loop.run_until_complete(async { EventLoop::current().run_until_complete(async { 42 }) });
    assert!(matches!(ran, Ok(Ok(42))));
    assert!(!event_loop.is_running());
}

#[test]
fn each_call_runs_once_and_in_order() {
    let event_loop = new_loop();
    let log = Log::default();
    let outer = log.clone();
    event_loop
        .call_soon(move || {
            let event_loop = EventLoop::current();
            event_loop.call_soon(outer.noting("c")).unwrap();
            event_loop.run_until_complete(yield_now()).unwrap();
            outer.note("nested is over");
            event_loop.call_soon(outer.noting("d")).unwrap();
            event_loop.call_soon(|| EventLoop::current().stop()).unwrap();
        })
        .unwrap();
    event_loop.call_soon(log.noting("a")).unwrap();
    event_loop.call_soon(log.noting("b")).unwrap();
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["a", "b", "c", "nested is over", "d"]);
}

#[test]
fn tasks_nest_to_any_depth_and_other_tasks_go_on() {
    fn sum(depth: u32) -> u32 {
        let other = spawn(async move {
            sleep(Duration::from_millis(1)).await;
            depth
        });
        let inner = if depth == 0 { 0 } else { sum(depth - 1) };
        inner + EventLoop::current().run_until_complete(other).unwrap().unwrap()
    }
    let event_loop = new_loop();
    let sum = event_loop.run_until_complete(async { spawn(async { sum(10) }).await.unwrap() }).unwrap();
    assert_eq!(sum, 55);
}

#[test]
fn the_current_task_and_its_variables_are_those_of_the_caller_afterwards() {
    let event_loop = new_loop();
    let outer = event_loop.run_until_complete(async {
        let task = spawn_named("outer", async {
            VARIABLE.set("outer");
            let seen = EventLoop::current().run_until_complete(async {
                assert!(current_task().is_none());
                let seen = VARIABLE.get();
                VARIABLE.set("nested");
                seen
            });
            (seen.unwrap(), VARIABLE.get(), current_task().map(|task| task.name()))
        });
        task.await.unwrap()
    });
    assert_eq!(outer.unwrap(), (Some("outer"), Some("outer"), Some("outer".to_owned())));
    assert!(VARIABLE.get().is_none());
}

#[test]
fn stop_ends_the_innermost_run() {
    let event_loop = new_loop();
    let outcome = event_loop.run_until_complete(async {
        let event_loop = EventLoop::current();
        event_loop.call_soon(|| EventLoop::current().stop()).unwrap();
        let nested = event_loop.run_until_complete(pending::<()>());
        yield_now().await;
        matches!(nested, Err(Error::Stopped))
    });
    assert!(matches!(outcome, Ok(true)));
}

#[test]
fn the_end_of_an_outer_future_does_not_end_the_nested_run() {
    let event_loop = new_loop();
    let outer = event_loop.create_future::<&str>();
    let (sender, log) = (outer.clone(), Log::default());
    let nested_log = log.clone();
    event_loop
        .call_soon(move || {
            let nested = async {
                sender.set_result("outer").unwrap();
                for _ in 0..5 {
                    yield_now().await;
                }
                "nested"
            };
            nested_log.note(EventLoop::current().run_until_complete(nested).unwrap());
        })
        .unwrap();
    assert_eq!(event_loop.run_until_complete(outer).unwrap().unwrap(), "outer");
    assert_eq!(log.take(), ["nested"]);
}

#[test]
fn the_main_future_goes_on_during_a_nested_run_of_a_task() {
    let event_loop = new_loop();
    let progress = Rc::new(Cell::new(0));
    let seen = Rc::clone(&progress);
    event_loop
        .run_until_complete(async {
            let task = spawn(async move {
                let nested = async {
                    while seen.get() < 5 {
                        yield_now().await;
                    }
                };
                EventLoop::current().run_until_complete(nested).unwrap();
            });
            for _ in 0..5 {
                progress.set(progress.get() + 1);
                yield_now().await;
            }
            task.await.unwrap();
        })
        .unwrap();
}

#[test]
fn a_task_that_is_cancelled_in_its_nested_run_ends_after_it() {
    let event_loop = new_loop();
    let log = Log::default();
    let nested_log = log.clone();
    let cancelled = event_loop.run_until_complete(async {
        let task = spawn(async move {
            let task = current_task().unwrap();
            EventLoop::current().call_soon(move || assert!(task.cancel())).unwrap();
            EventLoop::current().run_until_complete(sleep(Duration::from_millis(1))).unwrap();
            nested_log.note("nested completed");
            yield_now().await;
            nested_log.note("not reached");
        });
        task.await
    });
    assert!(cancelled.unwrap().is_err_and(|error| error.is_cancelled()));
    assert_eq!(log.take(), ["nested completed"]);
}

#[test]
fn a_panic_of_a_nested_future_reaches_its_caller() {
    let event_loop = new_loop();
    let outcome = event_loop.run_until_complete(async {
        let nested = || EventLoop::current().run_until_complete(async { panic!("nested") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(nested));
        yield_now().await;
        caught.is_err()
    });
    assert!(matches!(outcome, Ok(true)));
    event_loop.run_until_complete(yield_now()).unwrap();
}

#[test]
fn a_loop_runs_inside_another_one() {
    let (outer, inner) = (EventLoop::builder().name("outer").build().unwrap(), new_loop());
    let name = || EventLoop::current().name().to_owned();
    let names = outer.run_until_complete(async {
        let nested = inner.run_until_complete(async {
            sleep(Duration::from_millis(1)).await;
            name()
        });
        yield_now().await;
        (nested.unwrap(), name())
    });
    assert_eq!(names.unwrap(), (String::new(), "outer".to_owned()));
    assert!(!inner.is_running() && !outer.is_running());
    assert!(EventLoop::try_current().is_none());
    inner.close().unwrap();
}

#[test]
fn run_until_idle_and_run_once_nest() {
    let event_loop = new_loop();
    event_loop
        .call_soon(|| {
            let event_loop = EventLoop::current();
            spawn(sleep(Duration::from_millis(1)));
            assert_eq!(event_loop.run_until_idle().unwrap(), 0);
            event_loop.call_soon(|| ()).unwrap();
            event_loop.run_once().unwrap();
            assert_eq!(event_loop.metrics().ready, 0);
            assert!(matches!(event_loop.close(), Err(Error::AlreadyRunning)));
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
}
