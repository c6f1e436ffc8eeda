//! `ConcurrentFuture::wait()` on a loop's thread panics if it would deadlock, and only then.

use mainspring::{ConcurrentFuture, JoinError, Runtime};
use std::sync::mpsc;
use std::time::Duration;

type Answer = ConcurrentFuture<i32>;

/// Calls `wait()` on the runtime's thread, on a future that `compose` makes from a call to that runtime.
fn wait_on_loop_thread(compose: impl FnOnce(Answer) -> Answer + Send + 'static) -> Result<i32, JoinError> {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    runtime.call(move || compose(handle.call(|| 1)).wait().unwrap()).wait()
}

#[track_caller]
fn assert_deadlock_detected(result: Result<i32, JoinError>) {
    let error = result.unwrap_err();
    let text = error.panic_text().unwrap_or_default();
    assert!(text.starts_with("wait() would block the loop that produces the result"), "{error:?}");
}

#[test]
fn waiting_for_the_threads_own_loop_panics_for_every_combinator() {
    let ready = |number| ConcurrentFuture::ready(Ok::<i32, JoinError>(number));
    assert_deadlock_detected(wait_on_loop_thread(|answer| answer));
    assert_deadlock_detected(wait_on_loop_thread(|answer| answer.map(|number| number + 1)));
    assert_deadlock_detected(wait_on_loop_thread(|answer| answer.map_err(|error| error)));
    assert_deadlock_detected(wait_on_loop_thread(|answer| answer.map(Ok).flatten()));
    assert_deadlock_detected(wait_on_loop_thread(move |answer| answer.and_then(ready)));
    assert_deadlock_detected(wait_on_loop_thread(|answer| {
        answer.or_else(|error| ConcurrentFuture::ready(Err(error)))
    }));
    assert_deadlock_detected(wait_on_loop_thread(|answer| answer.then(ConcurrentFuture::ready)));
    assert_deadlock_detected(wait_on_loop_thread(move |answer| {
        answer.map(|number| number).and_then(ready).and_then(ready)
    }));
}

#[test]
fn waiting_for_a_chain_that_continues_on_the_threads_own_loop_panics() {
    for links in 0..3 {
        let (runtime, other) = (Runtime::start().unwrap(), Runtime::start().unwrap());
        let (handle, other_handle) = (runtime.handle(), other.handle());
        let (start, started) = mpsc::channel::<()>();
        let waited = runtime.call(move || {
            // The other loop blocks until this thread is about to wait. Only then is the second future known.
            let mut answer =
                other_handle.call(move || started.recv().unwrap()).and_then(move |()| handle.call(|| 1));
            for _ in 0..links {
                answer = answer.and_then(|number| ConcurrentFuture::ready(Ok(number)));
            }
            start.send(()).unwrap();
            answer.wait().unwrap()
        });
        assert_deadlock_detected(waited.wait());
    }
}

#[test]
fn waiting_for_a_finished_result_or_another_loop_is_allowed() {
    let (runtime, other) = (Runtime::start().unwrap(), Runtime::start().unwrap());
    let other_handle = other.handle();
    let waited = runtime.call(move || {
        let again = other_handle.clone();
        let first = other_handle
            .call(|| 1)
            .and_then(move |number| again.call(move || number + 1))
            .map(|number| number * 10);
        let timed = other_handle.delay(Duration::from_millis(1)).map(|()| 2).wait().unwrap();
        let finished = ConcurrentFuture::ready(Ok::<_, JoinError>(1)).then(ConcurrentFuture::ready);
        first.wait().unwrap() + timed + finished.wait().unwrap()
    });
    assert_eq!(waited.wait(), Ok(23));
}

#[test]
fn a_finished_result_of_the_threads_own_loop_can_be_taken() {
    let runtime = Runtime::start().unwrap();
    let answer = runtime.call(|| 1).and_then(|number| ConcurrentFuture::ready(Ok::<_, JoinError>(number)));
    while !answer.is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(runtime.call(move || answer.wait().unwrap()).wait(), Ok(1));
}

#[test]
fn a_wait_on_a_loop_thread_ends_when_the_result_is_cancelled() {
    let runtime = Runtime::start().unwrap();
    let (promise, answer) = ConcurrentFuture::<i32>::pair();
    let waited = runtime.call(move || answer.then(ConcurrentFuture::ready).wait());
    drop(promise);
    assert!(waited.wait().unwrap().unwrap_err().is_cancelled());

    let (promise, answer) = ConcurrentFuture::<i32>::pair();
    let answer = answer.then(ConcurrentFuture::<i32>::ready);
    let handle = answer.cancel_handle();
    let waited = runtime.call(move || answer.wait());
    assert!(handle.cancel());
    assert!(waited.wait().unwrap().unwrap_err().is_cancelled());
    assert!(promise.is_cancelled());
}
