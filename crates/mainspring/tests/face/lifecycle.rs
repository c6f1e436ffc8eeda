//! Running, stopping, closing.

use crate::support::{Log, collect_reports, new_loop, run_one_pass};
use mainspring::sync::oneshot;
use mainspring::{Error, EventLoop, sleep, spawn, yield_now};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_running_loop_cannot_be_entered_again_nor_closed() {
    let event_loop = new_loop();
    let inner = event_loop.clone();
    event_loop
        .run_until_complete(async {
            assert!(inner.is_running());
            assert!(matches!(inner.run_forever(), Err(Error::AlreadyRunning)));
            assert!(matches!(inner.run_until_complete(async {}), Err(Error::AlreadyRunning)));
            assert!(matches!(inner.close(), Err(Error::AlreadyRunning)));
            // The refused run has not disturbed this one.
            sleep(Duration::from_millis(1)).await;
        })
        .unwrap();
    assert!(!event_loop.is_running());
}

#[test]
fn a_run_that_is_refused_in_a_callback_leaves_the_main_future_alone() {
    let event_loop = new_loop();
    let inner = event_loop.clone();
    event_loop
        .call_later(Duration::from_millis(1), move || {
            assert!(matches!(inner.run_until_complete(async {}), Err(Error::AlreadyRunning)));
        })
        .unwrap();
    event_loop.run_until_complete(sleep(Duration::from_millis(2))).unwrap();
}

#[test]
fn another_loop_cannot_run_inside_a_running_one() {
    let (outer, inner) = (new_loop(), new_loop());
    let refused = outer.run_until_complete(async { inner.run_forever() }).unwrap();
    assert!(matches!(refused, Err(Error::AlreadyRunning)));
    assert!(matches!(
        mainspring::run(async { mainspring::run(async {}) }).unwrap(),
        Err(Error::AlreadyRunning)
    ));
}

#[test]
fn a_task_that_is_woken_while_another_loop_runs_here_goes_on_in_its_own() {
    let (own, other) = (new_loop(), new_loop());
    let (sender, receiver) = oneshot::channel();
    let task = own.spawn(receiver).unwrap();
    run_one_pass(&own);
    other
        .run_until_complete(async {
            sender.send(7).unwrap();
            yield_now().await;
            assert!(!task.is_finished(), "its loop does not run");
        })
        .unwrap();
    // Nor between two runs, when none runs here.
    assert!(!task.is_finished());
    assert_eq!(own.run_until_complete(task).unwrap(), Ok(Ok(7)));
}

#[test]
fn a_task_that_is_woken_between_two_runs_goes_on_in_the_next() {
    let event_loop = new_loop();
    let (sender, receiver) = oneshot::channel();
    let task = event_loop.spawn(receiver).unwrap();
    run_one_pass(&event_loop);
    sender.send(7).unwrap();
    assert!(!task.is_finished());
    assert_eq!(event_loop.run_until_complete(task).unwrap(), Ok(Ok(7)));
}

#[test]
fn a_closed_loop_refuses_everything() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    event_loop.close().unwrap();
    event_loop.close().unwrap();
    assert!(event_loop.is_closed() && remote.is_closed());
    assert!(matches!(event_loop.run_forever(), Err(Error::Closed)));
    assert!(matches!(event_loop.run_until_complete(async {}), Err(Error::Closed)));
    assert!(matches!(event_loop.call_soon(|| {}), Err(Error::Closed)));
    assert!(matches!(event_loop.call_later(Duration::ZERO, || {}), Err(Error::Closed)));
    assert!(matches!(event_loop.spawn(async {}), Err(Error::Closed)));
    assert!(matches!(event_loop.add_reader(&0, || {}), Err(Error::Closed)));
    assert!(matches!(event_loop.remove_writer(&0), Err(Error::Closed)));
    assert!(matches!(event_loop.add_signal_handler(10, || {}), Err(Error::Closed)));
    assert!(matches!(event_loop.run_in_executor(|| ()), Err(Error::Closed)));
    assert!(matches!(remote.call_soon_threadsafe(|| {}), Err(Error::Closed)));
    assert!(matches!(remote.stop(), Err(Error::Closed)));
}

