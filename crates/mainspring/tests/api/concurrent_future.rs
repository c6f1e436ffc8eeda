//! `ConcurrentFuture`: results from other threads, combinators, done callbacks.

use crate::support::{Log, collect_reports, new_loop, run_on};
use mainspring::{ConcurrentFuture, JoinError, Promise, timeout};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

fn pair<T>() -> (Promise<T>, ConcurrentFuture<T>) {
    ConcurrentFuture::pair()
}

fn ready<T: 'static>(value: T) -> ConcurrentFuture<T> {
    ConcurrentFuture::ready(Ok(value))
}

fn cancelled<T: 'static>() -> ConcurrentFuture<T> {
    pair().1
}

#[derive(Debug, PartialEq)]
enum TestError {
    Io(io::ErrorKind),
    Join(String),
}

impl From<JoinError> for TestError {
    fn from(error: JoinError) -> Self {
        TestError::Join(error.to_string())
    }
}

impl From<io::Error> for TestError {
    fn from(error: io::Error) -> Self {
        TestError::Io(error.kind())
    }
}

#[test]
fn combinators_work_before_and_after_the_result_is_set() {
    for compose_first in [true, false] {
        let (promise, result) = pair();
        let mut promise = Some(promise);
        if !compose_first {
            promise.take().unwrap().set_result(1);
        }
        let composed = result
            .map(|number| number + 1)
            .and_then(|number| ready(number * 10))
            .then(|result| ready(result.unwrap() + 1))
            .or_else(|_| ready::<i32>(0))
            .map_err(|_| -> JoinError { unreachable!() });
        assert_eq!(composed.is_finished(), !compose_first);
        if let Some(promise) = promise {
            promise.set_result(1);
        }
        assert_eq!(composed.wait(), Ok(21));
    }
}

#[test]
fn an_error_skips_map_and_and_then_and_is_converted() {
    let failed = ConcurrentFuture::<i32, io::Error>::ready(Err(io::ErrorKind::TimedOut.into()));
    let failed = failed
        .map(|_| -> i32 { unreachable!() })
        .and_then(|_| -> ConcurrentFuture<i32, TestError> { unreachable!() })
        .map(|_| -> &str { unreachable!() });
    assert_eq!(failed.wait(), Err(TestError::Io(io::ErrorKind::TimedOut)));
    let found = ConcurrentFuture::<i32, io::Error>::ready(Err(io::ErrorKind::NotFound.into()));
    let found = found.or_else(|error| ready(if error.kind() == io::ErrorKind::NotFound { 1 } else { 2 }));
    assert_eq!(found.wait(), Ok(1));
    let nested = ready(Err::<(), _>(io::Error::from(io::ErrorKind::InvalidData)));
    assert_eq!(
        nested.flatten().err_into::<TestError>().wait(),
        Err(TestError::Io(io::ErrorKind::InvalidData))
    );
}

#[test]
fn a_panic_in_a_combinator_closure_becomes_an_error() {
    type Failing<T> = ConcurrentFuture<T, TestError>;
    let failing: Vec<Failing<i32>> = vec![
        ready(1).map(|_| panic!("closure")).err_into(),
        ready(1).and_then(|_| -> Failing<i32> { panic!("closure") }),
        ready(1).then(|_| -> Failing<i32> { panic!("closure") }),
        cancelled().or_else(|_| -> Failing<i32> { panic!("closure") }),
        cancelled().map_err(|_| -> TestError { panic!("closure") }),
    ];
    for failing in failing {
        assert_eq!(failing.wait(), Err(TestError::Join("panicked: closure".to_owned())));
    }
}

#[test]
fn dropping_the_promise_cancels_the_whole_chain() {
    let (promise, result) = pair::<i32>();
    let chained = result.map(|n| n + 1).and_then(ready).map(|n| n + 1);
    drop(promise);
    assert!(chained.wait().unwrap_err().is_cancelled());
}

#[test]
fn closures_run_on_the_thread_that_sets_the_result() {
    let (promise, result) = pair();
    let this_thread = std::thread::current().id();
    let ran_on = result.map(|()| std::thread::current().id());
    let setting = std::thread::spawn(move || {
        promise.set_result(());
        std::thread::current().id()
    });
    let other_thread = setting.join().unwrap();
    assert_eq!(ran_on.wait(), Ok(other_thread));
    assert_eq!(ready(()).map(|()| std::thread::current().id()).wait(), Ok(this_thread));
}

