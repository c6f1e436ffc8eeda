//! Faults of `accept`, and the pause of a listener after one.

use crate::conversation::count;
use crate::support::Stage;
use crate::support::probe::{Accepted, Face, Probe, probe_server};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Server, Time};
use mainspring_engine::testing::{FaultPlan, Op};
use std::rc::Rc;
use std::time::Duration;
use test_support::{On, guarded};

const OUT_OF_RESOURCE: &str = "socket.accept() out of system resource";

/// A server with one connection in the kernel's queue.
fn with_one_waiting(name: &str, plans: &[FaultPlan]) -> (Stage, Server, Accepted, Rc<Probe>) {
    let stage = Stage::new(On::Fake, name);
    let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
    plans.iter().for_each(|&plan| stage.control.plan(plan));
    stage.control.take_log();
    let client = Probe::new("the client");
    let face = Face(Rc::clone(&client));
    stage.run(stage.event_loop.create_connection(server.local_addr(), || face)).unwrap();
    (stage, server, accepted, client)
}

fn end(stage: &Stage, server: &Server, client: &Probe) {
    client.transport().iter().for_each(|transport| transport.close());
    server.close();
    stage.until("the client is lost", || client.lost.get() == 1);
    stage.assert_idle();
    assert_eq!(stage.control.pending_faults(), 0, "{}: not every fault has struck", stage.name());
}

#[test]
fn a_server_without_descriptors_rests_a_second_and_does_not_spin() {
    guarded(|| {
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS] {
            let plan = FaultPlan::fail(Op::Accept, errno).times(3);
            let (stage, server, accepted, client) = with_one_waiting(&format!("accept: {errno}"), &[plan]);
            stage.until("the first accept has failed", || !stage.reports.borrow().is_empty());
            let rested_since = stage.event_loop.time();
            stage.until("the connection is accepted", || accepted.borrow().len() == 1);
            let rested = stage.event_loop.time().saturating_duration_since(rested_since);
            assert!(rested >= Duration::from_millis(2_990), "rested {rested:?} in three rests");
            assert!(rested <= Duration::from_millis(3_100), "rested {rested:?} in three rests");
            // Three failures, one success, and one call that finds the queue empty.
            assert_eq!(count(&stage.control.take_log(), Op::Accept), 5);
            let reports = stage.reports.take();
            assert_eq!(reports.len(), 3);
            assert!(reports.iter().all(|report| report.starts_with(OUT_OF_RESOURCE)), "{reports:?}");
            end(&stage, &server, &client);
        }
    });
}

#[test]
fn a_server_that_rests_lets_the_clock_run_to_the_end_of_its_rest() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (stage, server, accepted, client) = with_one_waiting("a blocking run through a rest", &[plan]);
        let begun = stage.event_loop.time();
        let accepting = Rc::clone(&accepted);
        stage.run(async move {
            while accepting.borrow().is_empty() {
                mainspring::sleep_until(Time::from_nanos(begun.as_nanos() + 1_000_000_000)).await;
                mainspring::sleep(Duration::ZERO).await;
            }
        });
        assert_eq!(stage.reports.take().len(), 1);
        end(&stage, &server, &client);
    });
}

#[test]
fn a_server_that_is_closed_while_it_rests_leaves_no_timer() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (stage, server, accepted, client) = with_one_waiting("closed while resting", &[plan]);
        stage.until("the server rests", || stage.event_loop.metrics().timers == 1);
        server.close();
        assert_eq!(stage.event_loop.metrics().timers, 0);
        end(&stage, &server, &client);
        assert_eq!(accepted.borrow().len(), 0);
    });
}

#[test]
fn a_server_may_be_closed_by_who_is_told_that_it_rests() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (stage, server, _accepted, client) = with_one_waiting("closed by the exception handler", &[plan]);
        stage.until("it rests", || stage.reports.borrow().len() == 1);
        stage.control.fail_next(Op::Accept, libc::EMFILE);
        let server = Rc::new(server);
        let closing = Rc::downgrade(&server);
        stage.event_loop.set_exception_handler(move |_| closing.upgrade().unwrap().close());
        stage.until("the server is closed", || !server.is_serving());
        end(&stage, &server, &client);
    });
}

