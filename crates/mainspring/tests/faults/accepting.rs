//! Faults of `accept`, and the pause of a listener after a fault.

use crate::connected_probes::count;
use crate::support::TestLoop;
use crate::support::probe::{Accepted, Probe, ProbeProtocol, probe_server};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Server, Time};
use mainspring_engine::testing::{FaultPlan, Op};
use std::rc::Rc;
use std::time::Duration;
use test_support::{TestBackend, isolated};

const OUT_OF_RESOURCE: &str = "socket.accept() out of system resource";

/// A server with one connection in the kernel's queue.
fn server_with_one_queued_connection(
    name: &str,
    plans: &[FaultPlan],
) -> (TestLoop, Server, Accepted, Rc<Probe>) {
    let test_loop = TestLoop::new(TestBackend::Fake, name);
    let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
    plans.iter().for_each(|&plan| test_loop.control.plan(plan));
    test_loop.control.take_log();
    let client = Probe::new("the client");
    let protocol = ProbeProtocol(Rc::clone(&client));
    test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || protocol)).unwrap();
    (test_loop, server, accepted, client)
}

fn close_and_check(test_loop: &TestLoop, server: &Server, client: &Probe) {
    client.transport().iter().for_each(|transport| transport.close());
    server.close();
    test_loop.until("the client is lost", || client.lost.get() == 1);
    test_loop.assert_idle();
    assert_eq!(test_loop.control.pending_faults(), 0, "{}: not every fault was injected", test_loop.name());
}

#[test]
fn a_server_without_fds_pauses_for_a_second_and_does_not_spin() {
    isolated(|| {
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS] {
            let plan = FaultPlan::fail(Op::Accept, errno).times(3);
            let (test_loop, server, accepted, client) =
                server_with_one_queued_connection(&format!("accept: {errno}"), &[plan]);
            test_loop.until("the first accept has failed", || !test_loop.reports.borrow().is_empty());
            let paused_since = test_loop.event_loop.time();
            test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
            let paused = test_loop.event_loop.time().saturating_duration_since(paused_since);
            assert!(paused >= Duration::from_millis(2_990), "paused {paused:?} in three pauses");
            assert!(paused <= Duration::from_millis(3_100), "paused {paused:?} in three pauses");
            // Three failures, one success, and one call that finds the queue empty.
            assert_eq!(count(&test_loop.control.take_log(), Op::Accept), 5);
            let reports = test_loop.reports.take();
            assert_eq!(reports.len(), 3);
            assert!(reports.iter().all(|report| report.starts_with(OUT_OF_RESOURCE)), "{reports:?}");
            close_and_check(&test_loop, &server, &client);
        }
    });
}

#[test]
fn a_blocking_run_waits_for_the_end_of_the_pause() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (test_loop, server, accepted, client) =
            server_with_one_queued_connection("a blocking run through a pause", &[plan]);
        let begun = test_loop.event_loop.time();
        let accepting = Rc::clone(&accepted);
        test_loop.run(async move {
            while accepting.borrow().is_empty() {
                mainspring::sleep_until(Time::from_nanos(begun.as_nanos() + 1_000_000_000)).await;
                mainspring::sleep(Duration::ZERO).await;
            }
        });
        assert_eq!(test_loop.reports.take().len(), 1);
        close_and_check(&test_loop, &server, &client);
    });
}

#[test]
fn a_server_closed_during_its_pause_leaves_no_timer() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (test_loop, server, accepted, client) =
            server_with_one_queued_connection("closed during the pause", &[plan]);
        test_loop.until("the server pauses", || test_loop.event_loop.metrics().timers == 1);
        server.close();
        assert_eq!(test_loop.event_loop.metrics().timers, 0);
        close_and_check(&test_loop, &server, &client);
        assert_eq!(accepted.borrow().len(), 0);
    });
}