#[test]
fn a_long_chain_does_not_overflow_the_stack() {
    const LINKS: u32 = 100_000;
    let (promise, result) = pair();
    let mut chain: ConcurrentFuture<u32> = result;
    for _ in 0..LINKS {
        chain = chain.map(|count| count + 1);
    }
    promise.set_result(0);
    assert_eq!(chain.wait(), Ok(LINKS));
    // A chain that a closure extends.
    fn count_down(left: u32) -> ConcurrentFuture<u32> {
        if left == 0 { ready(0) } else { ready(left - 1).and_then(count_down) }
    }
    assert_eq!(ready(LINKS).and_then(count_down).wait(), Ok(0));
    // A chain that is dropped.
    let (promise, result) = pair();
    let mut chain: ConcurrentFuture<u32> = result;
    for _ in 0..LINKS {
        chain = chain.and_then(ready);
    }
    drop(chain);
    drop(promise);
}

#[test]
fn done_callbacks_see_the_result_before_it_is_taken() {
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let add = |entry: &'static str| {
        let log = Arc::clone(&log);
        move |result: &Result<i32, JoinError>| log.lock().unwrap().push((entry, *result.as_ref().unwrap()))
    };
    let (promise, result) = pair();
    assert!(result.add_done_callback(add("first")));
    assert!(result.add_done_callback(add("second")));
    promise.set_result(1);
    assert!(result.add_done_callback(add("late")));
    let mut result = result.map(|n| n + 1);
    assert!(result.add_done_callback(add("after map")));
    let event_loop = new_loop();
    assert_eq!(run_on(&event_loop, &mut result), Ok(2));
    assert!(!result.add_done_callback(|_| unreachable!()), "the result was taken");
    let expected = [("first", 1), ("second", 1), ("late", 1), ("after map", 2)];
    assert_eq!(*log.lock().unwrap(), expected);
}

#[test]
fn a_panicking_done_callback_does_not_lose_the_result() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let value = run_on(&event_loop, async {
        let (promise, result) = pair();
        result.add_done_callback(|_| panic!("callback"));
        promise.set_result(1);
        result.await
    });
    assert_eq!(value, Ok(1));
    reports.assert(["A done callback panicked: panic: callback".to_owned()]);
}

#[test]
fn a_done_callback_may_add_another() {
    let (promise, result) = pair::<i32>();
    let result = Arc::new(result);
    let (sender, called) = mpsc::channel();
    let weak = Arc::downgrade(&result);
    result.add_done_callback(move |_| {
        let is_added = weak.upgrade().unwrap().add_done_callback(move |_| sender.send(()).unwrap());
        assert!(is_added);
    });
    promise.set_result(1);
    called.try_recv().unwrap();
}

#[test]
fn callbacks_added_by_several_threads_run_once_each() {
    for _ in 0..50 {
        let (promise, result) = pair();
        let result = Arc::new(result);
        let (calls, start) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(4)));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (result, calls, start) = (Arc::clone(&result), Arc::clone(&calls), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    assert!(result.add_done_callback(move |_| {
                        calls.fetch_add(1, Ordering::SeqCst);
                    }));
                })
            })
            .collect();
        start.wait();
        promise.set_result(());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(Arc::into_inner(result).unwrap().wait(), Ok(()));
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn wait_timeout_returns_the_future_on_timeout() {
    let (promise, result) = pair();
    let result = result.wait_timeout(Duration::ZERO).unwrap_err();
    let result = result.wait_timeout(Duration::from_millis(1)).unwrap_err();
    let setting = std::thread::spawn(move || promise.set_result(1));
    assert_eq!(result.wait_timeout(Duration::MAX).unwrap(), Ok(1));
    setting.join().unwrap();
}

#[test]
fn cancelling_an_await_keeps_the_result() {
    let event_loop = new_loop();
    let (promise, mut result) = pair();
    run_on(&event_loop, async {
        assert!(timeout(Duration::from_millis(1), &mut result).await.is_err());
        promise.set_result(1);
        assert_eq!((&mut result).await, Ok(1));
        assert!(result.await.unwrap_err().is_cancelled(), "the result was taken");
    });
}

#[test]
fn composing_a_future_forgets_its_earlier_waiter() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        let (promise, mut result) = pair();
        assert!(timeout(Duration::ZERO, &mut result).await.is_err());
        let doubled = result.map(|n: i32| n * 2);
        promise.set_result(2);
        inside.add(doubled.await.unwrap());
    });
    log.assert([4]);
}

#[test]
fn a_closure_may_wait_for_other_futures() {
    fn nested(depth: u32) -> ConcurrentFuture<u32> {
        ready(depth).and_then(|depth| {
            let inner = if depth == 0 { 0 } else { nested(depth - 1).map(|inner| inner + 1).wait().unwrap() };
            let again = ready(1).map(|one| one).wait_timeout(Duration::MAX).unwrap().unwrap();
            ready(inner + again).map(|sum| sum)
        })
    }
    assert_eq!(nested(3).wait(), Ok(7));
}
