//! Tasks: results, cancellation, panics, wakers.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::{JoinError, Task, sleep, spawn};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Adds to a log when it is dropped.
struct LogOnDrop(Log<&'static str>, &'static str);

impl Drop for LogOnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// Spawns a task that never completes, and returns its waker.
fn spawn_pending(event_loop: &mainspring::EventLoop, guard: LogOnDrop) -> (Task<()>, Waker) {
    let waker = Rc::new(Cell::new(None));
    let found = Rc::clone(&waker);
    let task = event_loop
        .spawn(async move {
            let _guard = guard;
            poll_fn::<(), _>(|cx| {
                found.set(Some(cx.waker().clone()));
                Poll::Pending
            })
            .await;
        })
        .unwrap();
    run_one_iteration(event_loop);
    (task, waker.take().unwrap())
}

#[test]
fn ready_tasks_run_in_order() {
    let event_loop = new_loop();
    let log = Log::new();
    let tasks = ["a", "b"].map(|name| {
        let log = log.clone();
        event_loop
            .spawn(async move {
                for step in 0..3 {
                    log.add(format!("{name}{step}"));
                    sleep(Duration::ZERO).await;
                }
                name
            })
            .unwrap()
    });
    let results = run_on(&event_loop, async {
        let [a, b] = tasks;
        (a.await, b.await)
    });
    assert_eq!(results, (Ok("a"), Ok("b")));
    log.assert(["a0", "b0", "a1", "b1", "a2", "b2"].map(str::to_owned));
}

#[test]
fn a_task_runs_first_in_the_next_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        let task = spawn({
            let log = inside.clone();
            async move { log.add("task") }
        });
        inside.add("spawned");
        task.await.unwrap();
    });
    log.assert(["spawned", "task"]);
}

#[test]
fn a_cancelled_task_ends_at_its_await_in_the_next_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    let (task, _waker) = spawn_pending(&event_loop, LogOnDrop(log.clone(), "dropped"));
    assert!(task.cancel());
    assert!(!task.cancel(), "already being cancelled");
    assert!(!task.is_finished());
    log.assert([]);
    run_one_iteration(&event_loop);
    log.assert(["dropped"]);
    assert!(task.is_finished());
    let error = run_on(&event_loop, task).unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_done_task_cannot_be_cancelled() {
    let event_loop = new_loop();
    let task = event_loop.spawn(async { 1 }).unwrap();
    run_one_iteration(&event_loop);
    assert!(task.is_finished());
    assert!(!task.cancel());
    assert_eq!(run_on(&event_loop, task), Ok(1));
}

#[test]
fn a_task_may_cancel_itself() {
    let event_loop = new_loop();
    let log = Log::new();
    let slot = Rc::new(Cell::new(None::<Task<()>>));
    let (own, guard) = (Rc::clone(&slot), LogOnDrop(log.clone(), "dropped"));
    let task = event_loop
        .spawn(async move {
            let _guard = guard;
            own.take().unwrap().cancel();
            sleep(Duration::ZERO).await;
            unreachable!("cancelled at its await");
        })
        .unwrap();
    slot.set(Some(task));
    run_one_iteration(&event_loop);
    log.assert(["dropped"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn cancelling_a_done_task_does_not_affect_a_task_that_reuses_its_slot() {
    let event_loop = new_loop();
    let first = event_loop.spawn(async {}).unwrap();
    run_one_iteration(&event_loop);
    let second = event_loop.spawn(async { "alive" }).unwrap();
    assert!(!first.cancel());
    assert_eq!(run_on(&event_loop, second), Ok("alive"));
}

#[test]
fn a_task_whose_handle_is_dropped_runs_on() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    drop(event_loop.spawn(async move {
        sleep(Duration::ZERO).await;
        inside.add("ran");
    }));
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    log.assert(["ran"]);
}

#[test]
fn a_panic_ends_only_its_task_and_is_the_error_of_its_await() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let task = event_loop.spawn(async { panic!("in a task") }).unwrap();
    let other = event_loop.spawn(async { "fine" }).unwrap();
    let error: JoinError = run_on(&event_loop, task).unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.to_string(), "Task-1 panicked: in a task");
    assert_eq!(run_on(&event_loop, other), Ok("fine"));
    reports.assert([]);
}

#[test]
fn a_panic_that_is_never_awaited_is_reported_with_the_tasks_name() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let named = event_loop.spawn(async { panic!("before the handle is dropped") }).unwrap();
    named.set_name("worker");
    run_one_iteration(&event_loop);
    reports.assert([]);
    drop(named);
    drop(event_loop.spawn(async { panic!("after") }));
    run_one_iteration(&event_loop);
    reports.assert([
        "worker panicked and was never awaited: panic: before the handle is dropped".to_owned(),
        "Task-2 panicked and was never awaited: panic: after".to_owned(),
    ]);
}

#[test]
fn a_panic_in_the_destructor_of_a_cancelled_future_is_the_tasks_error() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("destructor");
        }
    }
    let event_loop = new_loop();
    let bomb = Bomb;
    let task = event_loop
        .spawn(async move {
            let _bomb = bomb;
            pending::<()>().await;
        })
        .unwrap();
    run_one_iteration(&event_loop);
    task.cancel();
    assert_eq!(run_on(&event_loop, task).unwrap_err().panic_text(), Some("destructor"));
}

