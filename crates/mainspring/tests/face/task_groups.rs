//! Task groups: they end together, whatever ends them.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_pass};
use mainspring::{
    ChildError, GroupError, JoinError, Task, TaskGroup, current_task, spawn, timeout, yield_now,
};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{pending, ready};
use std::rc::Rc;
use std::time::Duration;

type Failure = &'static str;

/// Adds to a log when it is dropped.
struct Noted(Log<&'static str>, &'static str);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A child that waits for ever, and whose end is noted.
fn waiting<T>(
    log: &Log<&'static str>,
    name: &'static str,
) -> impl Future<Output = Result<T, Failure>> + use<T> {
    let noted = Noted(log.clone(), name);
    async move {
        let _noted = noted;
        pending().await
    }
}

#[test]
fn a_scope_gives_what_its_body_gives_when_all_children_have_ended() {
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
fn the_first_failure_cancels_the_others_and_the_body() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            group.spawn(waiting::<()>(&inside, "child"));
            group.spawn(async {
                yield_now().await;
                Err::<(), _>("no bread")
            });
            let _noted = Noted(inside.clone(), "body");
            pending::<Result<(), _>>().await
        })
        .await
    });
    let error: GroupError<Failure> = error.unwrap_err();
    assert_eq!(error.to_string(), "Task-2 failed: no bread");
    assert_eq!(error.errors()[0].error(), Some(&"no bread"));
    log.assert(["body", "child"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn what_fails_in_one_pass_fails_together() {
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
fn a_body_that_fails_or_panics_ends_its_children() {
    let event_loop = new_loop();
    for panics in [false, true] {
        let log = Log::new();
        let inside = log.clone();
        let error = run_on(&event_loop, async {
            TaskGroup::scope(|group| async move {
                group.spawn(waiting::<()>(&inside, "child"));
                yield_now().await;
                assert!(!panics, "the body is wrong");
                Err::<(), _>("the body is wrong")
            })
            .await
        });
        let text = error.unwrap_err().to_string();
        assert_eq!(
            text,
            format!("the body {}: the body is wrong", if panics { "panicked" } else { "failed" })
        );
        log.assert(["child"]);
    }
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_body_that_panics_before_its_first_step_is_a_failure_too() {
    fn body(_: TaskGroup<Failure>) -> std::future::Ready<Result<(), Failure>> {
        panic!("no body at all")
    }
    let event_loop = new_loop();
    let error = run_on(&event_loop, async { TaskGroup::scope(body).await }).unwrap_err();
    assert_eq!(error.to_string(), "the body panicked: no body at all");
}

#[test]
fn children_add_children_while_the_group_runs() {
    fn family(group: TaskGroup<Failure>, generations: usize, count: Rc<Cell<usize>>) {
        if generations > 0 {
            for _ in 0..2 {
                let (more, count) = (group.clone(), Rc::clone(&count));
                group.spawn(async move {
                    count.set(count.get() + 1);
                    yield_now().await;
                    family(more, generations - 1, count);
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
            family(group, 5, inside);
            Ok(())
        })
        .await
    });
    result.unwrap();
    assert_eq!(count.get(), 2 + 4 + 8 + 16 + 32);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn the_value_of_a_child_can_be_had_in_the_scope_and_after() {
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
fn whoever_awaits_a_child_that_failed_is_told_that_it_was_cancelled() {
    let event_loop = new_loop();
    let seen = Rc::new(RefCell::new(None));
    let found = Rc::clone(&seen);
    let error = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let failing: Task<()> = group.spawn(async { Err("no bread") });
            // Not a child, so it lives on.
            spawn(async move { *found.borrow_mut() = Some(failing.await) });
            Ok(())
        })
        .await
    });
    assert_eq!(error.unwrap_err().errors().len(), 1);
    run_one_pass(&event_loop);
    assert!(seen.take().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn to_cancel_a_child_is_no_failure() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let result = run_on(&event_loop, async {
        TaskGroup::scope(|group| async move {
            let child = group.spawn(waiting::<()>(&inside, "one"));
            yield_now().await;
            child.cancel();
            let error: JoinError = child.await.unwrap_err();
            assert!(error.is_cancelled());
            group.spawn(waiting::<()>(&inside, "two"));
            group.spawn(waiting::<()>(&inside, "three"));
            assert_eq!(group.len(), 2);
            group.cancel_children();
            Ok("fine")
        })
        .await
    });
    assert_eq!(result.unwrap(), "fine");
    log.assert(["one", "two", "three"]);
}

#[test]
fn a_group_that_is_ending_or_over_refuses_and_drops_what_it_is_given() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    struct SpawnsWhenDropped(TaskGroup<Failure>, Log<&'static str>);
    impl Drop for SpawnsWhenDropped {
        fn drop(&mut self) {
            let refused = self.0.spawn(waiting::<()>(&self.1, "refused"));
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
    // The body's own came while the group was open, and was cancelled with the others.
    assert_eq!(log.entries().len(), 2);
    let over = kept.take().unwrap().spawn(waiting::<()>(&log, "refused"));
    assert_eq!(log.entries().len(), 3);
    assert!(run_on(&event_loop, over).unwrap_err().is_refused());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_group_that_outlives_its_loop_refuses() {
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
fn dropping_a_scope_cancels_its_children_in_the_next_pass() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let scope = TaskGroup::scope(|group| async move {
        group.spawn(waiting::<()>(&inside, "child"));
        let _noted = Noted(inside.clone(), "body");
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
fn cancelling_the_task_that_waits_cancels_the_children_of_nested_groups() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let outer = event_loop
        .spawn(async move {
            TaskGroup::scope(|outer| async move {
                let log = inside.clone();
                outer.spawn(async move {
                    TaskGroup::scope(|inner| async move {
                        inner.spawn(waiting::<()>(&log, "inner"));
                        Ok::<_, Failure>(())
                    })
                    .await
                    .map_err(|_| "inner group")
                });
                outer.spawn(waiting::<()>(&inside, "outer"));
                Ok::<_, Failure>(())
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    for _ in 0..3 {
        run_one_pass(&event_loop);
    }
    outer.cancel();
    for _ in 0..3 {
        run_one_pass(&event_loop);
    }
    log.assert(["outer", "inner"]);
    assert!(outer.cancelled());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn panics_that_a_dropped_scope_can_tell_nobody_of_are_reported() {
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
                // The scope is woken behind whoever cancels it here.
                let own = current_task().unwrap();
                group.spawn_ok(async move { own.cancel() });
                pending::<Result<(), Failure>>().await
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    for _ in 0..4 {
        run_one_pass(&event_loop);
    }
    assert!(task.cancelled());
    let text = "A task of a group that was dropped panicked: panic: ";
    reports.assert([format!("{text}before"), format!("{text}after")]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_child_that_panics_when_it_is_cancelled_adds_to_the_failures() {
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
fn closing_the_loop_under_a_group_ends_everything() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let task = event_loop
        .spawn(async move {
            TaskGroup::scope(|group| async move {
                group.spawn(waiting::<()>(&inside, "child"));
                let _noted = Noted(inside.clone(), "body");
                pending::<Result<(), Failure>>().await
            })
            .await
            .map_err(drop)
        })
        .unwrap();
    run_one_pass(&event_loop);
    run_one_pass(&event_loop);
    event_loop.close().unwrap();
    assert!(task.cancelled());
    let mut ended = log.entries();
    ended.sort_unstable();
    assert_eq!(ended, ["body", "child"]);
    assert_eq!(event_loop.metrics().tasks, 0);
}

#[test]
fn the_errors_of_a_group_are_errors() {
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
