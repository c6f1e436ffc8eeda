//! Models of the shutdown of a loop on a thread, and of results that cross threads: loom runs every interleaving.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_runtime`.
#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use mainspring::ConcurrentFuture;
use mainspring_engine::wakeup::{Inbox, Waker};
use std::task::{Context, Poll, Wake};

/// A model of an eventfd.
#[derive(Default)]
struct EventFdModel {
    is_readable: Mutex<bool>,
    rang: Condvar,
}

impl Waker for EventFdModel {
    fn wake(&self) {
        *self.is_readable.lock().unwrap() = true;
        self.rang.notify_one();
    }
}

impl EventFdModel {
    fn sleep(&self) {
        let mut is_readable = self.is_readable.lock().unwrap();
        while !*is_readable {
            is_readable = self.rang.wait(is_readable).unwrap();
        }
        *is_readable = false;
    }
}

type Model = Arc<Inbox<u8, EventFdModel>>;

/// The thread of a draining runtime: iterates until nothing is pending, then stops. Returns the items it ran.
fn drain(inbox: &Model) -> Vec<u8> {
    let mut ran = Vec::new();
    inbox.report_quiet(true);
    loop {
        if inbox.has_pending() {
            inbox.drain_into(&mut ran);
        }
        if inbox.is_quiet() {
            if inbox.seal_if_quiet() {
                inbox.report_quiet(false);
                return ran;
            }
        } else if inbox.prepare_sleep() {
            inbox.waker().sleep();
            inbox.awake();
        }
    }
}

#[test]
fn an_item_is_refused_or_run_when_the_loop_ends_by_itself() {
    loom::model(|| {
        let inbox: Model = Arc::new(Inbox::new(EventFdModel::default()));
        let submitters = [1, 2].map(|item| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.submit(item).is_ok())
        });
        let ran = drain(&inbox);
        let accepted = submitters.into_iter().map(|s| usize::from(s.join().unwrap())).sum::<usize>();
        assert_eq!(ran.len() + inbox.close().len(), accepted);
        assert_eq!(ran.len(), accepted);
    });
}

#[test]
fn an_item_is_refused_or_run_when_the_loop_is_shut_down() {
    loom::model(|| {
        let inbox: Model = Arc::new(Inbox::new(EventFdModel::default()));
        let submitter = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || usize::from(inbox.submit(1).is_ok()))
        };
        let closer = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.seal())
        };
        let ran = drain(&inbox);
        assert_eq!(ran.len(), submitter.join().unwrap());
        closer.join().unwrap();
        assert!(inbox.submit(2).is_err());
    });
}

#[test]
fn a_loop_that_waits_for_an_expected_thread_is_woken_when_it_ends() {
    // A spurious wake-up would make it sleep forever; ending too early would miss the item.
    for items in [0, 1] {
        loom::model(move || {
            let inbox: Model = Arc::new(Inbox::new(EventFdModel::default()));
            let worker = work(&inbox, items);
            assert_eq!(drain(&inbox).len(), items);
            worker.join().unwrap();
        });
    }
}

#[test]
fn a_loop_waits_for_the_last_expected_thread() {
    let mut model = loom::model::Builder::new();
    // Every interleaving of this many steps would take an hour.
    model.preemption_bound = Some(2);
    model.check(|| {
        let inbox: Model = Arc::new(Inbox::new(EventFdModel::default()));
        let workers = [work(&inbox, 1), work(&inbox, 0)];
        assert_eq!(drain(&inbox), [1]);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

/// An expected thread that sends `items` items.
fn work(inbox: &Model, items: usize) -> thread::JoinHandle<()> {
    inbox.expect();
    let inbox = Arc::clone(inbox);
    thread::spawn(move || {
        for _ in 0..items {
            inbox.push(1).unwrap();
        }
        inbox.expect_no_more();
    })
}

#[test]
fn a_result_reaches_its_waiter() {
    loom::model(|| {
        let (promise, result) = ConcurrentFuture::<u8>::pair();
        let other = thread::spawn(move || promise.set_result(7));
        assert_eq!(result.wait(), Ok(7));
        other.join().unwrap();
    });
}

#[test]
fn a_result_reaches_a_future_composed_concurrently() {
    loom::model(|| {
        let (promise, result) = ConcurrentFuture::<u8>::pair();
        let other = thread::spawn(move || promise.set_result(6));
        let result = result.map(|number| number * 7);
        assert_eq!(result.wait(), Ok(42));
        other.join().unwrap();
    });
}

#[test]
fn a_callback_is_called_once_in_any_order() {
    loom::model(|| {
        let (promise, result) = ConcurrentFuture::<u8>::pair();
        let other = thread::spawn(move || promise.set_result(7));
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        assert!(result.add_done_callback(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(result.wait(), Ok(7));
        other.join().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    });
}

/// A task that sleeps until it is woken.
struct Woken(EventFdModel);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.wake();
    }
}

#[test]
fn a_polling_task_is_woken() {
    loom::model(|| {
        let (promise, mut result) = ConcurrentFuture::<u8>::pair();
        let other = thread::spawn(move || promise.set_result(7));
        let woken = std::sync::Arc::new(Woken(EventFdModel::default()));
        let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        loop {
            match std::pin::Pin::new(&mut result).poll(&mut cx) {
                Poll::Ready(value) => break assert_eq!(value, Ok(7)),
                Poll::Pending => woken.0.sleep(),
            }
        }
        other.join().unwrap();
    });
}

#[test]
fn cancelling_concurrently_with_the_result_has_one_outcome() {
    loom::model(|| {
        let (promise, result) = ConcurrentFuture::<u8>::pair();
        let handle = result.cancel_handle();
        let settling = thread::spawn(move || promise.set_result(7));
        let cancelling = thread::spawn(move || handle.cancel());
        let waited = result.wait();
        settling.join().unwrap();
        match waited {
            Ok(value) => assert_eq!((value, cancelling.join().unwrap()), (7, false)),
            Err(error) => assert!(error.is_cancelled() && cancelling.join().unwrap()),
        }
    });
}

#[test]
fn a_cancellation_reaches_a_future_composed_concurrently() {
    loom::model(|| {
        let (promise, first) = ConcurrentFuture::<u8>::pair();
        let (second_promise, second) = ConcurrentFuture::<u8>::pair();
        let composed = first.and_then(move |_| second);
        let settling = thread::spawn(move || promise.set_result(1));
        assert!(composed.cancel());
        settling.join().unwrap();
        // Cancelled, or dropped with the closure: in either case no waiter is left.
        second_promise.set_result(2);
        assert!(composed.wait().unwrap_err().is_cancelled());
    });
}

#[test]
fn the_holder_of_a_promise_is_woken_by_the_cancellation() {
    loom::model(|| {
        let (mut promise, result) = ConcurrentFuture::<u8>::pair();
        let cancelling = thread::spawn(move || assert!(result.cancel()));
        let woken = std::sync::Arc::new(Woken(EventFdModel::default()));
        let waker = std::task::Waker::from(std::sync::Arc::clone(&woken));
        let mut cancelled = Box::pin(promise.cancelled());
        while cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            woken.0.sleep();
        }
        cancelling.join().unwrap();
    });
}
