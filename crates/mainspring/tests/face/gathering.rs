//! Many futures in one task: gather, race, as_completed, join, select.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_pass, virtual_loop};
use mainspring::{
    Either, as_completed, gather, join, race, select, shield, sleep, spawn, timeout, try_gather, try_join,
    yield_now,
};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Adds to a log when it is dropped.
struct Noted(Log<usize>, usize);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A future that others finish.
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

    async fn pass(self) {
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
fn gather_gives_results_in_the_order_of_the_futures() {
    let (event_loop, clock) = virtual_loop();
    let results = run_on(&event_loop, async {
        gather([3, 1, 2].map(|number| async move {
            sleep(Duration::from_secs(number)).await;
            number
        }))
        .await
    });
    assert_eq!(results, [3, 1, 2]);
    assert_eq!(mainspring::clock::Clock::now(&clock).as_nanos(), 3_000_000_000, "side by side");
    assert_eq!(run_on(&event_loop, gather(Vec::<std::future::Ready<()>>::new())), []);
}

#[test]
fn gathered_futures_may_borrow() {
    let event_loop = new_loop();
    let words = ["a".to_owned(), "bc".to_owned()];
    let total = Cell::new(0);
    run_on(&event_loop, async {
        gather(words.iter().map(|word| async {
            yield_now().await;
            total.set(total.get() + word.len());
        }))
        .await
    });
    assert_eq!(total.get(), 3);
}

#[test]
fn a_step_polls_only_those_that_were_woken() {
    let event_loop = new_loop();
    let gates: Vec<_> = (0..10).map(|_| Gate::default()).collect();
    let all = gather(gates.clone().into_iter().map(Gate::pass));
    let task = event_loop.spawn(all).unwrap();
    run_one_pass(&event_loop);
    gates[7].open();
    gates[2].open();
    run_one_pass(&event_loop);
    let polls: Vec<_> = gates.iter().map(Gate::polls).collect();
    assert_eq!(polls, [1, 1, 2, 1, 1, 1, 1, 2, 1, 1]);
    gates.iter().for_each(Gate::open);
    assert_eq!(run_on(&event_loop, task).unwrap().len(), 10);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_future_that_wakes_itself_gives_the_others_a_turn() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        gather((0..2).map(|number| {
            let log = inside.clone();
            async move {
                for _ in 0..3 {
                    log.add(number);
                    yield_now().await;
                }
            }
        }))
        .await;
    });
    log.assert([0, 1, 0, 1, 0, 1]);
}

#[test]
fn wakers_from_other_threads_and_wakers_that_outlive_everything_are_fine() {
    let event_loop = new_loop();
    let kept = Rc::new(RefCell::new(Vec::new()));
    let found = Rc::clone(&kept);
    let results = run_on(&event_loop, async move {
        gather((0..8).map(|number| {
            let found = Rc::clone(&found);
            let mut is_woken = false;
            poll_fn(move |cx| {
                if is_woken {
                    return Poll::Ready(number);
                }
                is_woken = true;
                found.borrow_mut().push(cx.waker().clone());
                let waker = cx.waker().clone();
                std::thread::spawn(move || waker.wake());
                Poll::Pending
            })
        }))
        .await
    });
    assert_eq!(results, [0, 1, 2, 3, 4, 5, 6, 7]);
    drop(event_loop);
    kept.take().into_iter().for_each(Waker::wake);
}

#[test]
fn a_gather_moved_to_another_task_wakes_that_one() {
    struct Deaf;
    impl Wake for Deaf {
        fn wake(self: Arc<Self>) {}
    }
    let event_loop = new_loop();
    let gate = Gate::default();
    let mut all = Box::pin(gather([gate.clone().pass()]));
    assert!(all.as_mut().poll(&mut Context::from_waker(&Arc::new(Deaf).into())).is_pending());
    let task = event_loop.spawn(all).unwrap();
    run_one_pass(&event_loop);
    gate.open();
    assert_eq!(run_on(&event_loop, task), Ok(vec![()]));
}

