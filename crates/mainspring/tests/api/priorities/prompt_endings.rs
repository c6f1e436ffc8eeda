//! Background tasks that are cancelled, or whose timeouts expire, on a loop that is never idle.

use super::{HOUR, SECOND, run_busy_iterations};
use crate::support::{Log, run_one_iteration, virtual_loop};
use mainspring::{
    ConcurrentFuture, EventLoop, JoinSet, Lane, ReturnWhen, Task, TaskGroup, after, background, current_lane,
    gather, normal, sleep, spawn, timeout, timeout_at, wait,
};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Notes when it is dropped.
struct NoteDrop(Log<Lane>);

impl Drop for NoteDrop {
    fn drop(&mut self) {
        self.0.add(current_lane());
    }
}

/// Starts a background task that waits forever, or whose step is queued.
fn waiting_or_queued(event_loop: &EventLoop, is_queued: bool, dropped: &Log<Lane>) -> Task<()> {
    let note = NoteDrop(dropped.clone());
    let task = event_loop.spawn_in(Lane::Background, async move {
        pending::<()>().await;
        drop(note);
    });
    if !is_queued {
        run_one_iteration(event_loop);
    }
    task.unwrap()
}

#[test]
fn a_background_task_is_cancelled_in_the_next_iteration_of_a_busy_loop() {
    let cancels: [fn(&Task<()>) -> bool; 2] = [Task::cancel, |task| task.handle().cancel()];
    for (is_queued, cancel) in [false, true].into_iter().flat_map(|queued| cancels.map(|c| (queued, c))) {
        let (event_loop, clock) = virtual_loop();
        let log = Log::new();
        let task = waiting_or_queued(&event_loop, is_queued, &log);
        let other = event_loop.spawn_in(Lane::Background, async {}).unwrap();
        run_busy_iterations(&event_loop, &clock, 3);
        assert!(cancel(&task));
        log.assert([]);
        run_busy_iterations(&event_loop, &clock, 1);
        // What the destructor creates still inherits the task's lane.
        log.assert([Lane::Background]);
        assert!(task.cancelled() && !other.is_finished());
    }
}

#[test]
fn many_queued_background_tasks_are_cancelled_in_one_iteration() {
    let (event_loop, clock) = virtual_loop();
    let tasks: Vec<_> =
        (0..20_000).map(|_| event_loop.spawn_in(Lane::Background, pending::<()>()).unwrap()).collect();
    run_busy_iterations(&event_loop, &clock, 2);
    assert!(tasks.iter().all(Task::cancel));
    run_busy_iterations(&event_loop, &clock, 1);
    assert!(tasks.iter().all(Task::cancelled));
}

#[test]
fn a_background_task_that_another_thread_has_woken_is_cancelled_in_the_next_iteration() {
    let (event_loop, clock) = virtual_loop();
    let (promise, result) = ConcurrentFuture::<()>::pair();
    let task = event_loop.spawn_in(Lane::Background, result).unwrap();
    run_one_iteration(&event_loop);
    // The step is in the inbox.
    std::thread::spawn(move || promise.set_result(())).join().unwrap();
    task.cancel();
    run_busy_iterations(&event_loop, &clock, 1);
    assert!(task.cancelled());
}

#[test]
fn background_tasks_of_a_set_or_group_are_cancelled_in_the_next_iteration() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let (in_set, in_group) = (NoteDrop(log.clone()), NoteDrop(log.clone()));
    let never = |note| async move {
        pending::<()>().await;
        drop(note);
    };
    let group = background(HOUR, || {
        event_loop.spawn(TaskGroup::scope(move |group| async move {
            group.spawn_ok(never(in_group));
            pending::<Result<(), Infallible>>().await
        }))
    });
    let tasks = event_loop.run_until_complete(async {
        let mut tasks = JoinSet::new();
        background(HOUR, || tasks.spawn(never(in_set)));
        after(Duration::ZERO).await;
        tasks
    });
    run_busy_iterations(&event_loop, &clock, 3);
    log.assert([]);
    drop(tasks.unwrap());
    run_busy_iterations(&event_loop, &clock, 1);
    log.assert([Lane::Background]);
    group.unwrap().cancel();
    // The scope is dropped in the first iteration, and its child in the second.
    run_busy_iterations(&event_loop, &clock, 2);
    log.assert([Lane::Background; 2]);
}

