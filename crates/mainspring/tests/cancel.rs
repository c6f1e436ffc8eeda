//! Cancellation: every awaitable operation is dropped after every number of polls.
//!
//! A cancelled operation leaves nothing on the loop: no registered fd, no timer, no open fd. It loses no data: the next
//! operation gets it.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod support;

use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Metrics, Task, sleep, spawn, timeout};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;
use support::TestLoop;
use support::polls::given_up_after;
use support::probe::{Probe, ProbeProtocol, probe_server};
use test_support::pattern;
use test_support::{TestBackend, isolated};

/// More polls than any of these operations needs.
const MAX_POLLS: usize = 100;

/// A write is sent in chunks of this size.
const CHUNK: usize = 256 * 1024;

fn on_both(name: &str, test: impl Fn(&TestLoop)) {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("{name} on {on:?}"));
            test(&test_loop);
            test_loop.assert_reports(&[]);
            test_loop.assert_idle();
        }
    });
}

/// Cancels `operation` after 0, 1, 2, ... polls, until it completes earlier. Runs `check` after each attempt.
fn cancel_at_every_poll<T>(test_loop: &TestLoop, operation: impl AsyncFn() -> T, check: impl Fn(usize)) -> T {
    for polls in 0..MAX_POLLS {
        if let Some(done) = test_loop.run(given_up_after(polls, operation())) {
            assert!(polls > 0, "{}: done without a poll", test_loop.name());
            return done;
        }
        check(polls);
    }
    panic!("{}: not done after {MAX_POLLS} polls", test_loop.name());
}

/// Runs iterations until the loop's metrics are back to `before`.
fn assert_back_to(test_loop: &TestLoop, before: Metrics) {
    test_loop.until("the loop's metrics are back to the start", || test_loop.event_loop.metrics() == before);
}

#[test]
fn a_cancelled_connection_is_closed_and_lost_once() {
    on_both("create_connection", |test_loop| {
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let before = test_loop.event_loop.metrics();
        let made = std::cell::RefCell::new(Vec::new());
        let connect = async || {
            let probe = Probe::new("the client");
            made.borrow_mut().push(Rc::clone(&probe));
            test_loop.event_loop.create_connection(server.local_addr(), || ProbeProtocol(probe)).await
        };
        let check = |polls| {
            assert_back_to(test_loop, before);
            for probe in made.borrow().iter().chain(accepted.borrow().iter()) {
                assert_eq!(probe.made.get(), probe.lost.get(), "after {polls} polls");
                probe.assert_in_order(None, test_loop.name());
            }
        };
        let (transport, _) = cancel_at_every_poll(test_loop, connect, check).unwrap();
        transport.close();
        test_loop.until("the connection is lost", || {
            made.borrow().last().is_some_and(|probe| probe.lost.get() == 1)
        });
        drop(server);
    });
}

#[test]
fn a_cancelled_connect_leaves_nothing() {
    on_both("TcpStream::connect", |test_loop| {
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let before = test_loop.event_loop.metrics();
        let connect = async || TcpStream::connect(server.local_addr()).await;
        let stream = cancel_at_every_poll(test_loop, connect, |_| assert_back_to(test_loop, before)).unwrap();
        test_loop.run(stream.write_all(pattern(10))).unwrap();
        let last = || accepted.borrow().last().cloned();
        test_loop
            .until("the connection works", || last().is_some_and(|peer| peer.received.borrow().len() == 10));
        drop((stream, server));
    });
}