#[test]
fn try_gather_drops_the_rest_at_the_first_error() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let result = run_on(&event_loop, async move {
        try_gather((0..4).map(|number| {
            let noted = Noted(inside.clone(), number);
            async move {
                let _noted = noted;
                for _ in 0..number {
                    yield_now().await;
                }
                if number == 2 { Err("two") } else { Ok(number) }
            }
        }))
        .await
    });
    assert_eq!(result, Err("two"));
    log.assert([0, 1, 2, 3]);
    let fine = run_on(&event_loop, try_gather([ready(Ok::<_, ()>(1)), ready(Ok(2))]));
    assert_eq!(fine, Ok(vec![1, 2]));
}

#[test]
fn a_panic_in_one_of_them_is_the_panic_of_the_whole() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let task = event_loop.spawn(gather((0..3).map(move |number| {
        let noted = Noted(inside.clone(), number);
        async move {
            let _noted = noted;
            yield_now().await;
            assert_ne!(number, 1, "out of luck");
            pending::<()>().await;
        }
    })));
    let error = run_on(&event_loop, task.unwrap()).unwrap_err();
    assert!(error.is_panic());
    let mut dropped = log.entries();
    dropped.sort_unstable();
    assert_eq!(dropped, [0, 1, 2]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn giving_up_a_gather_drops_its_futures_but_tasks_run_on() {
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
        let noted = Noted(inside.clone(), 0);
        let plain = async move {
            let _noted = noted;
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
fn the_first_of_a_race_wins_and_the_others_are_dropped() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    let winner = run_on(&event_loop, async move {
        race((0..3).map(|number| {
            let noted = Noted(inside.clone(), number);
            async move {
                let _noted = noted;
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
fn as_completed_loses_nothing_when_a_wait_for_the_next_is_given_up() {
    let (event_loop, _clock) = virtual_loop();
    let order = run_on(&event_loop, async {
        let mut results = as_completed([3_u64, 1, 2].map(|number| async move {
            sleep(Duration::from_secs(number)).await;
            number
        }));
        let mut order = Vec::new();
        loop {
            assert_eq!(results.len(), 3 - order.len());
            // Half a second at a time, so most waits are in vain.
            match timeout(Duration::from_millis(500), results.next()).await {
                Ok(Some(number)) => order.push(number),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert!(results.is_empty());
        order
    });
    assert_eq!(order, [1, 2, 3]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn as_completed_is_a_stream() {
    use futures_core::Stream;
    let event_loop = new_loop();
    let mut results = Box::pin(as_completed([ready(1), ready(2)]));
    assert_eq!(results.size_hint(), (2, Some(2)));
    let collected = run_on(&event_loop, async {
        let mut collected = Vec::new();
        while let Some(number) = poll_fn(|cx| results.as_mut().poll_next(cx)).await {
            collected.push(number);
        }
        collected
    });
    assert_eq!(collected, [1, 2]);
}

#[test]
fn join_gives_a_tuple_of_what_all_give() {
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
fn select_gives_the_first_and_keeps_what_was_lent() {
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
fn what_is_shielded_goes_on_when_nobody_waits() {
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
fn giving_way_lets_everything_that_is_ready_run_once() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        for name in ["a", "b"] {
            let log = inside.clone();
            spawn(async move { log.add(name) });
        }
        yield_now().await;
        inside.add("then");
    });
    log.assert(["a", "b", "then"]);
}

proptest! {
    /// Futures that are finished in any order, several at once, come out in that order, once each.
    #[test]
    fn results_come_in_the_order_in_which_the_futures_are_done(
        rounds in prop::collection::vec(prop::collection::vec(0..12usize, 0..5), 0..10),
    ) {
        let event_loop = new_loop();
        let gates: Vec<_> = (0..12).map(|_| Gate::default()).collect();
        let futures: Vec<_> = gates
            .iter()
            .cloned()
            .enumerate()
            .map(|(number, gate)| async move {
                gate.pass().await;
                number
            })
            .collect();
        let log = Log::<usize>::new();
        let inside = log.clone();
        let task = event_loop
            .spawn(async move {
                let mut results = as_completed(futures);
                while let Some(number) = results.next().await {
                    inside.add(number);
                }
            })
            .unwrap();
        run_one_pass(&event_loop);
        let mut expected = Vec::new();
        for round in rounds {
            for number in round {
                gates[number].open();
                if !expected.contains(&number) {
                    expected.push(number);
                }
            }
            run_one_pass(&event_loop);
            prop_assert_eq!(&log.entries(), &expected);
        }
        prop_assert_eq!(task.is_finished(), expected.len() == 12);
    }
}
