//! Signal streams and handlers. Signal actions are process-wide, so every test uses another signal.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::signal::{Signal, SignalKind, ctrl_c, signal};
use mainspring::{Error, spawn};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

/// A real-time signal; each test has its own number.
fn real_time(number: i32) -> SignalKind {
    SignalKind::from_raw(libc::SIGRTMIN() + number)
}

fn raise(kind: SignalKind) {
    // SAFETY: `raise` is always allowed; the signal has a handler.
    assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
}

/// The process's current action for a signal, for comparison only.
fn action(kind: SignalKind) -> libc::sighandler_t {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the new action is null, so nothing changes; the call fills in the current action.
    unsafe {
        assert_eq!(libc::sigaction(kind.as_raw(), std::ptr::null(), action.as_mut_ptr()), 0);
        action.assume_init().sa_sigaction
    }
}

fn has_arrived(stream: &mut Signal) -> bool {
    stream.poll_recv(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Lets the loop read the signal pipe and deliver the signals.
fn deliver(event_loop: &mainspring::EventLoop) {
    run_one_iteration(event_loop);
    run_one_iteration(event_loop);
}

#[test]
fn a_signal_raised_before_recv_is_not_lost() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let mut stream = signal(real_time(0)).unwrap();
        assert_eq!(stream.kind(), real_time(0));
        raise(real_time(0));
        assert_eq!(stream.recv().await, Some(()));
        let waiting = spawn(async move { stream.recv().await });
        raise(real_time(0));
        assert_eq!(waiting.await, Ok(Some(())));
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn every_stream_and_the_handler_receive_a_signal() {
    let event_loop = new_loop();
    let kind = real_time(1);
    let log = Log::new();
    let mut streams = run_on(&event_loop, async { [signal(kind).unwrap(), signal(kind).unwrap()] });
    let called = log.clone();
    event_loop.add_signal_handler(kind.as_raw(), move || called.add("called")).unwrap();
    raise(kind);
    deliver(&event_loop);
    assert!(streams.iter_mut().all(has_arrived));
    assert!(!streams.iter_mut().any(has_arrived));
    log.assert(["called"]);
}

#[test]
fn signals_raised_before_one_is_received_are_coalesced() {
    let event_loop = new_loop();
    let kind = real_time(2);
    let mut stream = run_on(&event_loop, async { signal(kind).unwrap() });
    for _ in 0..3 {
        raise(kind);
    }
    deliver(&event_loop);
    assert!(has_arrived(&mut stream));
    assert!(!has_arrived(&mut stream));
}

#[test]
fn the_previous_action_is_restored_with_the_last_listener() {
    let event_loop = new_loop();
    let kind = real_time(3);
    let previous = action(kind);
    let [first, second] = run_on(&event_loop, async { [signal(kind).unwrap(), signal(kind).unwrap()] });
    event_loop.add_signal_handler(kind.as_raw(), || {}).unwrap();
    assert_ne!(action(kind), previous);
    drop(first);
    assert!(event_loop.remove_signal_handler(kind.as_raw()));
    assert_ne!(action(kind), previous);
    drop(second);
    assert_eq!(action(kind), previous);
    assert!(!event_loop.remove_signal_handler(kind.as_raw()));

    // A handler alone also keeps the action installed.
    let stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || {}).unwrap();
    drop(stream);
    assert_ne!(action(kind), previous);
    event_loop.close().unwrap();
    assert_eq!(action(kind), previous);
}

#[test]
fn a_signal_raised_before_its_listeners_were_removed_is_ignored() {
    let event_loop = new_loop();
    let kind = real_time(4);
    let stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || panic!("removed")).unwrap();
    let reports = collect_reports(&event_loop);
    raise(kind);
    event_loop.remove_signal_handler(kind.as_raw());
    drop(stream);
    deliver(&event_loop);
    reports.assert([]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn loops_in_two_threads_both_receive_a_signal() {
    let kind = real_time(5);
    let both_listen = Arc::new(Barrier::new(3));
    let threads = [(); 2].map(|()| {
        let both_listen = Arc::clone(&both_listen);
        std::thread::spawn(move || {
            run_on(&new_loop(), async move {
                let mut stream = signal(kind).unwrap();
                both_listen.wait();
                stream.recv().await
            })
        })
    });
    both_listen.wait();
    raise(kind);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Some(()));
    }
}

