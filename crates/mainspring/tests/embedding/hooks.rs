//! Hooks.

use crate::Log;
use mainspring::{Builder, EventLoop, sleep, yield_now};
use std::time::Duration;

#[test]
fn hooks_surround_each_iteration() {
    let log = Log::default();
    let event_loop = Builder::new()
        .on_iteration_begin(log.noting("begin"))
        .on_iteration_end(log.noting("end"))
        .build()
        .unwrap();
    event_loop.call_soon(log.noting("call")).unwrap();
    event_loop.run_once().unwrap();
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["begin", "call", "end", "begin", "end"]);
}

#[test]
fn on_idle_gets_the_timeout_and_may_prevent_the_wait() {
    let log = Log::default();
    let seen = log.clone();
    let event_loop = Builder::new()
        .on_idle(move |timeout| {
            seen.note(if timeout.is_some() { "with limit" } else { "without limit" });
            if timeout.is_none() {
                EventLoop::current().call_soon(|| EventLoop::current().stop()).unwrap();
            }
        })
        .build()
        .unwrap();
    event_loop.run_forever().unwrap();
    assert_eq!(log.take(), ["without limit"]);
    event_loop.run_until_complete(sleep(Duration::from_millis(1))).unwrap();
    assert!(log.take().iter().all(|timeout| timeout == "with limit"));
    event_loop.run_until_complete(yield_now()).unwrap();
    assert!(log.take().is_empty());
}

#[test]
fn the_panic_of_a_hook_is_reported() {
    let log = Log::default();
    let event_loop = Builder::new().on_iteration_end(|| panic!("out of luck")).build().unwrap();
    let reports = log.clone();
    event_loop.set_exception_handler(move |context| reports.note(context.to_string()));
    event_loop.run_once().unwrap();
    assert_eq!(log.take(), ["The hook on_iteration_end panicked: panic: out of luck"]);
}
