//! Cancelling a `ConcurrentFuture`: what stops, which callbacks run, and on which thread values are dropped.

use crate::support::{Log, collect_reports, new_loop, run_on};
use mainspring::{ConcurrentFuture, EventLoop, Executor, ExecutorConfig, JoinError, Promise, Runtime, sleep};
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Sender};
use std::thread::ThreadId;
use std::time::Duration;

fn pair<T>() -> (Promise<T>, ConcurrentFuture<T>) {
    ConcurrentFuture::pair()
}

/// Sends the id of the thread that drops it.
struct SendsDropThread(Sender<ThreadId>);

impl Drop for SendsDropThread {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

/// Panics if it is dropped on another thread than the one that created it.
struct ThreadBound(ThreadId);

impl ThreadBound {
    fn new() -> Self {
        ThreadBound(std::thread::current().id())
    }
}

impl Drop for ThreadBound {
    fn drop(&mut self) {
        assert_eq!(self.0, std::thread::current().id());
    }
}

#[test]
fn a_cancelled_task_is_dropped_on_the_loop_thread() {
    let runtime = Runtime::start().unwrap();
    let loop_thread = runtime.call(|| std::thread::current().id()).wait().unwrap();
    let (sender, dropped_on) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let task = runtime.spawn(move || async move {
        let _on_drop = SendsDropThread(sender);
        start.send(()).unwrap();
        pending::<()>().await;
    });
    started.recv().unwrap();
    assert!(task.cancel());
    assert!(!task.cancel(), "cancelled already");
    assert!(task.is_cancelled() && task.is_finished());
    assert!(task.wait().unwrap_err().is_cancelled());
    assert_eq!(dropped_on.recv(), Ok(loop_thread));
    runtime.shutdown().unwrap();
}

#[test]
fn a_task_cancelled_from_outside_is_cancelled_on_its_loop() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let future = remote.spawn(pending::<()>).unwrap();
        sleep(Duration::ZERO).await;
        sleep(Duration::ZERO).await;
        let task = EventLoop::current().all_tasks().pop().unwrap();
        future.cancel();
        assert!(future.await.unwrap_err().is_cancelled());
        sleep(Duration::ZERO).await;
        assert!(task.cancelled());
    });
    reports.assert([]);
}

#[test]
fn a_task_cancelled_before_it_starts_never_runs() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let (sender, dropped_on) = mpsc::channel();
    let on_drop = SendsDropThread(sender);
    let task = remote
        .spawn(move || async move {
            drop(on_drop);
            unreachable!();
        })
        .unwrap();
    std::thread::spawn(move || assert!(task.cancel())).join().unwrap();
    dropped_on.try_recv().unwrap_err();
    event_loop.run_until_idle().unwrap();
    assert_eq!(dropped_on.try_recv(), Ok(std::thread::current().id()));
    assert_eq!(event_loop.all_tasks(), []);
}

#[test]
fn a_call_cancelled_before_it_runs_is_dropped_on_the_loop_thread() {
    let runtime = Runtime::start().unwrap();
    let loop_thread = runtime.call(|| std::thread::current().id()).wait().unwrap();
    // Block the loop until the next call is cancelled.
    let (release, blocked) = mpsc::channel();
    runtime.call_soon_threadsafe(move || blocked.recv().unwrap()).unwrap();
    let (sender, dropped_on) = mpsc::channel();
    let on_drop = SendsDropThread(sender);
    let call = runtime.call(move || {
        let _on_drop = on_drop;
        unreachable!()
    });
    assert!(call.cancel());
    let result: Result<(), _> = call.wait();
    assert!(result.unwrap_err().is_cancelled(), "even while the loop is blocked");
    dropped_on.try_recv().unwrap_err();
    release.send(()).unwrap();
    assert_eq!(dropped_on.recv(), Ok(loop_thread));
}

