//! `gather` and `try_gather`.

use super::{Gate, LogOnDrop};
use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_iteration, virtual_loop};
use mainspring::{gather, sleep, try_gather, yield_now};
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[test]
fn gather_returns_results_in_the_order_of_the_futures() {
    let (event_loop, clock) = virtual_loop();
    let results = run_on(&event_loop, async {
        gather([3, 1, 2].map(|number| async move {
            sleep(Duration::from_secs(number)).await;
            number
        }))
        .await
    });
    assert_eq!(results, [3, 1, 2]);
    assert_eq!(
        mainspring::clock::Clock::now(&clock).as_nanos(),
        3_000_000_000,
        "the futures run concurrently"
    );
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
fn gather_polls_only_woken_futures() {
    let event_loop = new_loop();
    let gates: Vec<_> = (0..10).map(|_| Gate::default()).collect();
    let all = gather(gates.clone().into_iter().map(Gate::opened));
    let task = event_loop.spawn(all).unwrap();
    run_one_iteration(&event_loop);
    gates[7].open();
    gates[2].open();
    run_one_iteration(&event_loop);
    let polls: Vec<_> = gates.iter().map(Gate::polls).collect();
    assert_eq!(polls, [1, 1, 2, 1, 1, 1, 1, 2, 1, 1]);
    gates.iter().for_each(Gate::open);
    assert_eq!(run_on(&event_loop, task).unwrap().len(), 10);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_future_that_wakes_itself_does_not_starve_the_others() {
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
fn wakers_work_from_other_threads_and_may_outlive_the_loop() {
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
fn a_gather_moved_to_another_task_wakes_that_task() {
    struct IgnoresWakes;
    impl Wake for IgnoresWakes {
        fn wake(self: Arc<Self>) {}
    }
    let event_loop = new_loop();
    let gate = Gate::default();
    let mut all = Box::pin(gather([gate.clone().opened()]));
    assert!(all.as_mut().poll(&mut Context::from_waker(&Arc::new(IgnoresWakes).into())).is_pending());
    let task = event_loop.spawn(all).unwrap();
    run_one_iteration(&event_loop);
    gate.open();
    assert_eq!(run_on(&event_loop, task), Ok(vec![()]));
}

#[test]
fn try_gather_drops_the_other_futures_at_the_first_error() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let result = run_on(&event_loop, async move {
        try_gather((0..4).map(|number| {
            let guard = LogOnDrop(inside.clone(), number);
            async move {
                let _guard = guard;
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
    let succeeded = run_on(&event_loop, try_gather([ready(Ok::<_, ()>(1)), ready(Ok(2))]));
    assert_eq!(succeeded, Ok(vec![1, 2]));
}

#[test]
fn a_panic_in_one_future_panics_the_gather() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    let task = event_loop.spawn(gather((0..3).map(move |number| {
        let guard = LogOnDrop(inside.clone(), number);
        async move {
            let _guard = guard;
            yield_now().await;
            assert_ne!(number, 1, "failed");
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