#[test]
fn a_server_that_cannot_be_watched_after_its_rest_rests_again() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (stage, server, accepted, client) = with_one_waiting("no watch after a rest", &[plan]);
        stage.until("the server rests", || stage.event_loop.metrics().timers == 1);
        stage.control.plan(FaultPlan::fail(Op::Update, libc::ENOSPC).times(2));
        stage.until("the connection is accepted", || accepted.borrow().len() == 1);
        assert_eq!(stage.reports.take().len(), 3);
        end(&stage, &server, &client);
    });
}

#[test]
fn a_connection_that_was_given_up_does_not_keep_the_next_one_waiting() {
    guarded(|| {
        for errno in [libc::ECONNABORTED, libc::EINTR, libc::EAGAIN] {
            let plan = FaultPlan::fail(Op::Accept, errno).times(2);
            let (stage, server, accepted, client) = with_one_waiting(&format!("accept: {errno}"), &[plan]);
            stage.until("the connection is accepted", || accepted.borrow().len() == 1);
            stage.assert_reports(&[]);
            end(&stage, &server, &client);
        }
    });
}

#[test]
fn an_accept_that_fails_otherwise_is_reported_and_tried_again_after_a_rest() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EIO).times(2);
        let (stage, server, accepted, client) = with_one_waiting("accept: EIO", &[plan]);
        stage.until("the connection is accepted", || accepted.borrow().len() == 1);
        let reports = stage.reports.take();
        assert!(reports.len() == 2 && reports[0].starts_with("socket.accept() failed"), "{reports:?}");
        assert!(stage.event_loop.time() >= Time::from_nanos(2_000_000_000), "it rests each time");
        end(&stage, &server, &client);
    });
}

#[test]
fn connections_that_are_given_up_without_end_leave_room_for_the_others() {
    guarded(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::ECONNABORTED).every_time();
        let (stage, server, accepted, client) = with_one_waiting("endless ECONNABORTED", &[plan]);
        stage.control.take_log();
        stage.passes(10);
        assert!(count(&stage.control.take_log(), Op::Accept) <= 10 * 101, "a batch is a backlog and one");
        stage.control.clear_faults();
        stage.until("the connection is accepted", || accepted.borrow().len() == 1);
        end(&stage, &server, &client);
    });
}

#[test]
fn a_listener_of_streams_rests_too_and_goes_on() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a listener of streams without descriptors");
        let control = stage.control.clone();
        stage.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            control.plan(FaultPlan::fail(Op::Accept, libc::EMFILE).times(2));
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            client.write_all(b"x").await.unwrap();
            accepted.read_exact(&mut [0]).await.unwrap();
        });
        assert_eq!(stage.event_loop.time(), Time::from_nanos(2_000_000_000));
        assert_eq!(stage.reports.take().len(), 2);
        stage.assert_idle();
    });
}

#[test]
fn a_listener_that_was_full_and_cannot_be_watched_again_goes_on_after_a_rest() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a full listener of streams");
        let control = stage.control.clone();
        stage.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut clients = Vec::new();
            for _ in 0..20 {
                clients.push(TcpStream::connect(listener.local_addr()).await.unwrap());
            }
            let is_full = || control.log().iter().filter(|entry| entry.call.op() == Op::Accept).count() >= 16;
            while !is_full() {
                mainspring::sleep(Duration::ZERO).await;
            }
            mainspring::sleep(Duration::ZERO).await;
            let (first, _) = listener.accept().await.unwrap();
            drop(first);
            // The next registration is the listener's.
            while control.key_of(listener_fd(&control)).is_some() {
                mainspring::sleep(Duration::ZERO).await;
            }
            control.plan(FaultPlan::fail(Op::Update, libc::ENOMEM).on(listener_fd(&control)));
            for _ in 1..20 {
                listener.accept().await.unwrap();
            }
        });
        assert_eq!(control.pending_faults(), 0);
        assert_eq!(stage.reports.take().len(), 1);
        stage.assert_idle();
    });
}

fn listener_fd(control: &mainspring_engine::testing::FakeControl) -> i32 {
    let log = control.log();
    log.iter().find(|entry| entry.call.op() == Op::Accept).and_then(|entry| entry.call.fd()).unwrap()
}
