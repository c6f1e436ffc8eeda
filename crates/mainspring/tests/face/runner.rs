//! `Runner`, single passes, executors of the program's own.

use crate::support::{Log, new_loop, run_on};
use mainspring::{Elapsed, Error, EventLoop, Executor, ExecutorConfig, Runner, sleep, spawn};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn named(prefix: &str) -> Executor {
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
    assert_eq!(Rc::strong_count(&held), 1, "what is left is cancelled");
}

#[test]
fn a_runner_whose_future_panics_still_winds_up() {
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
fn one_pass_runs_what_is_ready_and_does_not_wait() {
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
fn an_executor_of_the_programs_own_serves_one_call_or_all() {
    let event_loop = new_loop();
    let own = named("own");
    assert_eq!(run_on(&event_loop, event_loop.run_on(&own, thread_name).unwrap()).unwrap(), "own_0");
    let shared = Arc::new(named("shared"));
    event_loop.set_default_executor(Arc::clone(&shared));
    assert_eq!(run_on(&event_loop, event_loop.run_in_executor(thread_name).unwrap()).unwrap(), "shared_0");
    event_loop.set_default_executor(named("other"));
    assert_eq!(run_on(&event_loop, event_loop.run_in_executor(thread_name).unwrap()).unwrap(), "other_0");
    assert!(shared.submit(Box::new(|| ())).is_err(), "shut down with its loop's favour");
    event_loop.close().unwrap();
    assert!(own.submit(Box::new(|| ())).is_ok(), "the program's own");
    assert!(matches!(event_loop.run_on(&own, || ()), Err(Error::Closed)));
}

#[test]
fn the_executor_is_waited_for_with_await_and_not_for_ever() {
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
            inside.add("the loop runs on");
            release.send(()).unwrap();
        });
        inner.shutdown_default_executor(None).await.unwrap();
        assert!(blocking.is_finished());
        meanwhile.await.unwrap();
    });
    log.assert(["the loop runs on"]);
}

#[test]
fn the_handler_of_exceptions_can_be_asked_for() {
    let event_loop = new_loop();
    assert!(event_loop.exception_handler().is_none());
    let log = Log::new();
    let told = log.clone();
    event_loop.set_exception_handler(move |context| told.add(context.to_string()));
    let handler = event_loop.exception_handler().unwrap();
    handler(&mainspring::ExceptionContext::new("by hand"));
    log.assert(["by hand".to_owned()]);
}
