//! Blocking calls: `run_in_executor`, `to_thread`, and virtual time while jobs run.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, virtual_loop};
use mainspring::{Builder, EventLoop, ExecutorConfig, sleep, spawn, timeout, to_thread};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Virtual time.
const LATER: Duration = Duration::from_secs(10);

#[test]
fn a_blocking_call_runs_on_another_thread_and_returns_its_result() {
    let event_loop = new_loop();
    let loop_thread = std::thread::current().id();
    let job_thread = run_on(&event_loop, event_loop.run_in_executor(|| std::thread::current().id()).unwrap());
    assert_ne!(job_thread.unwrap(), loop_thread);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn executor_threads_are_named_after_the_library() {
    let event_loop = new_loop();
    let name = || std::thread::current().name().map(str::to_owned);
    let named = run_on(&event_loop, event_loop.run_in_executor(name).unwrap()).unwrap();
    assert_eq!(named.as_deref(), Some("mainspring-executor_0"));
}

#[test]
fn the_loop_runs_while_a_call_blocks() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let log = Log::new();
    let inside = log.clone();
    let blocking = event_loop.run_in_executor(move || blocked.recv()).unwrap();
    run_on(&event_loop, async move {
        let waiting = spawn({
            let log = inside.clone();
            async move {
                blocking.await.unwrap().unwrap();
                log.add("released");
            }
        });
        sleep(Duration::from_millis(1)).await;
        inside.add("slept meanwhile");
        release.send(()).unwrap();
        waiting.await.unwrap();
    });
    log.assert(["slept meanwhile", "released"]);
}

#[test]
fn a_panic_in_a_blocking_call_is_an_error_of_its_future() {
    let event_loop = new_loop();
    let result = run_on(&event_loop, event_loop.run_in_executor(|| panic!("blocking")).unwrap());
    assert_eq!(result.unwrap_err().to_string(), "panicked: blocking");
}

#[test]
fn the_builder_configures_the_executor() {
    let config = ExecutorConfig {
        max_threads: NonZeroUsize::MIN,
        name_prefix: "pool".to_owned(),
        ..Default::default()
    };
    let event_loop = Builder::new().executor(config).build().unwrap();
    let name = || std::thread::current().name().map(str::to_owned);
    let names = run_on(&event_loop, async {
        let event_loop = mainspring::EventLoop::current();
        let calls = [(); 3].map(|()| event_loop.run_in_executor(name).unwrap());
        let mut names = Vec::new();
        for call in calls {
            names.push(call.await.unwrap().unwrap());
        }
        names
    });
    assert_eq!(names, ["pool_0"; 3]);
    event_loop.shutdown_executor();
    assert!(event_loop.run_in_executor(|| ()).is_err());
}

#[test]
fn a_result_that_arrives_after_the_loop_is_closed_is_dropped() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let (done, dropped) = mpsc::channel::<()>();
    let blocking = event_loop
        .run_in_executor(move || {
            blocked.recv().unwrap();
            let _done = done;
        })
        .unwrap();
    let waiting = event_loop.spawn(blocking).unwrap();
    event_loop.close().unwrap();
    drop(event_loop);
    release.send(()).unwrap();
    assert!(dropped.recv().is_err());
    assert!(waiting.is_finished());
}

#[test]
fn virtual_time_does_not_advance_while_a_job_runs() {
    let (event_loop, _) = virtual_loop();
    let start = event_loop.time();
    run_on(&event_loop, async {
        let job = EventLoop::current().run_in_executor(yield_thread_repeatedly).unwrap();
        assert_eq!(timeout(LATER, job).await.unwrap(), Ok(()));
    });
    assert_eq!(event_loop.time(), start);
}

#[test]
fn virtual_time_advances_after_the_last_job_even_if_it_is_not_awaited() {
    let (event_loop, _) = virtual_loop();
    let start = event_loop.time();
    let is_done = Arc::new(AtomicBool::new(false));
    run_on(&event_loop, async {
        for _ in 0..3 {
            let done = Arc::clone(&is_done);
            let job = move || {
                yield_thread_repeatedly();
                done.store(true, Ordering::SeqCst);
            };
            drop(EventLoop::current().run_in_executor(job).unwrap());
        }
        sleep(LATER).await;
    });
    assert!(is_done.load(Ordering::SeqCst));
    assert_eq!(event_loop.time().saturating_duration_since(start), LATER);
}

#[test]
fn virtual_time_does_not_wait_for_results_other_than_jobs() {
    let (event_loop, _) = virtual_loop();
    let (_promise, never) = mainspring::ConcurrentFuture::<()>::pair();
    let (_sender, mut receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    run_on(&event_loop, async move {
        timeout(LATER, never).await.unwrap_err();
        timeout(LATER, receiver.recv()).await.unwrap_err();
    });
}

/// Takes long enough for the loop to become idle.
fn yield_thread_repeatedly() {
    for _ in 0..1000 {
        std::thread::yield_now();
    }
}

#[test]
fn to_thread_runs_on_another_thread_and_returns_errors_in_its_result() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let loop_thread = std::thread::current().id();
        assert_ne!(to_thread(|| std::thread::current().id()).await.unwrap(), loop_thread);
        let panicked = to_thread(|| panic!("blocking")).await.map(|_: ()| ());
        assert_eq!(panicked.unwrap_err().panic_text(), Some("blocking"));
        EventLoop::current().shutdown_default_executor(None).await.unwrap();
        assert!(to_thread(|| ()).await.unwrap_err().is_refused());
    });
    assert_leaves_nothing(&event_loop);
}