#[test]
fn tasks_cancelled_while_connecting_leave_nothing() {
    on_both("cancelled tasks", |test_loop| {
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let (before, address) = (test_loop.event_loop.metrics(), server.local_addr());
        for iterations in 0..12 {
            let event_loop = test_loop.event_loop.clone();
            let connect_and_read = async move {
                let probe = Probe::new("the client");
                let (transport, _) = event_loop.create_connection(address, || ProbeProtocol(probe)).await?;
                let stream = TcpStream::connect(address).await?;
                stream.write_all(pattern(10)).await?;
                let nothing = timeout(Duration::from_secs(1), stream.read(&mut [0])).await;
                drop(transport);
                nothing.map(drop).map_err(io::Error::from)
            };
            let task = test_loop.event_loop.spawn(connect_and_read).unwrap();
            test_loop.run_iterations(iterations);
            assert!(task.cancel(), "after {iterations} iterations");
            assert!(!task.cancel());
            assert!(test_loop.run(task).map(drop).unwrap_err().is_cancelled());
            // A connection dropped by the task stays open until its peer closes it: the loop keeps a protocol's
            // transport alive.
            test_loop.until("the loop's metrics are back to the start", || {
                for peer in accepted.borrow().iter() {
                    peer.transport().iter().for_each(|transport| transport.close());
                }
                test_loop.event_loop.metrics() == before
            });
        }
        drop(server);
    });
}

#[test]
fn a_cancelled_accept_loses_no_connection() {
    on_both("accept", |test_loop| {
        let listener = test_loop.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let before = test_loop.event_loop.metrics();
        let wait_in_vain = async || {
            timeout(Duration::from_secs(1), listener.accept()).await.map(drop).unwrap_err();
        };
        cancel_at_every_poll(test_loop, wait_in_vain, |_| assert_back_to(test_loop, before));
        let client = test_loop.run(TcpStream::connect(listener.local_addr())).unwrap();
        let (accepted, peer) =
            cancel_at_every_poll(test_loop, async || listener.accept().await, |_| {}).unwrap();
        assert_eq!(Some(peer), client.local_addr());
        drop((accepted, client, listener));
    });
}

/// A connected pair of streams.
fn pair(test_loop: &TestLoop) -> (TcpStream, TcpStream) {
    test_loop.run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (near, far)
    })
}

#[test]
fn a_cancelled_read_loses_no_data() {
    on_both("read", |test_loop| {
        let (near, far) = pair(test_loop);
        let mut received = Vec::new();
        for round in 0..30 {
            // Cancelled before, while and after data arrives.
            let mut piece = vec![0; round % 7 + 1];
            if let Some(count) = test_loop.run(given_up_after(round % 2, near.read(&mut piece))) {
                received.extend_from_slice(&piece[..count.unwrap()]);
            }
            let from = round * 5;
            test_loop.run(far.write_all(&pattern(from + 5)[from..])).unwrap();
            test_loop.run_iterations(round % 4);
        }
        far.shutdown();
        received.extend(test_loop.run(near.read_to_end()).unwrap());
        assert_eq!(received, pattern(150));
        drop((near, far));
    });
}

#[test]
fn a_cancelled_write_has_written_whole_chunks_and_the_stream_still_works() {
    on_both("write_all", |test_loop| {
        const LENGTH: usize = 24 * CHUNK;
        for polls in 0..MAX_POLLS {
            let (near, far) = pair(test_loop);
            let reading = test_loop.event_loop.spawn(async move {
                // So that the writer has to wait.
                sleep(Duration::from_millis(5)).await;
                far.read_to_end().await
            });
            let written = test_loop.run(given_up_after(polls, near.write_all(pattern(LENGTH))));
            test_loop.run(near.write_all(b"END")).unwrap();
            near.shutdown();
            let arrived = test_loop.run(reading.unwrap()).unwrap().unwrap();
            let body = arrived.strip_suffix(b"END").expect("the last write arrives last");
            assert!(body == pattern(body.len()), "after {polls} polls");
            drop(near);
            if written.is_some() {
                assert_eq!(body.len(), LENGTH);
                return;
            }
            assert_eq!(body.len() % CHUNK, 0, "after {polls} polls");
        }
        panic!("never done");
    });
}

