//! Blocking calls in threads.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, virtual_loop};
use mainspring::{Builder, EventLoop, ExecutorConfig, sleep, spawn, timeout, to_thread};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Of virtual time.
const LATER: Duration = Duration::from_secs(10);

#[test]
fn a_blocking_call_runs_elsewhere_and_gives_its_result() {
    let event_loop = new_loop();
    let here = std::thread::current().id();
    let there = run_on(&event_loop, event_loop.run_in_executor(|| std::thread::current().id()).unwrap());
    assert_ne!(there.unwrap(), here);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn its_threads_bear_this_librarys_name_unless_they_are_given_another() {
    let event_loop = new_loop();
    let name = || std::thread::current().name().map(str::to_owned);
    let named = run_on(&event_loop, event_loop.run_in_executor(name).unwrap()).unwrap();
    assert_eq!(named.as_deref(), Some("mainspring-executor_0"));
}

#[test]
fn the_loop_goes_on_while_a_call_blocks() {
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
fn a_call_that_panics_tells_whoever_awaits_it() {
    let event_loop = new_loop();
    let result = run_on(&event_loop, event_loop.run_in_executor(|| panic!("blocking")).unwrap());
    assert_eq!(result.unwrap_err().to_string(), "panicked: blocking");
}

#[test]
fn the_executor_is_as_the_builder_says() {
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
fn a_result_that_comes_after_the_loop_is_closed_goes_nowhere() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel::<()>();
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
    assert!(is_done.recv().is_err());
    assert!(waiting.is_finished());
}

#[test]
fn virtual_time_stands_still_while_a_job_runs() {
    let (event_loop, _) = virtual_loop();
    let start = event_loop.time();
    run_on(&event_loop, async {
        let job = EventLoop::current().run_in_executor(take_a_while).unwrap();
        assert_eq!(timeout(LATER, job).await.unwrap(), Ok(()));
    });
    assert_eq!(event_loop.time(), start);
}

#[test]
fn virtual_time_goes_on_when_the_last_job_is_done_though_nobody_waits_for_it() {
    let (event_loop, _) = virtual_loop();
    let start = event_loop.time();
    let is_done = Arc::new(AtomicBool::new(false));
    run_on(&event_loop, async {
        for _ in 0..3 {
            let done = Arc::clone(&is_done);
            let job = move || {
                take_a_while();
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
fn virtual_time_does_not_wait_for_a_result_that_is_no_job() {
    let (event_loop, _) = virtual_loop();
    let (_promise, never) = mainspring::ConcurrentFuture::<()>::pair();
    let (_sender, mut receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    run_on(&event_loop, async move {
        timeout(LATER, never).await.unwrap_err();
        timeout(LATER, receiver.recv()).await.unwrap_err();
    });
}

/// Long enough for a loop to find that it has nothing else to do.
fn take_a_while() {
    for _ in 0..1000 {
        std::thread::yield_now();
    }
}

#[test]
fn to_thread_runs_elsewhere_and_has_its_errors_in_the_result() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let here = std::thread::current().id();
        assert_ne!(to_thread(|| std::thread::current().id()).await.unwrap(), here);
        let panicked = to_thread(|| panic!("out of luck")).await.map(|_: ()| ());
        assert_eq!(panicked.unwrap_err().panic_text(), Some("out of luck"));
        EventLoop::current().shutdown_default_executor(None).await.unwrap();
        assert!(to_thread(|| ()).await.unwrap_err().is_refused());
    });
    assert_leaves_nothing(&event_loop);
}
