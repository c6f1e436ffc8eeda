//! The blocking wait: its duration, the events that end it, and the number of events it returns.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mainspring_engine::poller::{Interest, Key, Readiness};

use crate::support::{KEY, OTHER_KEY, Open, Rig, event, readable, silent};

pub fn a_wait_is_never_shorter_than_its_timeout(open: Open) {
    let mut rig = Rig::new(open());
    for micros in [0, 1, 100, 999, 1_000, 1_001, 2_500] {
        for _ in 0..5 {
            let timeout = Duration::from_micros(micros);
            let mut events = Vec::new();
            let begin = Instant::now();
            rig.parker.park(Some(timeout), usize::MAX, &mut events).unwrap();
            assert!(begin.elapsed() >= timeout, "{timeout:?} took only {:?}", begin.elapsed());
            assert_eq!(events, []);
        }
    }
}

pub fn a_huge_timeout_is_no_error(open: Open) {
    let mut rig = Rig::new(open());
    let fd = readable();
    rig.register(&fd, Interest::READ);
    let month = Duration::from_secs(31 * 24 * 60 * 60);
    for timeout in [month, Duration::from_secs(i64::MAX as u64), Duration::MAX] {
        let mut events = Vec::new();
        rig.parker.park(Some(timeout), usize::MAX, &mut events).unwrap();
        assert_eq!(events, [event(KEY, Readiness::INBOUND)]);
    }
}

pub fn a_wait_without_timeout_ends_with_an_event_from_another_thread(open: Open) {
    let mut rig = Rig::new(open());
    let fd = silent();
    rig.register(&fd, Interest::READ);
    let events = thread::scope(|scope| {
        scope.spawn(|| rustix::io::write(&fd, &1_u64.to_ne_bytes()).unwrap());
        rig.events()
    });
    assert_eq!(events, [event(KEY, Readiness::INBOUND)]);
}

pub fn an_edge_triggered_wake_up_is_reported_once_per_write_without_reading(open: Open) {
    let mut rig = Rig::new(open());
    let fd = silent();
    rig.register(&fd, Interest::WAKE);
    for _ in 0..3 {
        rustix::io::write(&fd, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
        assert_eq!(rig.events_now(), []);
    }
}

extern "C" fn ignore(_signal: libc::c_int) {}

pub fn a_signal_interrupts_the_wait(open: Open) {
    let mut rig = Rig::new(open());
    // SAFETY: the handler does nothing, so it may run at any point; `pthread_self` has no preconditions.
    let waiter = unsafe {
        libc::signal(libc::SIGUSR1, ignore as extern "C" fn(libc::c_int) as libc::sighandler_t);
        libc::pthread_self()
    };
    let interrupted = AtomicBool::new(false);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            // A signal that arrives before the wait is lost, so send signals until one interrupts it.
            while !interrupted.load(Ordering::Acquire) {
                // SAFETY: the scope keeps the waiter's thread alive until this one has ended.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        let outcome = rig.parker.park(None, usize::MAX, &mut Vec::new());
        interrupted.store(true, Ordering::Release);
        outcome.unwrap_err()
    });
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

pub fn events_are_appended(open: Open) {
    let mut rig = Rig::new(open());
    let fd = readable();
    rig.register(&fd, Interest::READ);
    let earlier = event(OTHER_KEY, Readiness::OUTBOUND);
    let mut events = vec![earlier];
    rig.parker.park(None, usize::MAX, &mut events).unwrap();
    assert_eq!(events, [earlier, event(KEY, Readiness::INBOUND)]);
}

pub fn events_beyond_one_wait_are_returned_by_the_next(open: Open) {
    let mut rig = Rig::new(open());
    let fds: Vec<_> = (0..260).map(|_| readable()).collect();
    let key = |slot| Key { slot, generation: 1 };
    for (slot, fd) in (0..).zip(&fds) {
        rig.poller.update(fd.as_fd().as_raw_fd(), key(slot), Interest::NONE, Interest::READ).unwrap();
    }
    // A wait that returned some events again before all others were returned would starve the others.
    let mut reported = HashSet::new();
    while reported.len() < fds.len() {
        let mut events = Vec::new();
        rig.parker.park(None, 32, &mut events).unwrap();
        let new = events.iter().filter(|event| reported.insert(event.key)).count();
        assert!(new == events.len() || reported.len() == fds.len(), "{new} new events of {}", events.len());
    }
    assert_eq!(reported, (0..260).map(key).collect());
}

pub fn a_wait_returns_at_most_the_requested_number_of_events(open: Open) {
    let mut rig = Rig::new(open());
    let fds = [readable(), readable(), readable()];
    for (slot, fd) in (0..).zip(&fds) {
        rig.poller
            .update(fd.as_fd().as_raw_fd(), Key { slot, generation: 1 }, Interest::NONE, Interest::READ)
            .unwrap();
    }
    for (max_events, reported) in [(1, 1), (2, 2), (3, 3), (4, 3), (usize::MAX, 3)] {
        let mut events = Vec::new();
        rig.parker.park(None, max_events, &mut events).unwrap();
        assert_eq!(events.len(), reported);
    }
}
