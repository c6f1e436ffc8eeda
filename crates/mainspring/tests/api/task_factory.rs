//! The task factory: when it is called, what it may do, and tasks whose future it drops.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::{TaskBuilder, TaskGroup, spawn, yield_now};
use std::cell::Cell;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

#[test]
fn the_factory_is_called_for_every_task_with_its_name_set() {
    let event_loop = new_loop();
    let log = Log::<String>::new();
    let seen = log.clone();
    event_loop.set_task_factory(move |task, future| {
        seen.add(task.name());
        future
    });
    let named = TaskBuilder::new().name("named").spawn_on(&event_loop, async { 1 }).unwrap();
    let result = run_on(&event_loop, async move {
        let plain = spawn(async { 2 });
        let in_group =
            TaskGroup::scope(|group| async move { Ok::<_, Infallible>(group.spawn_ok(async { 3 })) });
        let in_group = in_group.await.unwrap().await.unwrap();
        (named.await.unwrap(), plain.await.unwrap(), in_group)
    });
    assert_eq!(result, (1, 2, 3));
    log.assert(["named", "Task-2", "Task-3"].map(str::to_owned));
    event_loop.reset_task_factory();
    run_on(&event_loop, async { spawn(async {}).await.unwrap() });
    assert_eq!(log.entries().len(), 3);
}

#[test]
fn the_factory_may_wrap_the_future() {
    let event_loop = new_loop();
    let steps = Rc::new(Cell::new(0));
    let count = Rc::clone(&steps);
    event_loop.set_task_factory(move |_, mut future| {
        let count = Rc::clone(&count);
        Box::pin(std::future::poll_fn(move |cx| {
            count.set(count.get() + 1);
            future.as_mut().poll(cx)
        }))
    });
    let task = event_loop.spawn(async {
        yield_now().await;
        "result"
    });
    assert_eq!(run_on(&event_loop, task.unwrap()), Ok("result"));
    assert_eq!(steps.get(), 2);
}

#[test]
fn a_task_whose_future_the_factory_drops_is_cancelled() {
    let event_loop = new_loop();
    event_loop.set_task_factory(|_, future| {
        drop(future);
        Box::pin(async {})
    });
    let task = event_loop.spawn(async { unreachable!("never polled") }).unwrap();
    let error: mainspring::JoinError = run_on(&event_loop, task).unwrap_err();
    assert!(error.is_cancelled());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn the_factory_may_cancel_the_new_task() {
    let event_loop = new_loop();
    event_loop.set_task_factory(|task, future| {
        assert!(task.cancel());
        future
    });
    let task = event_loop.spawn(async { unreachable!("never polled") }).unwrap();
    let error: mainspring::JoinError = run_on(&event_loop, task).unwrap_err();
    assert!(error.is_cancelled());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn the_factory_may_spawn_and_replace_itself() {
    let event_loop = new_loop();
    let again = event_loop.clone();
    event_loop.set_task_factory(move |_, future| {
        again.reset_task_factory();
        drop(again.spawn(async {}));
        future
    });
    let task = event_loop.spawn(async { 1 }).unwrap();
    assert_eq!(run_on(&event_loop, task), Ok(1));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_factory_that_closes_the_loop_leaves_a_cancelled_task() {
    let event_loop = new_loop();
    let closing = event_loop.clone();
    event_loop.set_task_factory(move |_, future| {
        closing.close().unwrap();
        future
    });
    let task = event_loop.spawn(async {}).unwrap();
    assert!(task.cancelled());
    event_loop.reset_task_factory();
}

#[test]
fn a_panic_of_the_factory_propagates_from_spawn_and_leaves_nothing() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    event_loop.set_task_factory(|_, _| panic!("factory"));
    let spawned = catch_unwind(AssertUnwindSafe(|| event_loop.spawn(async {})));
    assert_eq!(spawned.unwrap_err().downcast_ref::<&str>(), Some(&"factory"));
    run_one_iteration(&event_loop);
    assert_leaves_nothing(&event_loop);
    // A group does not wait for a child that never started.
    let result = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let spawned = catch_unwind(AssertUnwindSafe(|| group.spawn_ok(async {})));
            assert!(spawned.is_err() && group.is_empty());
            Ok::<_, Infallible>("done")
        })
        .await
    });
    assert_eq!(result.unwrap(), "done");
    reports.assert([]);
}