#[test]
fn cancelling_skips_a_queued_job_but_does_not_stop_a_running_one() {
    let executor =
        Executor::new(ExecutorConfig { max_threads: NonZeroUsize::MIN, ..ExecutorConfig::default() });
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let (sender, dropped_on) = mpsc::channel();
    let running = event_loop
        .run_on(&executor, move || {
            let _on_drop = SendsDropThread(sender);
            start.send(()).unwrap();
            blocked.recv().unwrap();
        })
        .unwrap();
    let queued = event_loop.run_on(&executor, || unreachable!("cancelled")).unwrap();
    started.recv().unwrap();
    assert!(queued.cancel() && running.cancel());
    assert!(run_on(&event_loop, queued).unwrap_err().is_cancelled());
    assert!(run_on(&event_loop, running).unwrap_err().is_cancelled());
    dropped_on.try_recv().unwrap_err();
    release.send(()).unwrap();
    dropped_on.recv().unwrap();
    executor.shutdown(true);
}

#[test]
fn a_finished_future_cannot_be_cancelled() {
    let (promise, answer) = pair();
    promise.set_result(1);
    assert!(!answer.cancel());
    assert!(!answer.is_cancelled());
    assert_eq!(answer.wait(), Ok(1));
    // Also while a done callback runs.
    let (promise, answer) = pair();
    let handle = answer.cancel_handle();
    answer.add_done_callback(move |result| {
        assert_eq!(result, &Ok(2));
        assert!(!handle.cancel());
    });
    promise.set_result(2);
    assert_eq!(answer.wait(), Ok(2));
}

#[test]
fn a_result_set_after_cancellation_is_ignored() {
    let (promise, answer) = pair();
    assert!(answer.cancel());
    assert!(promise.is_cancelled());
    promise.set_result(1);
    assert!(answer.is_cancelled());
    assert!(answer.wait().unwrap_err().is_cancelled());
}

#[test]
fn dropping_the_promise_cancels_the_future() {
    let (promise, answer) = pair::<()>();
    drop(promise);
    assert!(answer.is_cancelled() && !answer.cancel());
}

#[test]
fn cancelling_a_composed_future_cancels_its_source_task() {
    let runtime = Runtime::start().unwrap();
    let (sender, dropped_on) = mpsc::channel();
    let on_drop = SendsDropThread(sender);
    let composed = runtime
        .spawn(move || async move {
            let _on_drop = on_drop;
            pending::<i32>().await
        })
        .map(|number| number + 1)
        .and_then(|number| ConcurrentFuture::ready(Ok::<_, JoinError>(number)))
        .or_else(|_| -> ConcurrentFuture<i32> { unreachable!("cancelled, not failed") })
        .then(|_| -> ConcurrentFuture<()> { unreachable!("cancelled") })
        .err_into::<std::io::Error>();
    assert!(composed.cancel());
    assert!(composed.wait().is_err());
    dropped_on.recv().unwrap();
    runtime.shutdown().unwrap();
}

#[test]
fn cancelling_and_then_cancels_the_second_future() {
    let (promise, first) = pair::<()>();
    let (second_promise, second) = pair::<()>();
    let composed = first.and_then(move |()| second);
    promise.set_result(());
    assert!(!second_promise.is_cancelled());
    assert!(composed.cancel());
    assert!(second_promise.is_cancelled());
}

#[test]
fn a_closure_that_cancels_its_chain_also_cancels_the_future_it_returns() {
    let (promise, first) = pair::<()>();
    let (second_promise, second) = pair::<()>();
    let (handle_sender, handle) = mpsc::channel::<mainspring::CancelHandle>();
    let composed = first.and_then(move |()| {
        assert!(handle.recv().unwrap().cancel());
        second
    });
    handle_sender.send(composed.cancel_handle()).unwrap();
    promise.set_result(());
    assert!(second_promise.is_cancelled());
    assert!(composed.wait().unwrap_err().is_cancelled());
}

#[test]
fn cancelling_the_middle_of_a_chain_cancels_its_source_and_fails_its_successors() {
    let (promise, first) = pair::<i32>();
    let middle = first.map(|number| number + 1);
    let handle = middle.cancel_handle();
    let recovered = middle.or_else(|error| {
        assert!(error.is_cancelled());
        ConcurrentFuture::ready(Ok::<_, JoinError>(0))
    });
    assert!(handle.cancel());
    assert!(promise.is_cancelled());
    assert_eq!(recovered.wait(), Ok(0));
}