#[test]
fn cancelling_recv_loses_no_signal() {
    let event_loop = new_loop();
    let kind = real_time(6);
    run_on(&event_loop, async {
        let mut stream = signal(kind).unwrap();
        {
            let mut waiting = pin!(stream.recv());
            poll_fn(|cx| {
                assert!(waiting.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            raise(kind);
        }
        assert_eq!(stream.recv().await, Some(()));
    });
}

#[test]
fn closing_the_loop_ends_its_streams() {
    let (closed, other) = (new_loop(), new_loop());
    let mut stream = run_on(&closed, async { signal(real_time(7)).unwrap() });
    let waiting = other.spawn(async move { stream.recv().await }).unwrap();
    run_one_iteration(&other);
    closed.close().unwrap();
    assert_eq!(run_on(&other, waiting), Ok(None));
}

#[test]
fn a_stream_may_be_dropped_and_created_by_its_own_waker() {
    struct ReplacesStream(SignalKind);
    impl Wake for ReplacesStream {
        fn wake(self: Arc<Self>) {
            STREAM.take();
            STREAM.set(Some(signal(self.0).unwrap()));
            panic!("in the waker");
        }
    }
    thread_local! {
        static STREAM: std::cell::Cell<Option<Signal>> = const { std::cell::Cell::new(None) };
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let kind = real_time(8);
    let mut after = run_on(&event_loop, async {
        let mut stream = signal(kind).unwrap();
        let waker = Waker::from(Arc::new(ReplacesStream(kind)));
        assert!(stream.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        STREAM.set(Some(stream));
        signal(kind).unwrap()
    });
    raise(kind);
    deliver(&event_loop);
    assert!(has_arrived(&mut after));
    assert!(!has_arrived(&mut STREAM.take().unwrap()));
    reports.assert(["A waker panicked: panic: in the waker".to_owned()]);
    drop(after);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_panicking_handler_does_not_stop_delivery_to_streams() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let kind = real_time(9);
    let mut stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || panic!("in the callback")).unwrap();
    for _ in 0..2 {
        raise(kind);
        deliver(&event_loop);
        assert!(has_arrived(&mut stream));
    }
    reports.assert(vec!["A callback panicked: panic: in the callback".to_owned(); 2]);
}

#[test]
fn ctrl_c_waits_for_sigint_and_restores_its_action() {
    let event_loop = new_loop();
    let previous = action(SignalKind::interrupt());
    run_on(&event_loop, async {
        let mut waiting = pin!(ctrl_c());
        poll_fn(|cx| {
            assert!(waiting.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        raise(SignalKind::interrupt());
        waiting.await.unwrap();
    });
    assert_eq!(action(SignalKind::interrupt()), previous);
}

#[test]
fn uncatchable_signals_and_threads_without_a_loop_are_refused() {
    run_on(&new_loop(), async {
        for signum in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, -1, 1000] {
            let refused = signal(SignalKind::from_raw(signum)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    });
    assert!(signal(real_time(10)).is_err());
}

#[test]
fn a_signal_handler_is_called_by_the_loop() {
    let event_loop = new_loop();
    let log = Log::new();
    let (first, second) = (log.clone(), log.clone());
    event_loop.add_signal_handler(libc::SIGUSR1, move || first.add("replaced")).unwrap();
    let stopper = event_loop.clone();
    event_loop
        .add_signal_handler(libc::SIGUSR1, move || {
            second.add("handled");
            stopper.stop();
        })
        .unwrap();
    for _ in 0..2 {
        raise(SignalKind::from_raw(libc::SIGUSR1));
        event_loop.run_forever().unwrap();
    }
    log.assert(["handled", "handled"]);
    assert!(event_loop.remove_signal_handler(libc::SIGUSR1));
    assert!(!event_loop.remove_signal_handler(libc::SIGUSR1));
}

#[test]
fn a_handler_for_an_uncatchable_signal_is_an_error() {
    let event_loop = new_loop();
    for signum in [libc::SIGKILL, 0, -1] {
        assert!(matches!(event_loop.add_signal_handler(signum, || {}), Err(Error::Io(_))));
    }
}
