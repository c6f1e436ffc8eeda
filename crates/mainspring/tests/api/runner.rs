//! `Runner`, `run_once`, user-supplied executors.

use crate::support::{Log, new_loop, run_on};
use mainspring::{Elapsed, Error, EventLoop, Executor, ExecutorConfig, Runner, sleep, spawn};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn executor(prefix: &str) -> Executor {
    Executor::new(ExecutorConfig {
        name_prefix: prefix.to_owned(),
        max_threads: NonZeroUsize::MIN,
        ..Default::default()
    })
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn a_runner_runs_several_futures_on_one_loop() {
    let log = Log::new();
    let held = Rc::new(());
    let inside = Rc::clone(&held);
    let mut runner = Runner::new().debug(true).configure(|builder| builder.name("one"));
    let task_log = log.clone();
    runner
        .run(async {
            assert!(EventLoop::current().is_debug());
            spawn(async move {
                let _inside = inside;
                sleep(Duration::ZERO).await;
                task_log.add("between");
                std::future::pending::<()>().await;
            });
        })
        .unwrap();
    let name = runner.run(async {
        sleep(Duration::ZERO).await;
        EventLoop::current().name().to_owned()
    });
    assert_eq!(name.unwrap(), "one");
    log.assert(["between"]);
    assert_eq!(Rc::strong_count(&held), 2);
    drop(runner);
    assert_eq!(Rc::strong_count(&held), 1, "remaining tasks are cancelled");
}

#[test]
fn run_cancels_remaining_tasks_after_a_panic() {
    let held = Rc::new(());
    let inside = Rc::clone(&held);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mainspring::run(async move {
            spawn(async move {
                let _inside = inside;
                std::future::pending::<()>().await;
            });
            sleep(Duration::ZERO).await;
            panic!("main");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn run_once_runs_ready_calls_and_does_not_block() {
    let event_loop = new_loop();
    let log = Log::new();
    event_loop.call_later(Duration::from_secs(3600), || unreachable!()).unwrap();
    event_loop.run_once().unwrap();
    let (inner, inside) = (event_loop.clone(), log.clone());
    event_loop
        .call_soon(move || {
            inside.add("one");
            inner.call_soon(inside.adder("two")).unwrap();
            assert!(matches!(inner.run_once(), Err(Error::AlreadyRunning)));
        })
        .unwrap();
    event_loop.run_once().unwrap();
    log.assert(["one"]);
    event_loop.run_once().unwrap();
    log.assert(["one", "two"]);
    event_loop.close().unwrap();
    assert!(matches!(event_loop.run_once(), Err(Error::Closed)));
}

#[test]
fn a_user_supplied_executor_can_run_one_call_or_be_the_default() {
    let event_loop = new_loop();
    let own = executor("own");
    assert_eq!(run_on(&event_loop, event_loop.run_on(&own, thread_name).unwrap()).unwrap(), "own_0");
    let shared = Arc::new(executor("shared"));
    event_loop.set_default_executor(Arc::clone(&shared));
    assert_eq!(run_on(&event_loop, event_loop.run_in_executor(thread_name).unwrap()).unwrap(), "shared_0");
    event_loop.set_default_executor(executor("other"));
    assert_eq!(run_on(&event_loop, event_loop.run_in_executor(thread_name).unwrap()).unwrap(), "other_0");
    assert!(shared.submit(Box::new(|| ())).is_err(), "shut down when it was replaced as the default");
    event_loop.close().unwrap();
    assert!(own.submit(Box::new(|| ())).is_ok(), "not the loop's executor");
    assert!(matches!(event_loop.run_on(&own, || ()), Err(Error::Closed)));
}

#[test]
fn shutdown_default_executor_can_be_awaited_with_a_timeout() {
    let event_loop = new_loop();
    let (release, blocked) = mpsc::channel::<()>();
    let blocking = event_loop.run_in_executor(move || blocked.recv()).unwrap();
    let log = Log::new();
    let (inner, inside) = (event_loop.clone(), log.clone());
    run_on(&event_loop, async move {
        let waited = inner.shutdown_default_executor(Some(Duration::from_millis(1))).await;
        assert_eq!(waited, Err(Elapsed));
        assert!(matches!(inner.run_in_executor(|| ()), Err(Error::Closed)));
        let meanwhile = spawn(async move {
            inside.add("loop still running");
            release.send(()).unwrap();
        });
        inner.shutdown_default_executor(None).await.unwrap();
        assert!(blocking.is_finished());
        meanwhile.await.unwrap();
    });
    log.assert(["loop still running"]);
}

#[test]
fn exception_handler_returns_the_installed_handler() {
    let event_loop = new_loop();
    assert!(event_loop.exception_handler().is_none());
    let log = Log::new();
    let reports = log.clone();
    event_loop.set_exception_handler(move |context| reports.add(context.to_string()));
    let handler = event_loop.exception_handler().unwrap();
    handler(&mainspring::ExceptionContext::new("message"));
    log.assert(["message".to_owned()]);
}
