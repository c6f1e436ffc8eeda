//! The check of what a test leaves behind, checked: it finds a leak wherever it is made, and nothing where there is none.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::{EventLoop, Runtime};
use std::panic::catch_unwind;
use std::process::Termination;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use test_support::{checked, checked_within, for_good, meant_from_here};

/// Something that is never freed.
fn leak() {
    std::mem::forget(Box::new([7_u8; 40]));
}

/// What the check says of a test, if it finds fault with it.
fn fault<R: Termination>(
    test: impl FnOnce() -> R + Send + std::panic::UnwindSafe + 'static,
) -> Option<String> {
    // A leak is one at any time.
    let found = catch_unwind(|| checked_within(Duration::ZERO, test));
    found.err().map(|payload| match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    })
}

const A_LEAK: &str = "the test leaks 1 allocations, 40 bytes";

#[test]
fn a_leak_of_the_test_is_found() {
    assert_eq!(fault(leak).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_of_a_thread_that_the_test_starts_is_found() {
    assert_eq!(fault(|| thread::spawn(leak).join().unwrap()).as_deref(), Some(A_LEAK));
    let named = || thread::Builder::new().name("with a name".into()).spawn(leak).unwrap().join().unwrap();
    assert_eq!(fault(named).as_deref(), Some(A_LEAK));
    assert_eq!(fault(|| thread::scope(|scope| scope.spawn(leak).join().unwrap())).as_deref(), Some(A_LEAK));
}

#[test]
fn a_leak_of_a_thread_that_such_a_thread_starts_is_found() {
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
fn a_leak_of_a_test_that_gives_something_back_is_found() {
    let test = || {
        leak();
        Ok::<(), String>(())
    };
    assert_eq!(fault(test).as_deref(), Some(A_LEAK));
}

#[test]
fn what_goes_to_another_thread_and_is_freed_there_is_no_leak() {
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
fn what_is_made_for_good_or_leaked_on_purpose_is_nobodys_on_any_thread() {
    assert_eq!(fault(|| for_good(|| thread::spawn(leak).join().unwrap())), None);
    assert_eq!(fault(|| thread::spawn(|| for_good(leak)).join().unwrap()), None);
    let meant = || {
        meant_from_here();
        thread::spawn(leak).join().unwrap();
    };
    assert_eq!(fault(meant), None);
    let only_once = || {
        for_good(leak);
        leak();
    };
    assert_eq!(fault(only_once).as_deref(), Some(A_LEAK));
}

#[test]
fn a_test_that_gives_an_error_back_fails() {
    assert_eq!(fault(|| Err::<(), _>("refused")).as_deref(), Some("the test gave back a failure"));
}

#[test]
fn a_test_may_give_back_what_the_usual_ones_may() -> Result<(), std::num::ParseIntError> {
    let number: i32 = "17".parse()?;
    assert_eq!(number, 17);
    Ok(())
}

#[test]
#[should_panic(expected = "as it should")]
fn a_test_that_should_panic_is_not_looked_at_further() {
    leak();
    panic!("as it should");
}