#[test]
fn another_thread_can_wake_a_task() {
    let event_loop = new_loop();
    let woken = run_on(&event_loop, async {
        spawn(async {
            let mut thread = None;
            poll_fn(|cx| {
                if thread.is_some() {
                    return Poll::Ready(());
                }
                let waker = cx.waker().clone();
                thread = Some(std::thread::spawn(move || waker.wake()));
                Poll::Pending
            })
            .await;
            thread.unwrap().join().unwrap();
            "woken"
        })
        .await
    });
    assert_eq!(woken, Ok("woken"));
}

#[test]
fn a_woken_task_runs_after_the_calls_that_are_ready() {
    let event_loop = new_loop();
    let log = Log::new();
    let (_task, waker) = {
        let inside = log.clone();
        let waker = Rc::new(Cell::new(None));
        let found = Rc::clone(&waker);
        let task = event_loop.spawn(poll_fn(move |cx| {
            inside.add("step");
            found.set(Some(cx.waker().clone()));
            Poll::<()>::Pending
        }));
        run_one_iteration(&event_loop);
        (task, waker.take().unwrap())
    };
    event_loop.call_soon(log.adder("before")).unwrap();
    waker.wake_by_ref();
    waker.wake();
    event_loop.call_soon(log.adder("after")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["step", "before", "step", "after"]);
}

#[test]
fn close_drops_the_futures_of_all_tasks() {
    let event_loop = new_loop();
    let log = Log::new();
    let (waiting, _waker) = spawn_pending(&event_loop, LogOnDrop(log.clone(), "waiting"));
    let (_scheduled, waker) = spawn_pending(&event_loop, LogOnDrop(log.clone(), "scheduled"));
    waker.wake();
    let (_sent, waker) = spawn_pending(&event_loop, LogOnDrop(log.clone(), "in the inbox"));
    std::thread::spawn(move || waker.wake()).join().unwrap();
    let guard = LogOnDrop(log.clone(), "never polled");
    let _unpolled = event_loop.spawn(async move { drop(guard) }).unwrap();
    event_loop.close().unwrap();
    let mut dropped = log.entries();
    dropped.sort_unstable();
    assert_eq!(dropped, ["in the inbox", "never polled", "scheduled", "waiting"]);
    assert!(waiting.is_finished());
    assert_eq!(event_loop.metrics().tasks, 0);
}

#[test]
fn a_task_cannot_spawn_when_close_drops_it() {
    struct Respawn(mainspring::EventLoop, Log<bool>);
    impl Drop for Respawn {
        fn drop(&mut self) {
            self.1.add(self.0.spawn(pending::<()>()).is_err());
        }
    }
    let event_loop = new_loop();
    let log = Log::new();
    let respawn = Respawn(event_loop.clone(), log.clone());
    let _task = event_loop.spawn(async move {
        let _respawn = respawn;
        pending::<()>().await;
    });
    run_one_iteration(&event_loop);
    event_loop.close().unwrap();
    log.assert([true]);
}

#[test]
fn wakers_may_outlive_the_loop_on_any_thread() {
    let event_loop = new_loop();
    let (task, waker) = spawn_pending(&event_loop, LogOnDrop(Log::new(), ""));
    event_loop.close().unwrap();
    waker.wake_by_ref();
    let clone = waker.clone();
    std::thread::spawn(move || {
        clone.wake_by_ref();
        drop(clone);
    })
    .join()
    .unwrap();
    drop((event_loop, task));
    waker.wake();
}

#[test]
fn futures_are_dropped_on_the_loop_thread_while_other_threads_wake_them() {
    const TASKS: usize = 64;
    struct CountsDrops(std::thread::ThreadId, Rc<Cell<usize>>);
    impl Drop for CountsDrops {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().id(), self.0);
            self.1.set(self.1.get() + 1);
        }
    }
    for round in 0..100 {
        let event_loop = new_loop();
        let dropped = Rc::new(Cell::new(0));
        let wakers = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..TASKS {
            let guard = CountsDrops(std::thread::current().id(), Rc::clone(&dropped));
            let found = Rc::clone(&wakers);
            let waiting = async move {
                let _guard = guard;
                poll_fn::<(), _>(|cx| {
                    found.borrow_mut().push(cx.waker().clone());
                    Poll::Pending
                })
                .await;
            };
            event_loop.spawn(waiting).unwrap();
        }
        run_one_iteration(&event_loop);
        let wakers = wakers.take();
        let start = Arc::new(AtomicBool::new(false));
        let started = Arc::clone(&start);
        let waking = std::thread::spawn(move || {
            while !started.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            // In reverse order of the loop's cancellation, so that both reach some task at the same time.
            wakers.into_iter().rev().for_each(Waker::wake);
        });
        start.store(true, Ordering::SeqCst);
        for _ in 0..round * 10 {
            std::hint::spin_loop();
        }
        event_loop.close().unwrap();
        assert_eq!(dropped.get(), TASKS);
        waking.join().unwrap();
    }
}
