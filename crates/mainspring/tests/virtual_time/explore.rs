//! `testing::explore`.

use crate::HOUR;
use crate::support::{Log, collect_reports};
use mainspring::testing::{Options, RealIo, explore};
use mainspring::{EventLoop, Time, sleep, spawn, time};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

/// Panics unless the first of two equal timers is first.
async fn expect_timers_in_order() {
    let log = Log::new();
    for number in 0..2_u8 {
        EventLoop::current().call_later(HOUR, log.adder(number)).unwrap();
    }
    sleep(2 * HOUR).await;
    assert_eq!(log.entries(), [0, 1], "wrong order");
}

#[test]
fn every_seed_runs_once_on_a_new_loop() {
    let seen = RefCell::new(Vec::new());
    let runs = explore(3..8, || async {
        assert_eq!(time::now(), Time::ZERO);
        sleep(HOUR).await;
        seen.borrow_mut().push(EventLoop::current().all_tasks().len());
        spawn(pending::<()>());
    });
    assert_eq!(runs.unwrap(), 5);
    assert_eq!(seen.take(), [0; 5]);
}

#[test]
fn the_first_failing_seed_is_reported_and_fails_again() {
    let runs = Cell::new(0);
    let found = explore(0..1000, || {
        runs.set(runs.get() + 1);
        expect_timers_in_order()
    });
    let error = found.unwrap_err();
    assert!(error.seed() < 20, "one of two orders fails");
    assert_eq!(runs.get(), error.seed() + 1, "later seeds do not run");
    let text = error.to_string();
    assert!(text.starts_with(&format!("seed {}: the test panicked: ", error.seed())), "{text}");
    assert!(text.contains("wrong order"), "{text}");
    let replay =
        format!("\nreplay it with mainspring::testing::Options::new().seed({}).run(...)", error.seed());
    assert!(text.ends_with(&replay), "{text}");
    assert_eq!(format!("{error:?}"), text);
    let again = error.options().explore([error.seed()], expect_timers_in_order).unwrap_err();
    assert_eq!(again.seed(), error.seed());
}

#[test]
fn a_deadlock_is_reported_with_all_options() {
    let options = Options::new().start(Time::from_nanos(7)).shuffle_ready(true).real_io(RealIo::Refuse);
    let error = options.explore([5], pending::<()>).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("seed 5: deadlock: nothing can continue the program\n"), "{text}");
    assert!(
        text.ends_with(
            "Options::new().seed(5).shuffle_ready(true).start(Time::from_nanos(7)).real_io(RealIo::Refuse).run(...)"
        ),
        "{text}"
    );
    assert_eq!(*error.options(), options.seed(5));
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_test_that_panics_before_its_future_exists_fails_too() {
    let error = explore(0..10, || -> std::future::Ready<()> { panic!("no future") }).unwrap_err();
    assert_eq!(error.seed(), 0);
}

#[test]
fn a_failing_run_drops_its_tasks() {
    let alive = Rc::new(());
    let error = explore(0..10, || {
        let alive = Rc::clone(&alive);
        async move {
            spawn(async move {
                let _alive = alive;
                pending::<()>().await
            });
            mainspring::yield_now().await;
            panic!("with a task");
        }
    });
    assert!(error.is_err());
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn within_a_running_loop_it_fails() {
    let error = mainspring::run(async { explore(0..10, || async {}).unwrap_err() }).unwrap();
    assert!(error.to_string().starts_with("seed 0: an event loop is already running"), "{error}");
}

#[test]
fn a_panic_that_only_the_exception_handler_would_get_is_found() {
    let in_a_callback = || async {
        EventLoop::current().call_soon(|| panic!("in a callback")).unwrap();
        sleep(HOUR).await;
    };
    let in_a_task = || async {
        spawn(async { panic!("in a task") });
        sleep(HOUR).await;
    };
    let at_the_end = || async {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("at the end");
            }
        }
        spawn(async {
            let _panics = Panics;
            pending::<()>().await
        });
        mainspring::yield_now().await;
    };
    let failures = [explore(0..10, in_a_callback), explore(0..10, in_a_task), explore(0..10, at_the_end)];
    for (failure, expected) in failures.into_iter().zip(["in a callback", "in a task", "at the end"]) {
        let error = failure.unwrap_err();
        assert_eq!(error.seed(), 0);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_program_with_an_exception_handler_handles_its_panics() {
    let runs = explore(0..10, || async {
        let reports = collect_reports(&EventLoop::current());
        spawn(async { panic!("in a task") });
        sleep(HOUR).await;
        assert_eq!(reports.entries().len(), 1);
    });
    assert_eq!(runs.unwrap(), 10);
}
