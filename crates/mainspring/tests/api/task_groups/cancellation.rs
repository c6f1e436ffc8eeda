//! `TaskGroup`: cancelling children, dropping a scope, closing the loop, refusing late children.

use super::{Failure, LogOnDrop, pending_child};
use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::{JoinError, TaskGroup, current_task, timeout, yield_now};
use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn cancelling_a_child_is_not_a_failure() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let result = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let child = group.spawn(pending_child::<()>(&inside, "one"));
            yield_now().await;
            child.cancel();
            let error: JoinError = child.await.unwrap_err();
            assert!(error.is_cancelled());
            group.spawn(pending_child::<()>(&inside, "two"));
            group.spawn(pending_child::<()>(&inside, "three"));
            assert_eq!(group.len(), 2);
            group.cancel_children();
            Ok("done")
        })
        .await
    });
    assert_eq!(result.unwrap(), "done");
    log.assert(["one", "two", "three"]);
}

#[test]
fn a_group_that_is_ending_or_has_ended_refuses_and_drops_new_children() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    struct SpawnsWhenDropped(TaskGroup<Failure>, Log<&'static str>);
    impl Drop for SpawnsWhenDropped {
        fn drop(&mut self) {
            let refused = self.0.spawn(pending_child::<()>(&self.1, "refused"));
            assert!(refused.is_finished());
        }
    }
    let kept = Rc::new(RefCell::new(None));
    let found = Rc::clone(&kept);
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            *found.borrow_mut() = Some(group.clone());
            let child = SpawnsWhenDropped(group.clone(), inside.clone());
            group.spawn::<(), _>(async move {
                let _child = child;
                pending().await
            });
            let _body = SpawnsWhenDropped(group.clone(), inside.clone());
            yield_now().await;
            Err::<(), _>("the end")
        })
        .await
    });
    assert_eq!(error.unwrap_err().errors().len(), 1);
    // The body spawned its child while the group was open; it was cancelled with the others.
    assert_eq!(log.entries().len(), 2);
    let late = kept.take().unwrap().spawn(pending_child::<()>(&log, "refused"));
    assert_eq!(log.entries().len(), 3);
    assert!(run_on(&event_loop, late).unwrap_err().is_refused());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_group_that_outlives_its_loop_refuses_children() {
    let event_loop = new_loop();
    let group = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move { Ok::<_, Failure>(group) }).await.unwrap()
    });
    event_loop.close().unwrap();
    let refused = group.spawn_ok(async {});
    assert!(refused.is_finished() && refused.name() != "Task-0");
    drop(event_loop);
    assert!(group.spawn_ok(async {}).is_finished());
}

#[test]
fn dropping_a_scope_cancels_its_children_in_the_next_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let scope = TaskGroup::scope(|group| async move {
        group.spawn(pending_child::<()>(&inside, "child"));
        let _guard = LogOnDrop(inside.clone(), "body");
        pending::<Result<(), Failure>>().await
    });
    run_on(&event_loop, async {
        assert!(timeout(Duration::ZERO, scope).await.is_err());
        log.assert(["body"]);
        yield_now().await;
        log.assert(["body", "child"]);
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn cancelling_the_awaiting_task_cancels_children_of_nested_groups() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let outer = event_loop
        .spawn(async move {
            TaskGroup::scope(|outer| async move {
                let log = inside.clone();
                outer.spawn(async move {
                    TaskGroup::scope(|inner| async move {
                        inner.spawn(pending_child::<()>(&log, "inner"));
                        Ok::<_, Failure>(())
                    })
                    .await
                    .map_err(|_| "inner group")
                });
                outer.spawn(pending_child::<()>(&inside, "outer"));
                Ok::<_, Failure>(())
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    for _ in 0..3 {
        run_one_iteration(&event_loop);
    }
    outer.cancel();
    for _ in 0..3 {
        run_one_iteration(&event_loop);
    }
    log.assert(["outer", "inner"]);
    assert!(outer.cancelled());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn panics_of_children_of_a_dropped_scope_are_reported() {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{}", self.0);
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let task = event_loop
        .spawn(async {
            TaskGroup::scope(|group| async move {
                group.spawn::<(), _>(async { panic!("before") });
                let bomb = Bomb("after");
                group.spawn::<(), _>(async move {
                    let _bomb = bomb;
                    pending().await
                });
                // This child runs before the woken scope and cancels it.
                let own = current_task().unwrap();
                group.spawn_ok(async move { own.cancel() });
                pending::<Result<(), Failure>>().await
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    for _ in 0..4 {
        run_one_iteration(&event_loop);
    }
    assert!(task.cancelled());
    let text = "A task of a group that was dropped panicked: panic: ";
    reports.assert([format!("{text}before"), format!("{text}after")]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_panic_during_cancellation_is_added_to_the_failures() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("destructor");
        }
    }
    let event_loop = new_loop();
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let bomb = Bomb;
            group.spawn::<(), _>(async move {
                let _bomb = bomb;
                pending().await
            });
            yield_now().await;
            Err::<(), _>("first")
        })
        .await
    });
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "2 failures: the body failed: first; Task-1 panicked: destructor");
}

#[test]
fn closing_the_loop_drops_the_body_and_the_children() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let task = event_loop
        .spawn(async move {
            TaskGroup::scope(|group| async move {
                group.spawn(pending_child::<()>(&inside, "child"));
                let _guard = LogOnDrop(inside.clone(), "body");
                pending::<Result<(), Failure>>().await
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    event_loop.close().unwrap();
    assert!(task.cancelled());
    let mut ended = log.entries();
    ended.sort_unstable();
    assert_eq!(ended, ["body", "child"]);
    assert_eq!(event_loop.metrics().tasks, 0);
}
