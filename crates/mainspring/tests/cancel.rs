//! Giving up: every operation that can be awaited, dropped after every number of polls.
//!
//! What is given up leaves nothing on the loop: no watcher, no timer, no descriptor. What it was to bring is not lost:
//! asked again, it comes.
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
use support::Stage;
use support::polls::given_up_after;
use support::probe::{Face, Probe, probe_server};
use test_support::pattern;
use test_support::{On, guarded};

/// More polls than any of these operations needs.
const MAX_POLLS: usize = 100;

/// A write goes out in pieces of this size.
const PIECE: usize = 256 * 1024;

fn on_both(name: &str, test: impl Fn(&Stage)) {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("{name} on {on:?}"));
            test(&stage);
            stage.assert_reports(&[]);
            stage.assert_idle();
        }
    });
}

/// Gives `operation` up after 0, 1, 2, ... polls, until it is done before that; `check` looks at what each left.
fn give_up_at_every_poll<T>(stage: &Stage, operation: impl AsyncFn() -> T, check: impl Fn(usize)) -> T {
    for polls in 0..MAX_POLLS {
        if let Some(done) = stage.run(given_up_after(polls, operation())) {
            assert!(polls > 0, "{}: done without a poll", stage.name());
            return done;
        }
        check(polls);
    }
    panic!("{}: not done after {MAX_POLLS} polls", stage.name());
}

/// Runs passes until the loop has what it had in the beginning.
fn assert_back_to(stage: &Stage, before: Metrics) {
    stage.until("the loop is as it was", || stage.event_loop.metrics() == before);
}

#[test]
fn a_connection_that_is_given_up_is_closed_and_lost_once() {
    on_both("create_connection", |stage| {
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let before = stage.event_loop.metrics();
        let made = std::cell::RefCell::new(Vec::new());
        let connect = async || {
            let probe = Probe::new("the client");
            made.borrow_mut().push(Rc::clone(&probe));
            stage.event_loop.create_connection(server.local_addr(), || Face(probe)).await
        };
        let check = |polls| {
            assert_back_to(stage, before);
            for probe in made.borrow().iter().chain(accepted.borrow().iter()) {
                assert_eq!(probe.made.get(), probe.lost.get(), "after {polls} polls");
                probe.assert_in_order(None, stage.name());
            }
        };
        let (transport, _) = give_up_at_every_poll(stage, connect, check).unwrap();
        transport.close();
        stage.until("it is lost", || made.borrow().last().is_some_and(|probe| probe.lost.get() == 1));
        drop(server);
    });
}

#[test]
fn a_connect_that_is_given_up_leaves_nothing() {
    on_both("TcpStream::connect", |stage| {
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let before = stage.event_loop.metrics();
        let connect = async || TcpStream::connect(server.local_addr()).await;
        let stream = give_up_at_every_poll(stage, connect, |_| assert_back_to(stage, before)).unwrap();
        stage.run(stream.write_all(pattern(10))).unwrap();
        let last = || accepted.borrow().last().cloned();
        stage.until("it works", || last().is_some_and(|peer| peer.received.borrow().len() == 10));
        drop((stream, server));
    });
}

#[test]
fn tasks_that_are_cancelled_while_they_connect_leave_nothing() {
    on_both("cancelled tasks", |stage| {
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let (before, address) = (stage.event_loop.metrics(), server.local_addr());
        for passes in 0..12 {
            let event_loop = stage.event_loop.clone();
            let talk = async move {
                let probe = Probe::new("the client");
                let (transport, _) = event_loop.create_connection(address, || Face(probe)).await?;
                let stream = TcpStream::connect(address).await?;
                stream.write_all(pattern(10)).await?;
                let nothing = timeout(Duration::from_secs(1), stream.read(&mut [0])).await;
                drop(transport);
                nothing.map(drop).map_err(io::Error::from)
            };
            let task = stage.event_loop.spawn(talk).unwrap();
            stage.passes(passes);
            assert!(task.cancel(), "after {passes} passes");
            assert!(!task.cancel());
            assert!(stage.run(task).map(drop).unwrap_err().is_cancelled());
            // What the task let go of stays connected until its peer ends it: a protocol has no owner.
            stage.until("the loop is as it was", || {
                for peer in accepted.borrow().iter() {
                    peer.transport().iter().for_each(|transport| transport.close());
                }
                stage.event_loop.metrics() == before
            });
        }
        drop(server);
    });
}

#[test]
fn an_accept_that_is_given_up_loses_no_connection() {
    on_both("accept", |stage| {
        let listener = stage.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let before = stage.event_loop.metrics();
        let wait_in_vain = async || {
            timeout(Duration::from_secs(1), listener.accept()).await.map(drop).unwrap_err();
        };
        give_up_at_every_poll(stage, wait_in_vain, |_| assert_back_to(stage, before));
        let client = stage.run(TcpStream::connect(listener.local_addr())).unwrap();
        let (accepted, peer) =
            give_up_at_every_poll(stage, async || listener.accept().await, |_| {}).unwrap();
        assert_eq!(Some(peer), client.local_addr());
        drop((accepted, client, listener));
    });
}

/// A connected pair of streams.
fn pair(stage: &Stage) -> (TcpStream, TcpStream) {
    stage.run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (near, far)
    })
}

