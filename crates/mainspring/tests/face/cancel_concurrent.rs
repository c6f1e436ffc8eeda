//! Giving up results that come from other threads: who is told, what stops, and where things are dropped.

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

/// Tells on which thread it is dropped.
struct Tells(Sender<ThreadId>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

/// A thing that may not be dropped on any other thread than the one it was made on.
struct Stays(ThreadId);

impl Stays {
    fn here() -> Self {
        Stays(std::thread::current().id())
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        assert_eq!(self.0, std::thread::current().id());
    }
}

#[test]
fn a_task_is_cancelled_and_dropped_on_its_own_thread() {
    let runtime = Runtime::start().unwrap();
    let home = runtime.call(|| std::thread::current().id()).wait().unwrap();
    let (tell, told) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let never = runtime.spawn(move || async move {
        let _tells = Tells(tell);
        begin.send(()).unwrap();
        pending::<()>().await;
    });
    begun.recv().unwrap();
    assert!(never.cancel());
    assert!(!never.cancel(), "once is enough");
    assert!(never.is_cancelled() && never.is_finished());
    assert!(never.wait().unwrap_err().is_cancelled());
    assert_eq!(told.recv(), Ok(home));
    runtime.shutdown().unwrap();
}

#[test]
fn a_task_is_told_as_cancelled_to_those_who_watch_it_on_the_loop() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let never = remote.spawn(pending::<()>).unwrap();
        sleep(Duration::ZERO).await;
        sleep(Duration::ZERO).await;
        let task = EventLoop::current().all_tasks().pop().unwrap();
        never.cancel();
        assert!(never.await.unwrap_err().is_cancelled());
        sleep(Duration::ZERO).await;
        assert!(task.cancelled());
    });
    reports.assert([]);
}

#[test]
fn a_task_that_has_not_begun_never_does() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let (tell, told) = mpsc::channel();
    let tells = Tells(tell);
    let never = remote
        .spawn(move || async move {
            drop(tells);
            unreachable!();
        })
        .unwrap();
    std::thread::spawn(move || assert!(never.cancel())).join().unwrap();
    told.try_recv().unwrap_err();
    event_loop.run_until_idle().unwrap();
    assert_eq!(told.try_recv(), Ok(std::thread::current().id()));
    assert_eq!(event_loop.all_tasks(), []);
}

#[test]
fn a_call_that_has_not_begun_is_not_made_and_its_closure_is_dropped_on_the_loops_thread() {
    let runtime = Runtime::start().unwrap();
    let home = runtime.call(|| std::thread::current().id()).wait().unwrap();
    // The loop is held up until the call behind it is cancelled.
    let (let_go, held) = mpsc::channel();
    runtime.call_soon_threadsafe(move || held.recv().unwrap()).unwrap();
    let (tell, told) = mpsc::channel();
    let tells = Tells(tell);
    let call = runtime.call(move || {
        let _tells = tells;
        unreachable!()
    });
    assert!(call.cancel());
    let result: Result<(), _> = call.wait();
    assert!(result.unwrap_err().is_cancelled(), "also while the loop is busy");
    told.try_recv().unwrap_err();
    let_go.send(()).unwrap();
    assert_eq!(told.recv(), Ok(home));
}

#[test]
fn a_job_that_waits_for_a_thread_is_not_run_and_one_that_runs_does_to_its_end() {
    let executor =
        Executor::new(ExecutorConfig { max_threads: NonZeroUsize::MIN, ..ExecutorConfig::default() });
    let event_loop = new_loop();
    let (let_go, held) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let runs = event_loop
        .run_on(&executor, move || {
            let _tells = Tells(tell);
            begin.send(()).unwrap();
            held.recv().unwrap();
        })
        .unwrap();
    let waits = event_loop.run_on(&executor, || unreachable!("it was cancelled")).unwrap();
    begun.recv().unwrap();
    assert!(waits.cancel() && runs.cancel());
    assert!(run_on(&event_loop, waits).unwrap_err().is_cancelled());
    assert!(run_on(&event_loop, runs).unwrap_err().is_cancelled());
    told.try_recv().unwrap_err();
    let_go.send(()).unwrap();
    told.recv().unwrap();
    executor.shutdown(true);
}

