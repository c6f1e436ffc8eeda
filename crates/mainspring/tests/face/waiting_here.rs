//! Waiting for a result on a thread that runs a loop: it is refused where it would be for ever, and only there.

use mainspring::{ConcurrentFuture, JoinError, Runtime};
use std::sync::mpsc;
use std::time::Duration;

type Answer = ConcurrentFuture<i32>;

/// What comes of `wait()` on the runtime's own thread, for what `compose` makes of a call that is to run there.
fn waited_for_here(compose: impl FnOnce(Answer) -> Answer + Send + 'static) -> Result<i32, JoinError> {
    let runtime = Runtime::start().unwrap();
    let handle = runtime.handle();
    runtime.call(move || compose(handle.call(|| 1)).wait().unwrap()).wait()
}

#[track_caller]
fn assert_refused(result: Result<i32, JoinError>) {
    let error = result.unwrap_err();
    let text = error.panic_text().unwrap_or_default();
    assert!(text.starts_with("this thread runs the loop that is to produce the result"), "{error:?}");
}

#[test]
fn a_result_of_the_threads_own_loop_is_not_waited_for_however_it_is_composed() {
    let go_on = |number| ConcurrentFuture::ready(Ok::<i32, JoinError>(number));
    assert_refused(waited_for_here(|answer| answer));
    assert_refused(waited_for_here(|answer| answer.map(|number| number + 1)));
    assert_refused(waited_for_here(|answer| answer.map_err(|error| error)));
    assert_refused(waited_for_here(|answer| answer.map(Ok).flatten()));
    assert_refused(waited_for_here(move |answer| answer.and_then(go_on)));
    assert_refused(waited_for_here(|answer| answer.or_else(|error| ConcurrentFuture::ready(Err(error)))));
    assert_refused(waited_for_here(|answer| answer.then(ConcurrentFuture::ready)));
    assert_refused(waited_for_here(move |answer| {
        answer.map(|number| number).and_then(go_on).and_then(go_on)
    }));
}

#[test]
fn what_goes_on_with_the_threads_own_loop_is_not_waited_for_either() {
    for links in 0..3 {
        let (runtime, elsewhere) = (Runtime::start().unwrap(), Runtime::start().unwrap());
        let (handle, far) = (runtime.handle(), elsewhere.handle());
        let (begin, is_begun) = mpsc::channel::<()>();
        let waited = runtime.call(move || {
            // Elsewhere it waits until this thread is about to: what it goes on with is known only then.
            let mut answer = far.call(move || is_begun.recv().unwrap()).and_then(move |()| handle.call(|| 1));
            for _ in 0..links {
                answer = answer.and_then(|number| ConcurrentFuture::ready(Ok(number)));
            }
            begin.send(()).unwrap();
            answer.wait().unwrap()
        });
        assert_refused(waited.wait());
    }
}

#[test]
fn a_result_that_is_there_and_one_of_another_loop_are_waited_for() {
    let (runtime, elsewhere) = (Runtime::start().unwrap(), Runtime::start().unwrap());
    let far = elsewhere.handle();
    let waited = runtime.call(move || {
        let again = far.clone();
        let first =
            far.call(|| 1).and_then(move |number| again.call(move || number + 1)).map(|number| number * 10);
        let timed = far.delay(Duration::from_millis(1)).map(|()| 2).wait().unwrap();
        let there = ConcurrentFuture::ready(Ok::<_, JoinError>(1)).then(ConcurrentFuture::ready);
        first.wait().unwrap() + timed + there.wait().unwrap()
    });
    assert_eq!(waited.wait(), Ok(23));
}

#[test]
fn a_result_that_came_before_is_taken_on_the_threads_own_loop() {
    let runtime = Runtime::start().unwrap();
    let answer = runtime.call(|| 1).and_then(|number| ConcurrentFuture::ready(Ok::<_, JoinError>(number)));
    while !answer.is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(runtime.call(move || answer.wait().unwrap()).wait(), Ok(1));
}

#[test]
fn a_wait_beside_a_loop_ends_when_the_result_is_cancelled_or_its_promise_dropped() {
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
