//! Signals that are awaited. Actions are the whole process's, so every test has a signal of its own.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_pass};
use mainspring::signal::{Signal, SignalKind, ctrl_c, signal};
use mainspring::spawn;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};

/// A signal that no other test uses.
fn real_time(number: i32) -> SignalKind {
    SignalKind::from_raw(libc::SIGRTMIN() + number)
}

fn raise(kind: SignalKind) {
    // SAFETY: `raise` is always allowed; the signal has a handler.
    assert_eq!(unsafe { libc::raise(kind.as_raw()) }, 0);
}

/// What the process does with a signal: a number that only compares.
fn action(kind: SignalKind) -> libc::sighandler_t {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is put in place, and the call fills in what is there.
    unsafe {
        assert_eq!(libc::sigaction(kind.as_raw(), std::ptr::null(), action.as_mut_ptr()), 0);
        action.assume_init().sa_sigaction
    }
}

fn arrived(stream: &mut Signal) -> bool {
    stream.poll_recv(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Lets the loop take what the signal handlers have written, and deliver it.
fn deliver(event_loop: &mainspring::EventLoop) {
    run_one_pass(event_loop);
    run_one_pass(event_loop);
}

#[test]
fn a_signal_that_came_before_anybody_waited_is_there() {
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
fn every_stream_and_the_callback_are_told() {
    let event_loop = new_loop();
    let kind = real_time(1);
    let log = Log::new();
    let mut streams = run_on(&event_loop, async { [signal(kind).unwrap(), signal(kind).unwrap()] });
    let called = log.clone();
    event_loop.add_signal_handler(kind.as_raw(), move || called.add("called")).unwrap();
    raise(kind);
    deliver(&event_loop);
    assert!(streams.iter_mut().all(arrived));
    assert!(!streams.iter_mut().any(arrived));
    log.assert(["called"]);
}

#[test]
fn signals_that_come_before_the_former_is_taken_are_one() {
    let event_loop = new_loop();
    let kind = real_time(2);
    let mut stream = run_on(&event_loop, async { signal(kind).unwrap() });
    for _ in 0..3 {
        raise(kind);
    }
    deliver(&event_loop);
    assert!(arrived(&mut stream));
    assert!(!arrived(&mut stream));
}

#[test]
fn the_former_action_is_back_when_the_last_who_listens_is_gone() {
    let event_loop = new_loop();
    let kind = real_time(3);
    let former = action(kind);
    let [first, second] = run_on(&event_loop, async { [signal(kind).unwrap(), signal(kind).unwrap()] });
    event_loop.add_signal_handler(kind.as_raw(), || {}).unwrap();
    assert_ne!(action(kind), former);
    drop(first);
    assert!(event_loop.remove_signal_handler(kind.as_raw()));
    assert_ne!(action(kind), former);
    drop(second);
    assert_eq!(action(kind), former);
    assert!(!event_loop.remove_signal_handler(kind.as_raw()));

    // The callback alone keeps it as well.
    let stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || {}).unwrap();
    drop(stream);
    assert_ne!(action(kind), former);
    event_loop.close().unwrap();
    assert_eq!(action(kind), former);
}

#[test]
fn a_signal_that_was_announced_to_nobody_any_more_does_nothing() {
    let event_loop = new_loop();
    let kind = real_time(4);
    let stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || panic!("was removed")).unwrap();
    let reports = collect_reports(&event_loop);
    raise(kind);
    event_loop.remove_signal_handler(kind.as_raw());
    drop(stream);
    deliver(&event_loop);
    reports.assert([]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn two_loops_in_two_threads_both_hear_a_signal() {
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
fn a_wait_that_is_given_up_loses_no_signal() {
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
fn a_stream_of_a_closed_loop_is_at_its_end() {
    let (closed, other) = (new_loop(), new_loop());
    let mut stream = run_on(&closed, async { signal(real_time(7)).unwrap() });
    let waiting = other.spawn(async move { stream.recv().await }).unwrap();
    run_one_pass(&other);
    closed.close().unwrap();
    assert_eq!(run_on(&other, waiting), Ok(None));
}

#[test]
fn a_stream_may_be_dropped_and_made_inside_of_its_own_waker() {
    struct Meddler(SignalKind);
    impl Wake for Meddler {
        fn wake(self: Arc<Self>) {
            STREAM.take();
            STREAM.set(Some(signal(self.0).unwrap()));
            panic!("and then it panics");
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
        let waker = Waker::from(Arc::new(Meddler(kind)));
        assert!(stream.poll_recv(&mut Context::from_waker(&waker)).is_pending());
        STREAM.set(Some(stream));
        signal(kind).unwrap()
    });
    raise(kind);
    deliver(&event_loop);
    assert!(arrived(&mut after));
    assert!(!arrived(&mut STREAM.take().unwrap()));
    reports.assert(["A waker panicked: panic: and then it panics".to_owned()]);
    drop(after);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_callback_that_panics_keeps_no_stream_from_being_told() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let kind = real_time(9);
    let mut stream = run_on(&event_loop, async { signal(kind).unwrap() });
    event_loop.add_signal_handler(kind.as_raw(), || panic!("in the callback")).unwrap();
    for _ in 0..2 {
        raise(kind);
        deliver(&event_loop);
        assert!(arrived(&mut stream));
    }
    reports.assert(vec!["A callback panicked: panic: in the callback".to_owned(); 2]);
}

#[test]
fn ctrl_c_is_the_interrupt_and_is_given_back() {
    let event_loop = new_loop();
    let former = action(SignalKind::interrupt());
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
    assert_eq!(action(SignalKind::interrupt()), former);
}

#[test]
fn what_cannot_be_caught_is_refused_and_so_is_a_thread_without_a_loop() {
    run_on(&new_loop(), async {
        for signum in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, 0, -1, 1000] {
            let refused = signal(SignalKind::from_raw(signum)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    });
    assert!(signal(real_time(10)).is_err());
}