#[test]
fn a_cancelled_close_continues() {
    on_both("close", |test_loop| {
        for polls in 0..3 {
            let (near, far) = pair(test_loop);
            test_loop.run(near.write_all(pattern(100))).unwrap();
            test_loop.run(given_up_after(polls, near.close()));
            assert_eq!(test_loop.run(far.read_to_end()).unwrap(), pattern(100));
            drop(far);
            assert_back_to(test_loop, Metrics::default());
        }
    });
}

#[test]
fn a_cancelled_sleep_removes_its_timer() {
    on_both("sleep", |test_loop| {
        let a_day = Duration::from_secs(24 * 3600);
        for polls in 0..2 {
            assert_eq!(test_loop.run(given_up_after(polls, sleep(a_day))), None);
            assert_eq!(test_loop.event_loop.metrics(), Metrics::default(), "after {polls} polls");
            assert_eq!(test_loop.run(given_up_after(polls, timeout(a_day, sleep(2 * a_day)))), None);
            assert_eq!(test_loop.event_loop.metrics(), Metrics::default(), "after {polls} polls");
        }
        let begun = test_loop.event_loop.time();
        test_loop.run(sleep(a_day));
        assert_eq!(test_loop.event_loop.time(), begun.saturating_add(a_day));
        // An expired timeout drops its inner future.
        assert!(test_loop.run(timeout(a_day, sleep(2 * a_day))).is_err());
    });
}

#[test]
fn a_cancelled_executor_call_runs_to_completion() {
    on_both("run_in_executor", |test_loop| {
        for polls in 0..2 {
            let (go, gone) = mpsc::channel();
            let (ran, has_run) = mpsc::channel();
            let job = test_loop.event_loop.run_in_executor(move || {
                gone.recv().unwrap();
                ran.send(()).unwrap();
            });
            assert_eq!(test_loop.run(given_up_after(polls, job.unwrap())), None);
            go.send(()).unwrap();
            has_run.recv_timeout(test_support::TIMEOUT).unwrap();
        }
        let job = test_loop.event_loop.run_in_executor(|| 6 * 7).unwrap();
        assert_eq!(test_loop.run(job), Ok(42));
        test_loop.event_loop.shutdown_executor();
    });
}

#[test]
fn a_task_can_be_awaited_again_after_a_cancelled_await() {
    on_both("a task", |test_loop| {
        for polls in 0..2 {
            let mut task: Task<u32> = test_loop
                .event_loop
                .spawn(async {
                    sleep(Duration::from_secs(1)).await;
                    7
                })
                .unwrap();
            assert_eq!(test_loop.run(given_up_after(polls, &mut task)), None);
            assert_eq!(test_loop.run(task), Ok(7));
        }
    });
}

#[test]
fn a_future_forgets_a_cancelled_waiter() {
    on_both("a future", |test_loop| {
        for polls in 0..2 {
            let future = test_loop.event_loop.create_future();
            assert!(test_loop.run(given_up_after(polls, future.clone())).is_none());
            let waiting = future.clone();
            let waiting = test_loop.event_loop.spawn(waiting).unwrap();
            test_loop.run_iterations(2);
            future.set_result(polls).unwrap();
            assert_eq!(test_loop.run(waiting).unwrap().unwrap(), polls);
        }
    });
}

#[test]
fn a_cancelled_task_may_use_the_loop_in_its_destructors() {
    on_both("tasks within tasks", |test_loop| {
        /// Uses the loop when it is dropped.
        struct Last(Rc<Cell<u32>>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                let counting = Rc::clone(&self.0);
                drop(spawn(async move { counting.set(counting.get() + 10) }));
            }
        }
        let dropped = Rc::new(Cell::new(0));
        for polls in 0..3 {
            let inside = Last(Rc::clone(&dropped));
            let waiting = async move {
                let _last = inside;
                sleep(Duration::from_secs(9)).await;
            };
            test_loop.run(given_up_after(polls, waiting));
            test_loop.run_iterations(2);
            assert_eq!(dropped.get(), 11 * (polls as u32 + 1));
        }
    });
}
