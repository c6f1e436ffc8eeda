//! Running, stopping and closing a loop.

use crate::support::{Log, collect_reports, new_loop, run_one_iteration};
use mainspring::sync::oneshot;
use mainspring::{Error, EventLoop, sleep, spawn, yield_now};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_running_loop_cannot_be_run_again_or_closed() {
    let event_loop = new_loop();
    let inner = event_loop.clone();
    event_loop
        .run_until_complete(async {
            assert!(inner.is_running());
            assert!(matches!(inner.run_forever(), Err(Error::AlreadyRunning)));
            assert!(matches!(inner.run_until_complete(async {}), Err(Error::AlreadyRunning)));
            assert!(matches!(inner.close(), Err(Error::AlreadyRunning)));
            // The refused run does not affect this one.
            sleep(Duration::from_millis(1)).await;
        })
        .unwrap();
    assert!(!event_loop.is_running());
}

#[test]
fn a_run_refused_in_a_callback_does_not_affect_the_main_future() {
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
fn another_loop_cannot_run_inside_a_running_loop() {
    let (outer, inner) = (new_loop(), new_loop());
    let refused = outer.run_until_complete(async { inner.run_forever() }).unwrap();
    assert!(matches!(refused, Err(Error::AlreadyRunning)));
    assert!(matches!(
        mainspring::run(async { mainspring::run(async {}) }).unwrap(),
        Err(Error::AlreadyRunning)
    ));
}

#[test]
fn a_task_woken_while_another_loop_runs_continues_on_its_own_loop() {
    let (own, other) = (new_loop(), new_loop());
    let (sender, receiver) = oneshot::channel();
    let task = own.spawn(receiver).unwrap();
    run_one_iteration(&own);
    other
        .run_until_complete(async {
            sender.send(7).unwrap();
            yield_now().await;
            assert!(!task.is_finished(), "its loop is not running");
        })
        .unwrap();
    // Also not while no loop runs.
    assert!(!task.is_finished());
    assert_eq!(own.run_until_complete(task).unwrap(), Ok(Ok(7)));
}

#[test]
fn a_task_woken_between_two_runs_continues_in_the_next() {
    let event_loop = new_loop();
    let (sender, receiver) = oneshot::channel();
    let task = event_loop.spawn(receiver).unwrap();
    run_one_iteration(&event_loop);
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
fn closing_drops_scheduled_calls() {
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
fn a_destructor_run_by_close_may_use_the_loop_and_panic() {
    struct UsesLoopOnDrop(EventLoop);
    impl Drop for UsesLoopOnDrop {
        fn drop(&mut self) {
            assert!(matches!(self.0.call_soon(|| {}), Err(Error::Closed)));
            self.0.stop();
            panic!("in a destructor");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let guard = UsesLoopOnDrop(event_loop.clone());
    event_loop.call_soon(move || drop(guard)).unwrap();
    let guard = UsesLoopOnDrop(event_loop.clone());
    event_loop.call_later(Duration::from_secs(1), move || drop(guard)).unwrap();
    event_loop.close().unwrap();
    reports.assert(vec!["A destructor panicked: panic: in a destructor".to_owned(); 2]);
}

#[test]
fn run_until_complete_accepts_a_future_that_borrows() {
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
fn run_until_complete_fails_and_drops_the_future_if_the_loop_is_stopped() {
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
fn a_panic_of_the_main_future_reaches_the_caller_and_the_loop_can_run_again() {
    let event_loop = new_loop();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        event_loop.run_until_complete(async { panic!("main") })
    }));
    assert!(panicked.is_err());
    assert!(!event_loop.is_running());
    assert_eq!(event_loop.run_until_complete(async { 1 }).unwrap(), 1);
}

#[test]
fn a_main_future_waker_that_outlives_the_future_has_no_effect() {
    let event_loop = new_loop();
    let waker = event_loop
        .run_until_complete(std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())))
        .unwrap();
    waker.wake_by_ref();
    run_one_iteration(&event_loop);
    event_loop.close().unwrap();
    std::thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn the_loop_runs_one_more_iteration_after_the_main_future_completes() {
    let event_loop = new_loop();
    let log = Log::new();
    event_loop.call_soon(log.adder("ready before")).unwrap();
    let (inner, inside) = (event_loop.clone(), log.clone());
    event_loop
        .run_until_complete(async {
            inside.add("main");
            inner.call_soon(inside.adder("next iteration")).unwrap();
        })
        .unwrap();
    log.assert(["ready before", "main", "next iteration"]);
}

#[test]
fn run_cancels_remaining_tasks() {
    let log = Log::new();
    struct LogOnDrop(Log<&'static str>);
    impl Drop for LogOnDrop {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let guard = LogOnDrop(log.clone());
    let result = mainspring::run(async {
        spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        sleep(Duration::ZERO).await;
        "done"
    });
    assert_eq!(result.unwrap(), "done");
    log.assert(["dropped"]);
}

#[test]
fn run_cancels_tasks_that_cancelled_tasks_spawn() {
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
