//! `JoinSet`: tasks can be added while results are taken.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::{EventLoop, JoinSet, TaskHandle, sleep, spawn, timeout, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Counts its live instances.
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Counted(Rc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[test]
fn join_next_returns_results_in_completion_order() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        for steps in [3, 1, 2] {
            tasks.spawn(async move {
                for _ in 0..steps {
                    yield_now().await;
                }
                steps
            });
        }
        assert_eq!(tasks.len(), 3);
        let mut order = Vec::new();
        while let Some(result) = tasks.join_next().await {
            order.push(result.unwrap());
        }
        assert_eq!(order, [1, 2, 3]);
        assert!(tasks.is_empty());
    });
}

#[test]
fn tasks_may_be_added_between_calls_of_join_next() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let sum = Rc::new(Cell::new(0));
        tasks.spawn(async { 4 });
        // A result n spawns n more tasks, which reuse the slots of finished ones.
        while let Some(result) = tasks.join_next().await {
            let left: i32 = result.unwrap();
            sum.set(sum.get() + 1);
            for next in 0..left {
                tasks.spawn(async move {
                    yield_now().await;
                    next
                });
            }
        }
        assert_eq!(sum.get(), 16, "two to the fourth");
    });
}

#[test]
fn a_failed_task_does_not_affect_the_others() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let panics = tasks.spawn(async { panic!("failed") });
        panics.set_name("worker");
        tasks.spawn(pending()).cancel();
        tasks.spawn(async { 42 });
        let mut texts = Vec::new();
        while let Some(result) = tasks.join_next().await {
            texts.push(result.map_or_else(|error| error.to_string(), |number| number.to_string()));
        }
        texts.sort();
        assert_eq!(texts, ["42", "Task-2 was cancelled", "worker panicked: failed"]);
    });
    reports.assert([]);
}

#[test]
fn cancelling_join_next_loses_no_result() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { 1 });
        // Poll once and cancel before the task has run.
        let mut joining = Box::pin(tasks.join_next());
        poll_fn(|cx| {
            assert!(joining.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(joining);
        yield_now().await;
        assert_eq!(tasks.len(), 1);
        assert_eq!(tasks.join_next().await, Some(Ok(1)));
    });
}

#[test]
fn dropping_a_set_cancels_its_tasks() {
    let event_loop = new_loop();
    let alive = Rc::new(Cell::new(0));
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let counted = Counted::new(&alive);
            tasks.spawn(async move {
                let _counted = counted;
                pending::<()>().await;
            });
        }
        yield_now().await;
        drop(tasks);
        assert_eq!(alive.get(), 3, "drop does not wait");
        yield_now().await;
        assert_eq!(alive.get(), 0);
    });
}

#[test]
fn detached_tasks_run_on_and_are_not_joined() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let log = Log::new();
        let mut tasks = JoinSet::new();
        let inside = log.clone();
        tasks.spawn(async move {
            yield_now().await;
            inside.add("detached");
        });
        tasks.detach_all();
        assert!(tasks.is_empty() && tasks.join_next().await.is_none());
        // This task reuses the slot of the detached one, whose completion must not be taken for its own.
        tasks.spawn(async {
            for _ in 0..5 {
                yield_now().await;
            }
        });
        assert_eq!(tasks.join_next().await, Some(Ok(())));
        log.assert(["detached"]);
    });
}

#[test]
fn shutdown_waits_until_all_futures_are_dropped_and_reports_panics() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in the way");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let alive = Rc::new(Cell::new(0));
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let counted = Counted::new(&alive);
        tasks.spawn(async move {
            let _counted = counted;
            pending::<()>().await;
        });
        tasks.spawn(async {
            let _bomb = Bomb;
            pending::<()>().await;
        });
        yield_now().await;
        tasks.shutdown().await;
        assert_eq!((alive.get(), tasks.len()), (0, 0));
        tasks.spawn(async {});
        assert_eq!(tasks.join_next().await, Some(Ok(())), "the set can be used again");
    });
    reports.assert(["Task-2 panicked and was never awaited: panic: in the way".to_owned()]);
}

#[test]
fn a_task_may_spawn_on_its_own_set() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let tasks = Rc::new(RefCell::new(JoinSet::new()));
        let inside = Rc::clone(&tasks);
        tasks.borrow_mut().spawn(async move {
            inside.borrow_mut().spawn(async {});
        });
        let next = || poll_fn(|cx| tasks.borrow_mut().poll_join_next(cx));
        assert_eq!(next().await, Some(Ok(())));
        assert_eq!(next().await, Some(Ok(())));
        assert_eq!(next().await, None);
    });
}

#[test]
fn closing_the_loop_cancels_the_tasks_of_a_set() {
    let event_loop = new_loop();
    let (mut tasks, handle): (JoinSet<()>, TaskHandle) = run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let handle = tasks.spawn(pending());
        (tasks, handle)
    });
    event_loop.close().unwrap();
    assert!(handle.cancelled());
    assert!(tasks.try_join_next().unwrap().unwrap_err().is_cancelled());
    assert!(tasks.is_empty());
}

#[test]
fn a_panicking_task_factory_leaves_the_set_unchanged() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::<()>::new();
        let event_loop = EventLoop::current();
        event_loop.set_task_factory(|_, _| panic!("no more tasks"));
        let spawned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| tasks.spawn(async {})));
        assert!(spawned.is_err());
        event_loop.set_task_factory(|_, future| future);
        assert!(tasks.is_empty() && tasks.join_next().await.is_none());
        tasks.spawn(async {});
        assert_eq!(tasks.join_next().await, Some(Ok(())));
    });
}

#[test]
fn join_next_is_woken_by_the_first_task_to_finish() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let gate = EventLoop::current().create_future::<()>();
        for number in 0..100 {
            let gate = gate.clone();
            tasks.spawn(async move {
                if number == 70 {
                    gate.await.unwrap()
                } else {
                    pending().await
                }
                number
            });
        }
        spawn(async move {
            yield_now().await;
            gate.set_result(()).unwrap();
        });
        let first = timeout(Duration::from_secs(60), tasks.join_next()).await;
        assert_eq!(first, Ok(Some(Ok(70))));
        assert_eq!(tasks.len(), 99);
    });
}

#[test]
fn a_set_that_ran_many_tasks_leaves_nothing() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        for _ in 0..1000 {
            tasks.spawn(sleep(Duration::ZERO));
            if tasks.len() > 10 {
                tasks.join_next().await;
            }
        }
        while tasks.join_next().await.is_some() {}
    });
    run_one_iteration(&event_loop);
    assert_leaves_nothing(&event_loop);
}
