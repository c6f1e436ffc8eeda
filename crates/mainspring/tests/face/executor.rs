//! Blocking calls in threads.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on};
use mainspring::{Builder, ExecutorConfig, sleep, spawn};
use std::num::NonZeroUsize;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn a_blocking_call_runs_elsewhere_and_gives_its_result() {
    let event_loop = new_loop();
    let here = std::thread::current().id();
    let there = run_on(&event_loop, event_loop.run_in_executor(|| std::thread::current().id()).unwrap());
    assert_ne!(there.unwrap(), here);
    assert_leaves_nothing(&event_loop);
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
