//! `JoinSet`: tasks that are added while the results of others are taken.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_pass};
use mainspring::{EventLoop, JoinSet, TaskHandle, sleep, spawn, timeout, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Counts how many of it are there.
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
fn results_come_in_the_order_in_which_tasks_are_done() {
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
fn a_task_that_is_added_while_somebody_waits_is_waited_for() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let sum = Rc::new(Cell::new(0));
        tasks.spawn(async { 4 });
        // Each result but the last asks for more, which take the places of those before.
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
fn a_task_that_fails_leaves_the_others_alone() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let panics = tasks.spawn(async { panic!("out of luck") });
        panics.set_name("gambler");
        tasks.spawn(pending()).cancel();
        tasks.spawn(async { 42 });
        let mut texts = Vec::new();
        while let Some(result) = tasks.join_next().await {
            texts.push(result.map_or_else(|error| error.to_string(), |number| number.to_string()));
        }
        texts.sort();
        assert_eq!(texts, ["42", "Task-2 was cancelled", "gambler panicked: out of luck"]);
    });
    reports.assert([]);
}

#[test]
fn a_wait_that_is_given_up_loses_no_result() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { 1 });
        // Polled once, and given up before the task has run; then again when it has.
        let mut once = Box::pin(tasks.join_next());
        poll_fn(|cx| {
            assert!(once.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(once);
        yield_now().await;
        assert_eq!(tasks.len(), 1);
        assert_eq!(tasks.join_next().await, Some(Ok(1)));
    });
}

#[test]
fn dropping_a_set_cancels_its_tasks() {
    let event_loop = new_loop();
    let there = Rc::new(Cell::new(0));
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let counted = Counted::new(&there);
            tasks.spawn(async move {
                let _counted = counted;
                pending::<()>().await;
            });
        }
        yield_now().await;
        drop(tasks);
        assert_eq!(there.get(), 3, "a drop cannot wait");
        yield_now().await;
        assert_eq!(there.get(), 0);
    });
}

#[test]
fn tasks_that_are_detached_run_on_and_are_forgotten() {
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
        // It takes the place of the one that is detached, whose end is not its own.
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
fn shutting_down_waits_until_the_futures_are_gone_and_tells_of_panics() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("in the way");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let there = Rc::new(Cell::new(0));
    run_on(&event_loop, async {
        let mut tasks = JoinSet::new();
        let counted = Counted::new(&there);
        tasks.spawn(async move {
            let _counted = counted;
            pending::<()>().await;
        });
        tasks.spawn(async {
            let _bad = Bad;
            pending::<()>().await;
        });
        yield_now().await;
        tasks.shutdown().await;
        assert_eq!((there.get(), tasks.len()), (0, 0));
        tasks.spawn(async {});
        assert_eq!(tasks.join_next().await, Some(Ok(())), "it can be used again");
    });
    reports.assert(["Task-2 panicked, and nobody asked for its result: panic: in the way".to_owned()]);
}

#[test]
fn a_task_may_add_to_its_own_set() {
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
fn a_loop_that_is_closed_ends_the_tasks_of_a_set() {
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
fn a_task_factory_that_panics_leaves_the_set_as_it_was() {
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
fn somebody_who_waits_for_a_set_is_woken_by_whoever_is_done_first() {
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
fn nothing_is_left_of_a_set_that_was_used_for_long() {
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
    run_one_pass(&event_loop);
    assert_leaves_nothing(&event_loop);
}
