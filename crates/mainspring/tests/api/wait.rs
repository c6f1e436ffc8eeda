//! `wait`, `try_wait`, `wait_for`.

use crate::support::{
    assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration, virtual_loop,
};
use mainspring::{ReturnWhen, Task, sleep, spawn, try_wait, wait, wait_for, yield_now};
use proptest::prelude::*;
use std::future::pending;
use std::time::Duration;

fn names<T>(tasks: &[Task<T>]) -> Vec<String> {
    tasks.iter().map(Task::name).collect()
}

/// A task that ends after `count` steps.
fn steps(count: usize) -> Task<usize> {
    spawn(async move {
        for _ in 0..count {
            yield_now().await;
        }
        count
    })
}

#[test]
fn first_completed_returns_when_one_task_is_done() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let (done, pending) = wait([5, 0, 9].map(steps), ReturnWhen::FirstCompleted, None).await;
        assert_eq!(
            (names(&done), names(&pending)),
            (vec!["Task-2".into()], vec!["Task-1".into(), "Task-3".into()])
        );
        // Pending and done tasks can both be passed to another wait.
        let (done, pending) = wait(pending.into_iter().chain(done), ReturnWhen::FirstCompleted, None).await;
        assert_eq!((done.len(), pending.len()), (1, 2));
        let (done, pending) = wait(pending.into_iter().chain(done), ReturnWhen::AllCompleted, None).await;
        assert_eq!(pending.len(), 0);
        let mut results = Vec::new();
        for task in done {
            results.push(task.await.unwrap());
        }
        assert_eq!(results, [5, 9, 0]);
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn first_completed_returns_all_tasks_done_by_then() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let tasks = [2, 2, 2].map(steps);
        let (done, pending) = wait(tasks, ReturnWhen::FirstCompleted, None).await;
        assert_eq!((done.len(), pending.len()), (3, 0));
    });
}

#[test]
fn for_first_exception_a_panic_counts_and_a_cancellation_does_not() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let cancelled = spawn(pending());
        cancelled.cancel();
        let panics = spawn(async {
            yield_now().await;
            yield_now().await;
            panic!("seen")
        });
        let tasks = [spawn(async {}), cancelled, panics, spawn(pending())];
        let (done, pending) = wait(tasks, ReturnWhen::FirstException, None).await;
        assert_eq!((done.len(), pending.len()), (3, 1));
        for task in done {
            let _ = task.await;
        }
        pending[0].cancel();
    });
    reports.assert([]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn an_err_result_is_an_exception_only_for_try_wait() {
    let event_loop = new_loop();
    let tasks = || [spawn(async { Err("no") }), steps_ok(9)];
    fn steps_ok(count: usize) -> Task<Result<usize, &'static str>> {
        spawn(async move {
            for _ in 0..count {
                yield_now().await;
            }
            Ok(count)
        })
    }
    run_on(&event_loop, async {
        let (done, pending) = try_wait(tasks(), ReturnWhen::FirstException, None).await;
        assert_eq!((done.len(), pending.len()), (1, 1));
        let (done, pending) = wait(tasks(), ReturnWhen::FirstException, None).await;
        assert_eq!((done.len(), pending.len()), (2, 0));
        let (done, _) = try_wait(tasks(), ReturnWhen::FirstCompleted, None).await;
        assert_eq!(done.len(), 1);
    });
}

#[test]
fn without_an_exception_first_exception_waits_for_all() {
    let event_loop = new_loop();
    let (done, pending) =
        run_on(&event_loop, async { wait([3, 1].map(steps), ReturnWhen::FirstException, None).await });
    assert_eq!((done.len(), pending.len()), (2, 0));
}

