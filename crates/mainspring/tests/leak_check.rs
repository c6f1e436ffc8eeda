//! Tests of the leak check: it finds every leak and reports no false one.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::{EventLoop, Runtime};
use std::panic::catch_unwind;
use std::process::Termination;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use test_support::{checked, checked_within, meant_from_here, untracked};

/// Leaks an allocation.
fn leak() {
    std::mem::forget(Box::new([7_u8; 40]));
}

/// The failure that the check reports for a test.
fn fault<R: Termination>(
    test: impl FnOnce() -> R + Send + std::panic::UnwindSafe + 'static,
) -> Option<String> {
    // No grace period: the leak is permanent.
    let found = catch_unwind(|| checked_within(Duration::ZERO, test));
    found.err().map(|payload| match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    })
}

const A_LEAK: &str = "the test leaks 1 allocations, 40 bytes";

#[test]
fn a_leak_of_the_tests_thread_is_found() {
    assert_eq!(fault(leak).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_of_a_spawned_thread_is_found() {
    assert_eq!(fault(|| thread::spawn(leak).join().unwrap()).as_deref(), Some(A_LEAK));
    let named = || thread::Builder::new().name("with a name".into()).spawn(leak).unwrap().join().unwrap();
    assert_eq!(fault(named).as_deref(), Some(A_LEAK));
    assert_eq!(fault(|| thread::scope(|scope| scope.spawn(leak).join().unwrap())).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_of_a_thread_spawned_by_a_thread_is_found() {
    let test = || thread::spawn(|| thread::spawn(leak).join().unwrap()).join().unwrap();
    assert_eq!(fault(test).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_in_the_executor_or_on_the_thread_of_a_runtime_is_found() {
    let in_executor = || {
        mainspring::run(async { EventLoop::current().run_in_executor(leak).unwrap().await.unwrap() })
            .unwrap();
    };
    assert_eq!(fault(in_executor).as_deref(), Some(A_LEAK));
    let in_runtime = || {
        let runtime = Runtime::start().unwrap();
        runtime.spawn(|| async { leak() }).wait().unwrap();
        runtime.shutdown().unwrap();
    };
    assert_eq!(fault(in_runtime).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_of_a_test_that_returns_a_value_is_found() {
    let test = || {
        leak();
        Ok::<(), String>(())
    };
    assert_eq!(fault(test).as_deref(), Some(A_LEAK));
}

#[test]
fn memory_freed_on_another_thread_is_no_leak() {
    checked(|| {
        let (sender, receiver) = mpsc::channel();
        let other = thread::spawn(move || sender.send(vec![1; 1000]).unwrap());
        assert_eq!(receiver.recv().unwrap().len(), 1000);
        other.join().unwrap();
    });
}

#[test]
fn a_thread_that_outlives_its_test_is_waited_for() {
    let (sender, receiver) = mpsc::channel::<()>();
    let late = thread::spawn(move || drop(sender));
    checked(move || {
        thread::spawn(move || {
            let kept = vec![1; 1000];
            let _ = receiver.recv();
            drop(kept);
        });
    });
    late.join().unwrap();
}

#[test]
fn untracked_and_deliberate_leaks_are_ignored_on_every_thread() {
    assert_eq!(fault(|| untracked(|| thread::spawn(leak).join().unwrap())), None);
    assert_eq!(fault(|| thread::spawn(|| untracked(leak)).join().unwrap()), None);
    let meant = || {
        meant_from_here();
        thread::spawn(leak).join().unwrap();
    };
    assert_eq!(fault(meant), None);
    let only_once = || {
        untracked(leak);
        leak();
    };
    assert_eq!(fault(only_once).as_deref(), Some(A_LEAK));
}

#[test]
fn a_test_that_returns_an_error_fails() {
    assert_eq!(fault(|| Err::<(), _>("refused")).as_deref(), Some("the test returned a failure"));
}

#[test]
fn a_test_may_return_a_result() -> Result<(), std::num::ParseIntError> {
    let number: i32 = "17".parse()?;
    assert_eq!(number, 17);
    Ok(())
}

#[test]
#[should_panic(expected = "as it should")]
fn a_test_that_should_panic_is_not_checked() {
    leak();
    panic!("as it should");
}