#[test]
fn a_read_that_is_given_up_loses_no_data() {
    on_both("read", |stage| {
        let (near, far) = pair(stage);
        let mut received = Vec::new();
        for round in 0..30 {
            // Given up before, while and after something comes.
            let mut piece = vec![0; round % 7 + 1];
            if let Some(count) = stage.run(given_up_after(round % 2, near.read(&mut piece))) {
                received.extend_from_slice(&piece[..count.unwrap()]);
            }
            let from = round * 5;
            stage.run(far.write_all(&pattern(from + 5)[from..])).unwrap();
            stage.passes(round % 4);
        }
        far.shutdown();
        received.extend(stage.run(near.read_to_end()).unwrap());
        assert_eq!(received, pattern(150));
        drop((near, far));
    });
}

#[test]
fn a_write_that_is_given_up_has_written_whole_pieces_and_the_stream_goes_on() {
    on_both("write_all", |stage| {
        const LENGTH: usize = 24 * PIECE;
        for polls in 0..MAX_POLLS {
            let (near, far) = pair(stage);
            let reading = stage.event_loop.spawn(async move {
                // So that the writer has to wait.
                sleep(Duration::from_millis(5)).await;
                far.read_to_end().await
            });
            let written = stage.run(given_up_after(polls, near.write_all(pattern(LENGTH))));
            stage.run(near.write_all(b"END")).unwrap();
            near.shutdown();
            let arrived = stage.run(reading.unwrap()).unwrap().unwrap();
            let body = arrived.strip_suffix(b"END").expect("what was written last comes last");
            assert!(body == pattern(body.len()), "after {polls} polls");
            drop(near);
            if written.is_some() {
                assert_eq!(body.len(), LENGTH);
                return;
            }
            assert_eq!(body.len() % PIECE, 0, "after {polls} polls");
        }
        panic!("never done");
    });
}

#[test]
fn closing_goes_on_when_nobody_waits_for_it() {
    on_both("close", |stage| {
        for polls in 0..3 {
            let (near, far) = pair(stage);
            stage.run(near.write_all(pattern(100))).unwrap();
            stage.run(given_up_after(polls, near.close()));
            assert_eq!(stage.run(far.read_to_end()).unwrap(), pattern(100));
            drop(far);
            assert_back_to(stage, Metrics::default());
        }
    });
}

#[test]
fn a_sleep_that_is_given_up_takes_its_timer_with_it() {
    on_both("sleep", |stage| {
        let a_day = Duration::from_secs(24 * 3600);
        for polls in 0..2 {
            assert_eq!(stage.run(given_up_after(polls, sleep(a_day))), None);
            assert_eq!(stage.event_loop.metrics(), Metrics::default(), "after {polls} polls");
            assert_eq!(stage.run(given_up_after(polls, timeout(a_day, sleep(2 * a_day)))), None);
            assert_eq!(stage.event_loop.metrics(), Metrics::default(), "after {polls} polls");
        }
        let begun = stage.event_loop.time();
        stage.run(sleep(a_day));
        assert_eq!(stage.event_loop.time(), begun.saturating_add(a_day));
        // The time that is up drops what it limits.
        assert!(stage.run(timeout(a_day, sleep(2 * a_day))).is_err());
    });
}

#[test]
fn what_runs_in_the_executor_runs_on_when_it_is_given_up() {
    on_both("run_in_executor", |stage| {
        for polls in 0..2 {
            let (go, gone) = mpsc::channel();
            let (ran, has_run) = mpsc::channel();
            let job = stage.event_loop.run_in_executor(move || {
                gone.recv().unwrap();
                ran.send(()).unwrap();
            });
            assert_eq!(stage.run(given_up_after(polls, job.unwrap())), None);
            go.send(()).unwrap();
            has_run.recv_timeout(test_support::PATIENCE).unwrap();
        }
        let job = stage.event_loop.run_in_executor(|| 6 * 7).unwrap();
        assert_eq!(stage.run(job), Ok(42));
        stage.event_loop.shutdown_executor();
    });
}

#[test]
fn a_task_can_be_awaited_again_after_who_waited_gave_up() {
    on_both("a task", |stage| {
        for polls in 0..2 {
            let mut task: Task<u32> = stage
                .event_loop
                .spawn(async {
                    sleep(Duration::from_secs(1)).await;
                    7
                })
                .unwrap();
            assert_eq!(stage.run(given_up_after(polls, &mut task)), None);
            assert_eq!(stage.run(task), Ok(7));
        }
    });
}

#[test]
fn a_future_forgets_who_gave_up() {
    on_both("a future", |stage| {
        for polls in 0..2 {
            let future = stage.event_loop.create_future();
            assert!(stage.run(given_up_after(polls, future.clone())).is_none());
            let waiting = future.clone();
            let waiting = stage.event_loop.spawn(waiting).unwrap();
            stage.passes(2);
            future.set_result(polls).unwrap();
            assert_eq!(stage.run(waiting).unwrap().unwrap(), polls);
        }
    });
}

#[test]
fn a_task_that_is_given_up_in_its_own_drop_order_leaves_nothing() {
    on_both("tasks within tasks", |stage| {
        /// Notices that it is dropped, and uses the loop for it.
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
            stage.run(given_up_after(polls, waiting));
            stage.passes(2);
            assert_eq!(dropped.get(), 11 * (polls as u32 + 1));
        }
    });
}