#[test]
fn closing_drops_what_was_scheduled() {
    let event_loop = new_loop();
    let held = Rc::new(());
    for _ in 0..2 {
        let in_closure = Rc::clone(&held);
        event_loop.call_soon(move || drop(in_closure)).unwrap();
        let in_closure = Rc::clone(&held);
        event_loop.call_later(Duration::from_secs(1), move || drop(in_closure)).unwrap();
    }
    assert_eq!(Rc::strong_count(&held), 5);
    event_loop.close().unwrap();
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn dropping_the_last_handle_closes_the_loop() {
    let event_loop = new_loop();
    let remote = event_loop.remote();
    let other = event_loop.clone();
    drop(event_loop);
    assert!(!remote.is_closed());
    drop(other);
    assert!(remote.is_closed());
}

#[test]
fn what_is_dropped_at_close_may_use_the_loop_and_panic() {
    struct Meddler(EventLoop);
    impl Drop for Meddler {
        fn drop(&mut self) {
            assert!(matches!(self.0.call_soon(|| {}), Err(Error::Closed)));
            self.0.stop();
            panic!("in a destructor");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let meddler = Meddler(event_loop.clone());
    event_loop.call_soon(move || drop(meddler)).unwrap();
    let meddler = Meddler(event_loop.clone());
    event_loop.call_later(Duration::from_secs(1), move || drop(meddler)).unwrap();
    event_loop.close().unwrap();
    reports.assert(vec!["A destructor panicked: panic: in a destructor".to_owned(); 2]);
}

#[test]
fn run_until_complete_gives_the_result_of_a_future_that_borrows() {
    let event_loop = new_loop();
    let mut text = String::from("a");
    let length = event_loop.run_until_complete(async {
        text.push('b');
        sleep(Duration::from_millis(1)).await;
        text.len()
    });
    assert_eq!(length.unwrap(), 2);
}

#[test]
fn a_future_whose_loop_is_stopped_first_is_dropped_with_an_error() {
    let event_loop = new_loop();
    let stopper = event_loop.clone();
    event_loop.call_soon(move || stopper.stop()).unwrap();
    let held = Rc::new(());
    let inside = Rc::clone(&held);
    let result = event_loop.run_until_complete(async move {
        let _inside = inside;
        std::future::pending::<()>().await;
    });
    assert!(matches!(result, Err(Error::Stopped)));
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_main_future_that_panics_does_so_in_its_caller_and_the_loop_can_go_on() {
    let event_loop = new_loop();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        event_loop.run_until_complete(async { panic!("main") })
    }));
    assert!(panicked.is_err());
    assert!(!event_loop.is_running());
    assert_eq!(event_loop.run_until_complete(async { 1 }).unwrap(), 1);
}

#[test]
fn a_waker_of_the_main_future_that_outlives_it_is_harmless() {
    let event_loop = new_loop();
    let waker = event_loop
        .run_until_complete(std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())))
        .unwrap();
    waker.wake_by_ref();
    run_one_pass(&event_loop);
    event_loop.close().unwrap();
    std::thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn the_main_future_waits_its_turn_and_the_loop_stops_one_pass_after_it() {
    let event_loop = new_loop();
    let log = Log::new();
    event_loop.call_soon(log.adder("ready before")).unwrap();
    let (inner, inside) = (event_loop.clone(), log.clone());
    event_loop
        .run_until_complete(async {
            inside.add("main");
            inner.call_soon(inside.adder("pass after")).unwrap();
        })
        .unwrap();
    log.assert(["ready before", "main", "pass after"]);
}

#[test]
fn run_cancels_what_is_left() {
    let log = Log::new();
    struct Goodbye(Log<&'static str>);
    impl Drop for Goodbye {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let left = Goodbye(log.clone());
    let result = mainspring::run(async {
        spawn(async move {
            let _left = left;
            std::future::pending::<()>().await;
        });
        sleep(Duration::ZERO).await;
        "done"
    });
    assert_eq!(result.unwrap(), "done");
    log.assert(["dropped"]);
}

#[test]
fn run_also_cancels_what_is_spawned_by_what_it_cancels() {
    struct Respawn(Option<Rc<()>>);
    impl Drop for Respawn {
        fn drop(&mut self) {
            let inside = self.0.take();
            spawn(async move {
                let _inside = inside;
                std::future::pending::<()>().await;
            });
        }
    }
    let held = Rc::new(());
    let respawn = Respawn(Some(Rc::clone(&held)));
    mainspring::run(async {
        spawn(async move {
            let _respawn = respawn;
            std::future::pending::<()>().await;
        });
        sleep(Duration::ZERO).await;
    })
    .unwrap();
    assert_eq!(Rc::strong_count(&held), 1);
}
