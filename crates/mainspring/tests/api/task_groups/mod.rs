//! `TaskGroup`: results, failures, nested children; helpers for the submodules.

mod cancellation;
mod model;

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_iteration};
use mainspring::{ChildError, GroupError, Task, TaskGroup, spawn, yield_now};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{pending, ready};
use std::rc::Rc;

type Failure = &'static str;

/// Adds to a log when it is dropped.
struct LogOnDrop(Log<&'static str>, &'static str);

impl Drop for LogOnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A child that never completes and logs when it is dropped.
fn pending_child<T>(
    log: &Log<&'static str>,
    name: &'static str,
) -> impl Future<Output = Result<T, Failure>> + use<T> {
    let guard = LogOnDrop(log.clone(), name);
    async move {
        let _guard = guard;
        pending().await
    }
}

#[test]
fn a_scope_returns_the_bodys_result_after_all_children_have_ended() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let result = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let log = inside.clone();
            group.spawn_ok(async move {
                for _ in 0..3 {
                    yield_now().await;
                }
                log.add("child");
            });
            inside.add("body");
            Ok::<_, Infallible>("result")
        })
        .await
    });
    log.add("scope");
    assert_eq!(result.unwrap(), "result");
    log.assert(["body", "child", "scope"]);
}

#[test]
fn the_first_failure_cancels_the_other_children_and_the_body() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            group.spawn(pending_child::<()>(&inside, "child"));
            group.spawn(async {
                yield_now().await;
                Err::<(), _>("error")
            });
            let _guard = LogOnDrop(inside.clone(), "body");
            pending::<Result<(), _>>().await
        })
        .await
    });
    let error: GroupError<Failure> = error.unwrap_err();
    assert_eq!(error.to_string(), "Task-2 failed: error");
    assert_eq!(error.errors()[0].error(), Some(&"error"));
    log.assert(["body", "child"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn failures_of_one_iteration_are_reported_together() {
    let event_loop = new_loop();
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            group.spawn(async { Err::<(), _>("a") });
            group.spawn::<(), _>(async { panic!("b") });
            group.spawn(ready(Err::<(), _>("c")));
            Ok(())
        })
        .await
    });
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "3 failures: Task-1 failed: a; Task-2 panicked: b; Task-3 failed: c");
    let panics: Vec<_> = error.into_iter().filter(|error| matches!(error, ChildError::Panicked(_))).collect();
    assert_eq!(panics.len(), 1);
}

#[test]
fn a_failing_or_panicking_body_cancels_the_children() {
    let event_loop = new_loop();
    for panics in [false, true] {
        let log = Log::new();
        let inside = log.clone();
        let error = run_on(&event_loop, async {
            TaskGroup::scope(|group| async move {
                group.spawn(pending_child::<()>(&inside, "child"));
                yield_now().await;
                assert!(!panics, "reason");
                Err::<(), _>("reason")
            })
            .await
        });
        let text = error.unwrap_err().to_string();
        assert_eq!(text, format!("the body {}: reason", if panics { "panicked" } else { "failed" }));
        log.assert(["child"]);
    }
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_body_closure_that_panics_is_a_failure() {
    fn body(_: TaskGroup<Failure>) -> std::future::Ready<Result<(), Failure>> {
        panic!("in the closure")
    }
    let event_loop = new_loop();
    let error = run_on(&event_loop, async { TaskGroup::scope(body).await }).unwrap_err();
    assert_eq!(error.to_string(), "the body panicked: in the closure");
}

#[test]
fn children_may_spawn_children() {
    fn spawn_tree(group: TaskGroup<Failure>, depth: usize, count: Rc<Cell<usize>>) {
        if depth > 0 {
            for _ in 0..2 {
                let (inner, count) = (group.clone(), Rc::clone(&count));
                group.spawn(async move {
                    count.set(count.get() + 1);
                    yield_now().await;
                    spawn_tree(inner, depth - 1, count);
                    Ok(())
                });
            }
        }
    }
    let event_loop = new_loop();
    let count = Rc::new(Cell::new(0));
    let inside = Rc::clone(&count);
    let result = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            spawn_tree(group, 5, inside);
            Ok(())
        })
        .await
    });
    result.unwrap();
    assert_eq!(count.get(), 2 + 4 + 8 + 16 + 32);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_childs_result_can_be_awaited_inside_and_after_the_scope() {
    let event_loop = new_loop();
    let (inside, after) = run_on(&event_loop, async {
        let after = TaskGroup::scope(|group| async move {
            let one = group.spawn(async { Ok::<_, Failure>(1) });
            let two = group.spawn_ok(async { 2 });
            Ok((one.await.unwrap(), two))
        });
        let (inside, task) = after.await.unwrap();
        (inside, task.await.unwrap())
    });
    assert_eq!((inside, after), (1, 2));
}

#[test]
fn awaiting_a_failed_child_returns_cancelled() {
    let event_loop = new_loop();
    let seen = Rc::new(RefCell::new(None));
    let found = Rc::clone(&seen);
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let failing: Task<()> = group.spawn(async { Err("error") });
            // Not a child, so it is not cancelled.
            spawn(async move { *found.borrow_mut() = Some(failing.await) });
            Ok(())
        })
        .await
    });
    assert_eq!(error.unwrap_err().errors().len(), 1);
    run_one_iteration(&event_loop);
    assert!(seen.take().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn a_group_error_converts_to_a_boxed_error_with_its_source() {
    let event_loop = new_loop();
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            group.spawn(async { "x".parse::<i32>() });
            Ok(())
        })
        .await
    });
    let error: Box<dyn std::error::Error + Send + Sync> = error.unwrap_err().into();
    assert_eq!(error.source().unwrap().to_string(), "invalid digit found in string");
}