#[test]
fn a_timeout_ends_the_wait_and_cancels_no_task() {
    let (event_loop, _clock) = virtual_loop();
    run_on(&event_loop, async {
        let tasks = [1, 10].map(|seconds| {
            spawn(async move {
                sleep(Duration::from_secs(seconds)).await;
                seconds
            })
        });
        let limit = Some(Duration::from_secs(5));
        let (done, pending) = wait(tasks, ReturnWhen::AllCompleted, limit).await;
        assert_eq!((done.len(), pending.len()), (1, 1));
        for task in pending {
            assert_eq!(task.await, Ok(10));
        }
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn waiting_for_no_tasks_returns_at_once() {
    let event_loop = new_loop();
    let (done, pending) = run_on(&event_loop, wait(Vec::<Task<()>>::new(), ReturnWhen::FirstCompleted, None));
    assert_eq!((done.len(), pending.len()), (0, 0));
}

#[test]
fn cancelling_a_wait_does_not_cancel_its_tasks() {
    let event_loop = new_loop();
    let tasks = [spawn_on(&event_loop), spawn_on(&event_loop)];
    fn spawn_on(event_loop: &mainspring::EventLoop) -> Task<()> {
        event_loop.spawn(pending::<()>()).unwrap()
    }
    let handles = tasks.each_ref().map(Task::handle);
    let waiting = event_loop.spawn(wait(tasks, ReturnWhen::AllCompleted, None)).unwrap();
    run_one_iteration(&event_loop);
    waiting.cancel();
    run_one_iteration(&event_loop);
    assert!(waiting.is_finished());
    assert!(handles.iter().all(|task| !task.is_finished()));
    handles.iter().for_each(|task| assert!(task.cancel()));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_task_whose_result_was_taken_counts_as_done() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut taken = steps(0);
        (&mut taken).await.unwrap();
        let (done, pending) = wait([taken, steps(50)], ReturnWhen::FirstCompleted, None).await;
        assert_eq!((done.len(), pending.len()), (1, 1));
    });
}

#[test]
fn wait_for_has_an_optional_timeout() {
    let (event_loop, _clock) = virtual_loop();
    let seconds = Duration::from_secs;
    run_on(&event_loop, async {
        assert_eq!(wait_for(sleep(seconds(10)), Some(seconds(5))).await, Err(mainspring::Elapsed));
        assert_eq!(wait_for(sleep(seconds(10)), Some(seconds(15))).await, Ok(()));
        assert_eq!(wait_for(sleep(seconds(30)), None).await, Ok(()));
    });
    assert_eq!(event_loop.time().as_nanos(), 45_000_000_000);
    assert_leaves_nothing(&event_loop);
}

/// How a task ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Ok,
    Err,
    Panic,
    Cancelled,
    Never,
}

proptest! {
    /// Checks the rule of `return_when` after every iteration.
    #[test]
    fn a_wait_ends_when_its_condition_holds(
        ends in prop::collection::vec(
            (
                0..6usize,
                prop_oneof![Just(End::Ok), Just(End::Err), Just(End::Panic), Just(End::Cancelled), Just(End::Never)],
            ),
            0..8,
        ),
        return_when in prop_oneof![
            Just(ReturnWhen::FirstCompleted),
            Just(ReturnWhen::FirstException),
            Just(ReturnWhen::AllCompleted),
        ],
    ) {
        let event_loop = new_loop();
        event_loop.set_exception_handler(|_| ());
        let task = |&(after, end): &(usize, End)| {
            event_loop
                .spawn(async move {
                    for _ in 0..after {
                        yield_now().await;
                    }
                    match end {
                        End::Ok => Ok(()),
                        End::Err => Err(()),
                        End::Panic => std::panic::resume_unwind(Box::new("panic")),
                        End::Cancelled => {
                            mainspring::current_task().unwrap().cancel();
                            pending().await
                        }
                        End::Never => pending().await,
                    }
                })
                .unwrap()
        };
        let tasks: Vec<_> = ends.iter().map(task).collect();
        let handles: Vec<_> = tasks.iter().map(Task::handle).collect();
        let waiting = event_loop.spawn(try_wait(tasks, return_when, None)).unwrap();
        let mut should_have_ended = false;
        for iteration in 0..9 {
            run_one_iteration(&event_loop);
            let is_done = |&&(after, end): &&(usize, End)| iteration >= after && !matches!(end, End::Never);
            let done: Vec<_> = ends.iter().filter(is_done).collect();
            prop_assert_eq!(handles.iter().filter(|task| task.is_finished()).count(), done.len());
            let should_end = done.len() == ends.len() || match return_when {
                ReturnWhen::FirstCompleted => !done.is_empty(),
                ReturnWhen::FirstException => done.iter().any(|(_, end)| matches!(end, End::Err | End::Panic)),
                ReturnWhen::AllCompleted => false,
            };
            // The wait ends in the next iteration at the latest, or in this one if it runs after the tasks.
            prop_assert!(waiting.is_finished() || !should_have_ended);
            prop_assert!(should_end || !waiting.is_finished());
            should_have_ended = should_end;
        }
    }
}
