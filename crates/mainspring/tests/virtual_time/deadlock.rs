//! `Error::Deadlock`: when it is returned, when it is not, and what it says.

use crate::support::virtual_loop;
use crate::{HOUR, yield_thread_repeatedly};
use mainspring::net::UnixStream;
use mainspring::sync::{Event, Lock, Queue};
use mainspring::testing::{self, Deadlock};
use mainspring::{Builder, ConcurrentFuture, Error, EventLoop, sleep, spawn, spawn_named, timeout};
use std::future::pending;
use std::rc::Rc;

#[track_caller]
fn deadlock_of<F: IntoFuture>(future: F) -> Deadlock {
    let _watchdog = test_support::watchdog("a deadlock");
    match testing::run(future) {
        Err(Error::Deadlock(deadlock)) => deadlock,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the future was ready"),
    }
}

#[test]
fn two_tasks_that_wait_for_each_other_are_listed() {
    let deadlock = deadlock_of(async {
        let (one, other) = (Rc::new(Lock::new(())), Rc::new(Lock::new(())));
        let lock_both = |first: &Rc<Lock<()>>, second: &Rc<Lock<()>>| {
            let (first, second) = (Rc::clone(first), Rc::clone(second));
            async move {
                let _first = first.lock().await;
                sleep(HOUR).await;
                let _second = second.lock().await;
            }
        };
        let forwards = spawn_named("forwards", lock_both(&one, &other));
        let backwards = spawn_named("backwards", lock_both(&other, &one));
        let _ = (forwards.await, backwards.await);
    });
    let text = deadlock.to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "deadlock: nothing can continue the program");
    assert_eq!(lines[1], "  the main future waits for forwards");
    assert!(lines[2].starts_with("  forwards, spawned at ") && lines[2].contains("deadlock.rs:"), "{text}");
    assert!(lines[2].ends_with(", waits for Lock::lock"), "{text}");
    assert!(lines[3].starts_with("  backwards, ") && lines[3].ends_with(", waits for Lock::lock"), "{text}");
    assert_eq!(lines.len(), 4);
}

#[test]
fn each_wait_is_named() {
    let deadlock = deadlock_of(async {
        let event_loop = EventLoop::current();
        spawn(async { Event::new().wait().await });
        spawn(async { Queue::<u8>::new(0).get().await });
        spawn(event_loop.create_future::<()>());
        spawn(async {
            let (here, _there) = UnixStream::pair().unwrap();
            here.read_some(1).await
        });
        spawn(pending::<()>());
        // A wait that is over is not named.
        spawn(async {
            spawn(async {}).await.unwrap();
            pending::<()>().await;
        });
        let last = spawn(pending::<()>());
        last.set_name("last");
        last.await
    });
    let waits: Vec<_> = deadlock.tasks().iter().map(|task| task.waits_for.as_deref()).collect();
    assert_eq!(
        waits,
        [
            Some("last"),
            Some("Event::wait"),
            Some("an item of a queue or channel"),
            Some("Future"),
            Some("StreamReader::read"),
            None,
            None,
            None,
        ]
    );
    assert!(deadlock.tasks()[5].to_string().ends_with(" waits for an unknown event"));
}

#[test]
fn the_loop_can_be_used_after_a_deadlock() {
    let (event_loop, _) = virtual_loop();
    let event = Rc::new(Event::new());
    let waiting = Rc::clone(&event);
    let task = event_loop.spawn(async move { waiting.wait().await }).unwrap();
    let stuck = event_loop.run_until_complete(pending::<()>());
    assert!(matches!(stuck, Err(Error::Deadlock(_))));
    event.set();
    assert_eq!(event_loop.run_until_complete(task).unwrap(), Ok(()));
}

#[test]
fn a_timer_that_is_never_due_does_not_prevent_a_deadlock() {
    deadlock_of(mainspring::sleep_until(mainspring::Time::NEVER));
}

#[test]
fn a_pair_within_the_loop_that_nobody_writes_to_is_a_deadlock() {
    deadlock_of(async {
        let (here, _there) = UnixStream::pair().unwrap();
        here.read_some(1).await
    });
}

#[test]
fn a_thread_with_a_remote_may_continue_the_program() {
    let (event_loop, _) = virtual_loop();
    for _ in 0..20 {
        let remote = event_loop.remote();
        let thread = std::thread::spawn(move || {
            yield_thread_repeatedly();
            remote.stop()
        });
        let stopped = event_loop.run_until_complete(pending::<()>());
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        thread.join().unwrap().unwrap();
    }
    let stuck = event_loop.run_until_complete(pending::<()>());
    assert!(matches!(stuck, Err(Error::Deadlock(_))), "{stuck:?}");
}

#[test]
fn a_keep_alive_prevents_a_deadlock() {
    let (event_loop, _) = virtual_loop();
    let keep_alive = event_loop.remote().keep_alive();
    let (waker_sender, waker) = std::sync::mpsc::channel::<std::task::Waker>();
    let thread = std::thread::spawn(move || {
        let waker = waker.recv().unwrap();
        yield_thread_repeatedly();
        waker.wake();
        drop(keep_alive);
    });
    let mut polls = 0;
    event_loop
        .run_until_complete(std::future::poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                waker_sender.send(cx.waker().clone()).unwrap();
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(())
        }))
        .unwrap();
    thread.join().unwrap();
}

#[test]
fn a_promise_and_a_channel_of_another_thread_may_continue_the_program() {
    let (event_loop, _) = virtual_loop();
    let (promise, done) = ConcurrentFuture::<()>::pair();
    let (sender, mut receiver) = mainspring::sync::threadsafe::channel::<u8>(1);
    let thread = std::thread::spawn(move || {
        yield_thread_repeatedly();
        promise.set_result(());
        yield_thread_repeatedly();
        sender.blocking_send(7).unwrap();
    });
    let received = event_loop.run_until_complete(async {
        done.await.unwrap();
        receiver.recv().await
    });
    assert_eq!(received.unwrap(), Some(7));
    thread.join().unwrap();
}

#[test]
fn a_signal_handler_may_continue_the_program() {
    let (event_loop, _) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut signal =
                mainspring::signal::signal(mainspring::signal::SignalKind::window_change()).unwrap();
            let thread = std::thread::spawn(|| {
                yield_thread_repeatedly();
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::WINCH)
                    .unwrap();
            });
            signal.recv().await;
            thread.join().unwrap();
        })
        .unwrap();
}

#[test]
fn run_forever_waits_and_run_until_idle_returns() {
    let (event_loop, _) = virtual_loop();
    let remote = event_loop.remote();
    let thread = std::thread::spawn(move || {
        yield_thread_repeatedly();
        remote.stop()
    });
    event_loop.run_forever().unwrap();
    thread.join().unwrap().unwrap();
    event_loop.spawn(pending::<()>()).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 1);
}

#[test]
fn a_loop_with_real_time_has_no_deadlocks() {
    let event_loop = Builder::new().build().unwrap();
    let stopper = event_loop.clone();
    event_loop.call_later(std::time::Duration::from_millis(1), move || stopper.stop()).unwrap();
    assert!(matches!(event_loop.run_until_complete(pending::<()>()), Err(Error::Stopped)));
}

#[test]
fn a_timeout_ends_what_would_be_a_deadlock() {
    let ended = testing::run(async { timeout(HOUR, pending::<()>()).await.is_err() });
    assert!(ended.unwrap());
}
