//! How often a busy loop polls for I/O.

use crate::support::collect_reports;
use mainspring::{Builder, EventLoop, yield_now};
use mainspring_engine::testing::{FakeControl, FakePoller, Op};
use std::cell::Cell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

const ITERATIONS: usize = 200;

fn fake_loop(configure: impl FnOnce(Builder) -> Builder) -> (EventLoop, FakeControl) {
    let (backend, control) = FakePoller::open().unwrap();
    (configure(Builder::new().backend(backend)).build().unwrap(), control)
}

/// Counts the polls of `ITERATIONS` iterations in which a task is ready.
fn polls_of_a_busy_loop(event_loop: &EventLoop, control: &FakeControl) -> usize {
    control.take_log();
    event_loop
        .run_until_complete(async {
            for _ in 0..ITERATIONS {
                yield_now().await;
            }
        })
        .unwrap();
    control.take_log().iter().filter(|entry| entry.call.op() == Op::Park).count()
}

#[test]
fn every_iteration_polls_while_an_fd_is_registered() {
    let (event_loop, control) = fake_loop(|builder| builder);
    let reports = collect_reports(&event_loop);
    let (local, _peer) = UnixStream::pair().unwrap();
    event_loop.add_reader(&local, || ()).unwrap();
    assert!(polls_of_a_busy_loop(&event_loop, &control) >= ITERATIONS);
    assert!(event_loop.remove_reader(&local).unwrap());
    reports.assert([]);
}

#[test]
fn every_iteration_polls_while_a_signal_handler_is_registered() {
    let (event_loop, control) = fake_loop(|builder| builder);
    event_loop.add_signal_handler(12, || ()).unwrap();
    assert!(polls_of_a_busy_loop(&event_loop, &control) >= ITERATIONS);
    assert!(event_loop.remove_signal_handler(12));
}

#[test]
fn few_iterations_poll_while_nothing_is_registered() {
    let (event_loop, control) = fake_loop(|builder| builder);
    let polls = polls_of_a_busy_loop(&event_loop, &control);
    assert!((1..10).contains(&polls), "{polls}");
    // A removed registration does not count.
    let (local, _peer) = UnixStream::pair().unwrap();
    event_loop.add_reader(&local, || ()).unwrap();
    assert!(event_loop.remove_reader(&local).unwrap());
    assert!(polls_of_a_busy_loop(&event_loop, &control) < 10);
}

#[test]
fn poll_interval_bounds_the_iterations_between_polls() {
    for (interval, expected) in [(0, ITERATIONS), (1, ITERATIONS), (10, ITERATIONS / 10), (u32::MAX, 1)] {
        let (event_loop, control) = fake_loop(|builder| builder.poll_interval(interval));
        let (local, _peer) = UnixStream::pair().unwrap();
        event_loop.add_reader(&local, || ()).unwrap();
        let polls = polls_of_a_busy_loop(&event_loop, &control);
        assert!((expected..expected + 5).contains(&polls), "{polls} with an interval of {interval}");
        assert!(event_loop.remove_reader(&local).unwrap());
    }
}

#[test]
fn a_busy_loop_reports_readable_data_in_the_next_iteration() {
    let (event_loop, _control) = fake_loop(|builder| builder);
    let (local, mut peer) = UnixStream::pair().unwrap();
    let is_called = Rc::new(Cell::new(false));
    let inside = Rc::clone(&is_called);
    event_loop.add_reader(&local, move || inside.set(true)).unwrap();
    event_loop
        .run_until_complete(async {
            for _ in 0..100 {
                for _ in 0..20 {
                    yield_now().await;
                }
                is_called.set(false);
                peer.write_all(b"!").unwrap();
                // The next iteration's poll reports it, and its callback becomes ready before this task.
                yield_now().await;
                yield_now().await;
                assert!(is_called.get());
            }
        })
        .unwrap();
    assert!(event_loop.remove_reader(&local).unwrap());
}
