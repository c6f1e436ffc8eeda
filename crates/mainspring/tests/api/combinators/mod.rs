//! Several futures in one task: `race`, `join`, `select`, `shield`, `yield_now`; helpers for the submodules.

mod as_completed;
mod gather;

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, virtual_loop};
use mainspring::{Either, join, race, select, shield, sleep, spawn, timeout, try_join, yield_now};
use std::cell::RefCell;
use std::future::{pending, poll_fn, ready};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Adds to a log when it is dropped.
struct LogOnDrop(Log<usize>, usize);

impl Drop for LogOnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A future that completes when it is opened.
#[derive(Clone, Default)]
struct Gate(Rc<RefCell<(Option<Waker>, bool, usize)>>);

impl Gate {
    fn open(&self) {
        let waker = {
            let mut gate = self.0.borrow_mut();
            gate.1 = true;
            gate.0.take()
        };
        waker.inspect(Waker::wake_by_ref);
    }

    fn polls(&self) -> usize {
        self.0.borrow().2
    }

    async fn opened(self) {
        poll_fn(|cx| {
            let mut gate = self.0.borrow_mut();
            gate.2 += 1;
            if gate.1 {
                return Poll::Ready(());
            }
            gate.0 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[test]
fn cancelling_a_join_drops_plain_futures_but_not_tasks() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        let log = inside.clone();
        let task = spawn(async move {
            for _ in 0..3 {
                yield_now().await;
            }
            log.add(1_usize);
        });
        let guard = LogOnDrop(inside.clone(), 0);
        let plain = async move {
            let _guard = guard;
            pending::<()>().await;
        };
        let both = join((plain, task));
        assert!(timeout(Duration::ZERO, both).await.is_err());
        inside.assert([0]);
        for _ in 0..4 {
            yield_now().await;
        }
    });
    log.assert([0, 1]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn race_returns_the_first_result_and_drops_the_other_futures() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    let winner = run_on(&event_loop, async move {
        race((0..3).map(|number| {
            let guard = LogOnDrop(inside.clone(), number);
            async move {
                let _guard = guard;
                sleep(Duration::from_secs([2, 1, 3][number])).await;
                number
            }
        }))
        .await
    });
    assert_eq!(winner, Some(1));
    log.assert([1, 0, 2]);
    assert_eq!(run_on(&event_loop, race([ready("first"), ready("second")])), Some("first"));
    assert_eq!(run_on(&event_loop, race(Vec::<std::future::Ready<()>>::new())), None);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn join_returns_a_tuple_of_all_results() {
    let event_loop = new_loop();
    let later = |number: u8| async move {
        for _ in 0..number {
            yield_now().await;
        }
        number
    };
    let result = run_on(&event_loop, join((later(3), async { "b" }, later(1))));
    assert_eq!(result, (3, "b", 1));
    let many = (later(1), later(2), later(3), later(4), later(5), later(6), later(7), later(8));
    assert_eq!(run_on(&event_loop, join(many)), (1, 2, 3, 4, 5, 6, 7, 8));
}

#[test]
fn try_join_ends_at_the_first_error() {
    let event_loop = new_loop();
    let result = run_on(&event_loop, try_join((pending::<Result<(), _>>(), ready(Err::<(), _>("no")))));
    assert_eq!(result, Err("no"));
    let result = run_on(&event_loop, try_join((ready(Ok::<_, ()>(1)), ready(Ok("two")))));
    assert_eq!(result, Ok((1, "two")));
}

#[test]
fn select_returns_the_first_result_and_does_not_cancel_a_borrowed_task() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        assert_eq!(select(ready(1), ready("b")).await, Either::First(1));
        assert_eq!(select(pending::<()>(), ready("b")).await, Either::Second("b"));
        let mut task = spawn(async {
            yield_now().await;
            "kept"
        });
        assert_eq!(select(&mut task, yield_now()).await, Either::Second(()));
        assert_eq!(task.await, Ok("kept"));
    });
}

#[test]
fn a_shielded_future_runs_on_after_its_await_is_cancelled() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async {
        let save = async move {
            for _ in 0..5 {
                yield_now().await;
            }
            inside.add("saved");
        };
        assert!(timeout(Duration::ZERO, shield(save)).await.is_err());
        log.assert([]);
        for _ in 0..6 {
            yield_now().await;
        }
    });
    log.assert(["saved"]);
}

#[test]
fn yield_now_lets_all_ready_tasks_run_once() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        for name in ["a", "b"] {
            let log = inside.clone();
            spawn(async move { log.add(name) });
        }
        yield_now().await;
        inside.add("after");
    });
    log.assert(["a", "b", "after"]);
}