#[test]
fn a_result_that_is_there_wins() {
    let (promise, answer) = pair();
    promise.set_result(1);
    assert!(!answer.cancel());
    assert!(!answer.is_cancelled());
    assert_eq!(answer.wait(), Ok(1));
    // Also while those who look at it have it.
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
fn a_promise_kept_too_late_changes_nothing() {
    let (promise, answer) = pair();
    assert!(answer.cancel());
    assert!(promise.is_cancelled());
    promise.set_result(1);
    assert!(answer.is_cancelled());
    assert!(answer.wait().unwrap_err().is_cancelled());
}

#[test]
fn a_promise_that_nobody_kept_is_a_cancelled_future() {
    let (promise, answer) = pair::<()>();
    drop(promise);
    assert!(answer.is_cancelled() && !answer.cancel());
}

#[test]
fn all_that_a_future_is_composed_of_is_cancelled_with_it() {
    let runtime = Runtime::start().unwrap();
    let (tell, told) = mpsc::channel();
    let tells = Tells(tell);
    let composed = runtime
        .spawn(move || async move {
            let _tells = tells;
            pending::<i32>().await
        })
        .map(|number| number + 1)
        .and_then(|number| ConcurrentFuture::ready(Ok::<_, JoinError>(number)))
        .or_else(|_| -> ConcurrentFuture<i32> { unreachable!("nobody wants to recover") })
        .then(|_| -> ConcurrentFuture<()> { unreachable!("nobody wants more") })
        .err_into::<std::io::Error>();
    assert!(composed.cancel());
    assert!(composed.wait().is_err());
    told.recv().unwrap();
    runtime.shutdown().unwrap();
}

#[test]
fn what_a_future_went_on_with_is_cancelled_with_it() {
    let (promise, first) = pair::<()>();
    let (second_promise, second) = pair::<()>();
    let composed = first.and_then(move |()| second);
    promise.set_result(());
    assert!(!second_promise.is_cancelled());
    assert!(composed.cancel());
    assert!(second_promise.is_cancelled());
}

#[test]
fn a_closure_that_cancels_what_it_is_part_of_gives_up_what_it_goes_on_with() {
    let (promise, first) = pair::<()>();
    let (second_promise, second) = pair::<()>();
    let (hand_over, handle) = mpsc::channel::<mainspring::CancelHandle>();
    let composed = first.and_then(move |()| {
        assert!(handle.recv().unwrap().cancel());
        second
    });
    hand_over.send(composed.cancel_handle()).unwrap();
    promise.set_result(());
    assert!(second_promise.is_cancelled());
    assert!(composed.wait().unwrap_err().is_cancelled());
}

#[test]
fn one_in_the_middle_is_cancelled_upwards_and_told_downwards() {
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
fn a_chain_of_any_length_is_cancelled_with_the_stack_of_one_link() {
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
fn done_callbacks_are_told_of_a_cancellation_once_wherever_they_are_in_the_chain() {
    let (promise, first) = pair::<i32>();
    let (tell, told) = mpsc::channel();
    let also = tell.clone();
    first.add_done_callback(move |result| tell.send(("first", result.is_err())).unwrap());
    let second = first.map(|number| number + 1);
    second.add_done_callback(move |result| also.send(("second", result.is_err())).unwrap());
    second.cancel();
    drop(promise);
    assert_eq!(told.iter().collect::<Vec<_>>(), [("second", true), ("first", true)]);
}

#[test]
fn a_closure_whose_destructor_panics_keeps_nobody_from_being_cancelled() {
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
fn who_keeps_a_promise_can_wait_for_its_cancellation() {
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
fn dropping_a_future_cancels_nothing() {
    let runtime = Runtime::start().unwrap();
    let (tell, told) = mpsc::channel();
    drop(runtime.spawn(move || async move {
        sleep(Duration::from_millis(1)).await;
        tell.send("it ran").unwrap();
    }));
    assert_eq!(told.recv(), Ok("it ran"));
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
        let (hand_over, handle) = mpsc::channel::<mainspring::CancelHandle>();
        let task = remote
            .spawn(move || async move {
                let _stays = Stays::here();
                assert!(handle.recv().unwrap().cancel());
                sleep(Duration::ZERO).await;
                unreachable!("it is cancelled");
            })
            .unwrap();
        hand_over.send(task.cancel_handle()).unwrap();
        let result: Result<(), _> = task.await;
        log.add(result.unwrap_err().is_cancelled());
    });
    log.assert([true]);
    event_loop.run_until_idle().unwrap();
    assert_eq!(event_loop.all_tasks(), []);
}

#[test]
fn cancelling_after_the_loop_is_closed_finds_a_cancelled_future() {
    let event_loop = new_loop();
    let task = event_loop.remote().spawn(pending::<()>).unwrap();
    event_loop.close().unwrap();
    assert!(task.is_cancelled() && !task.cancel());
}

#[test]
fn a_cancellation_and_a_result_that_race_agree_about_who_won() {
    let runtime = Runtime::start().unwrap();
    for _ in 0..200 {
        let answer = runtime.spawn(|| async {
            let stays = Stays::here();
            mainspring::yield_now().await;
            drop(stays);
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