#[test]
fn the_exception_handler_may_close_a_server_that_pauses() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (test_loop, server, _accepted, client) =
            server_with_one_queued_connection("closed by the exception handler", &[plan]);
        test_loop.until("the server pauses", || test_loop.reports.borrow().len() == 1);
        test_loop.control.fail_next(Op::Accept, libc::EMFILE);
        let server = Rc::new(server);
        let closing = Rc::downgrade(&server);
        test_loop.event_loop.set_exception_handler(move |_| closing.upgrade().unwrap().close());
        test_loop.until("the server is closed", || !server.is_serving());
        close_and_check(&test_loop, &server, &client);
    });
}

#[test]
fn a_server_that_cannot_be_registered_after_its_pause_pauses_again() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EMFILE);
        let (test_loop, server, accepted, client) =
            server_with_one_queued_connection("no registration after a pause", &[plan]);
        test_loop.until("the server pauses", || test_loop.event_loop.metrics().timers == 1);
        test_loop.control.plan(FaultPlan::fail(Op::Update, libc::ENOSPC).times(2));
        test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
        assert_eq!(test_loop.reports.take().len(), 3);
        close_and_check(&test_loop, &server, &client);
    });
}

#[test]
fn an_aborted_connection_does_not_delay_the_next() {
    isolated(|| {
        for errno in [libc::ECONNABORTED, libc::EINTR, libc::EAGAIN] {
            let plan = FaultPlan::fail(Op::Accept, errno).times(2);
            let (test_loop, server, accepted, client) =
                server_with_one_queued_connection(&format!("accept: {errno}"), &[plan]);
            test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
            test_loop.assert_reports(&[]);
            close_and_check(&test_loop, &server, &client);
        }
    });
}

#[test]
fn any_other_accept_error_is_reported_and_retried_after_a_pause() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::EIO).times(2);
        let (test_loop, server, accepted, client) = server_with_one_queued_connection("accept: EIO", &[plan]);
        test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
        let reports = test_loop.reports.take();
        assert!(reports.len() == 2 && reports[0].starts_with("socket.accept() failed"), "{reports:?}");
        assert!(
            test_loop.event_loop.time() >= Time::from_nanos(2_000_000_000),
            "the server pauses each time"
        );
        close_and_check(&test_loop, &server, &client);
    });
}

#[test]
fn endless_aborted_connections_do_not_starve_the_loop() {
    isolated(|| {
        let plan = FaultPlan::fail(Op::Accept, libc::ECONNABORTED).every_time();
        let (test_loop, server, accepted, client) =
            server_with_one_queued_connection("endless ECONNABORTED", &[plan]);
        test_loop.control.take_log();
        test_loop.run_iterations(10);
        assert!(
            count(&test_loop.control.take_log(), Op::Accept) <= 10 * 101,
            "one batch accepts at most backlog + 1 connections"
        );
        test_loop.control.clear_faults();
        test_loop.until("the connection is accepted", || accepted.borrow().len() == 1);
        close_and_check(&test_loop, &server, &client);
    });
}

#[test]
fn a_stream_listener_pauses_and_resumes() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a stream listener without fds");
        let control = test_loop.control.clone();
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            control.plan(FaultPlan::fail(Op::Accept, libc::EMFILE).times(2));
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            client.write_all(b"x").await.unwrap();
            accepted.read_exact(&mut [0]).await.unwrap();
        });
        assert_eq!(test_loop.event_loop.time(), Time::from_nanos(2_000_000_000));
        assert_eq!(test_loop.reports.take().len(), 2);
        test_loop.assert_idle();
    });
}

#[test]
fn a_full_listener_that_cannot_be_registered_again_retries_after_a_pause() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a full stream listener");
        let control = test_loop.control.clone();
        test_loop.run(async {
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
        assert_eq!(test_loop.reports.take().len(), 1);
        test_loop.assert_idle();
    });
}

fn listener_fd(control: &mainspring_engine::testing::FakeControl) -> i32 {
    let log = control.log();
    log.iter().find(|entry| entry.call.op() == Op::Accept).and_then(|entry| entry.call.fd()).unwrap()
}