#[test]
fn cancelling_a_long_chain_does_not_overflow_the_stack() {
    let (promise, result) = pair::<u32>();
    let mut chain = result;
    for link in 0..100_000 {
        chain = if link % 2 == 0 {
            chain.map(|count| count + 1)
        } else {
            chain.and_then(|n| ConcurrentFuture::ready(Ok(n)))
        };
    }
    assert!(chain.cancel());
    assert!(promise.is_cancelled());
}

#[test]
fn every_done_callback_of_a_cancelled_chain_runs_once() {
    let (promise, first) = pair::<i32>();
    let (sender, results) = mpsc::channel();
    let second_sender = sender.clone();
    first.add_done_callback(move |result| sender.send(("first", result.is_err())).unwrap());
    let second = first.map(|number| number + 1);
    second.add_done_callback(move |result| second_sender.send(("second", result.is_err())).unwrap());
    second.cancel();
    drop(promise);
    assert_eq!(results.iter().collect::<Vec<_>>(), [("second", true), ("first", true)]);
}

#[test]
fn a_panicking_closure_destructor_does_not_stop_cancellation() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("bomb");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let (promise, result) = pair::<i32>();
        let bomb = Bomb;
        let composed = result.map(|n| n + 1).map(move |n| {
            let _bomb = &bomb;
            n
        });
        assert!(composed.cancel());
        assert!(promise.is_cancelled());
        assert!(composed.await.unwrap_err().is_cancelled());
    });
    reports.assert(["A destructor panicked: panic: bomb".to_owned()]);
}

#[test]
fn a_promise_can_await_its_cancellation() {
    let event_loop = new_loop();
    let (mut promise, answer) = pair::<()>();
    let handle = answer.cancel_handle();
    let other = std::thread::spawn(move || answer.wait());
    let cancelling = std::thread::spawn(move || assert!(handle.cancel()));
    run_on(&event_loop, promise.cancelled());
    run_on(&event_loop, promise.cancelled());
    cancelling.join().unwrap();
    assert!(other.join().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn dropping_a_future_does_not_cancel_it() {
    let runtime = Runtime::start().unwrap();
    let (sender, receiver) = mpsc::channel();
    drop(runtime.spawn(move || async move {
        sleep(Duration::from_millis(1)).await;
        sender.send("it ran").unwrap();
    }));
    assert_eq!(receiver.recv(), Ok("it ran"));
    let (promise, answer) = pair::<()>();
    let handle = answer.cancel_handle();
    drop(answer);
    assert!(!promise.is_cancelled() && !handle.is_finished());
    assert!(handle.cancel());
    assert!(promise.is_cancelled());
    drop(promise);
    assert!(!handle.cancel() && handle.is_finished());
}

#[test]
fn a_task_that_cancels_itself_ends_at_its_next_await() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let log = Log::new();
    run_on(&event_loop, async {
        let (handle_sender, handle) = mpsc::channel::<mainspring::CancelHandle>();
        let task = remote
            .spawn(move || async move {
                let _bound = ThreadBound::new();
                assert!(handle.recv().unwrap().cancel());
                sleep(Duration::ZERO).await;
                unreachable!("cancelled");
            })
            .unwrap();
        handle_sender.send(task.cancel_handle()).unwrap();
        let result: Result<(), _> = task.await;
        log.add(result.unwrap_err().is_cancelled());
    });
    log.assert([true]);
    event_loop.run_until_idle().unwrap();
    assert_eq!(event_loop.all_tasks(), []);
}

#[test]
fn closing_the_loop_cancels_its_futures() {
    let event_loop = new_loop();
    let task = event_loop.remote().spawn(pending::<()>).unwrap();
    event_loop.close().unwrap();
    assert!(task.is_cancelled() && !task.cancel());
}

#[test]
fn cancellation_racing_with_a_result_is_consistent() {
    let runtime = Runtime::start().unwrap();
    for _ in 0..200 {
        let answer = runtime.spawn(|| async {
            let bound = ThreadBound::new();
            mainspring::yield_now().await;
            drop(bound);
            1
        });
        let handle = answer.cancel_handle();
        let waiting = std::thread::spawn(move || answer.wait());
        let is_cancelled = handle.cancel();
        match waiting.join().unwrap() {
            Ok(number) => assert_eq!((number, is_cancelled), (1, false)),
            Err(error) => assert!(error.is_cancelled() && is_cancelled),
        }
    }
    runtime.shutdown().unwrap();
}