#[test]
fn a_task_that_is_cancelled_before_it_starts_does_not_wait() {
    let (event_loop, clock) = virtual_loop();
    event_loop.set_task_factory(|task, future| {
        task.cancel();
        future
    });
    let task = event_loop.spawn_in(Lane::Background, pending::<()>()).unwrap();
    run_busy_iterations(&event_loop, &clock, 1);
    assert!(task.cancelled());
}

#[test]
fn many_queued_background_tasks_are_cancelled_at_once() {
    let (event_loop, clock) = virtual_loop();
    let tasks: Vec<_> =
        (0..1000).map(|_| event_loop.spawn_in(Lane::Background, pending::<()>()).unwrap()).collect();
    assert!(tasks.iter().all(Task::cancel));
    run_busy_iterations(&event_loop, &clock, 1);
    assert!(tasks.iter().all(Task::cancelled));
}

/// A future that waits for a second at most, and one that is pending until then.
async fn time_out(kind: usize, wakes: Rc<RefCell<Option<Waker>>>) {
    let waits = || {
        let wakes = Rc::clone(&wakes);
        poll_fn(move |cx| {
            *wakes.borrow_mut() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
    };
    match kind {
        0 => assert!(timeout(SECOND, waits()).await.is_err()),
        1 => {
            let deadline = EventLoop::current().time().saturating_add(SECOND);
            assert!(timeout_at(deadline, waits()).await.is_err());
        }
        // The waker of the timer is not that of the task.
        2 => assert!(gather([timeout(SECOND, waits())]).await[0].is_err()),
        _ => {
            let task = normal(|| spawn(waits()));
            let (_, pending) = wait([task], ReturnWhen::AllCompleted, Some(SECOND)).await;
            pending[0].cancel();
        }
    }
}

#[test]
fn a_timeout_in_a_background_task_expires_on_time_on_a_busy_loop() {
    for (kind, is_queued) in (0..4).flat_map(|kind| [(kind, false), (kind, true)]) {
        let (event_loop, clock) = virtual_loop();
        let wakes = Rc::new(RefCell::new(None));
        let task = event_loop.spawn_in(Lane::Background, time_out(kind, Rc::clone(&wakes))).unwrap();
        // The first iteration is idle and starts the timeout; the task of `wait` needs a second one.
        run_one_iteration(&event_loop);
        run_busy_iterations(&event_loop, &clock, 1);
        run_busy_iterations(&event_loop, &clock, 8);
        if is_queued {
            wakes.borrow_mut().take().unwrap().wake();
        }
        run_busy_iterations(&event_loop, &clock, 1);
        assert!(!task.is_finished());
        // The timer is due in the first iteration, and wakes the task for the second one.
        run_busy_iterations(&event_loop, &clock, 2);
        assert!(task.is_finished(), "timeout {kind}, queued: {is_queued}");
    }
}

#[test]
fn only_the_step_of_the_timeout_is_in_the_normal_lane() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    let task = event_loop.spawn_in(Lane::Background, async move {
        assert!(timeout(SECOND, pending::<()>()).await.is_err());
        inside.add(current_lane());
        sleep(Duration::ZERO).await;
        inside.add(current_lane());
    });
    run_one_iteration(&event_loop);
    run_busy_iterations(&event_loop, &clock, 30);
    log.assert([Lane::Background]);
    event_loop.run_until_complete(task.unwrap()).unwrap().unwrap();
}
