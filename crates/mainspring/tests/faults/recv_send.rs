//! Faults of `recv` and `send`, seen by protocols.

use crate::connected_probes::{ConnectedProbes, count};
use crate::support::probe::FULL;
use mainspring_engine::poller::{Interest, Readiness};
use mainspring_engine::testing::{FaultPlan, Op};
use test_support::isolated;

#[test]
fn an_interrupted_or_empty_call_is_retried_and_loses_nothing() {
    isolated(|| {
        for op in [Op::Recv, Op::Send] {
            for errno in [libc::EINTR, libc::EAGAIN] {
                let probes = ConnectedProbes::new(&format!("{op:?} answers {errno}"));
                for fd in [probes.client_fd, probes.peer_fd] {
                    probes.test_loop.control.plan(FaultPlan::fail(op, errno).on(fd).times(3));
                }
                for _ in 0..5 {
                    probes.client.write(1000);
                    probes.peer.write(2000);
                    probes.run_until_received();
                }
                probes.close_and_check();
            }
        }
    });
}

#[test]
fn a_spurious_event_costs_one_recv() {
    isolated(|| {
        let probes = ConnectedProbes::new("spurious events");
        let control = probes.test_loop.control.clone();
        for readiness in [Readiness::INBOUND, Readiness::OUTBOUND, Readiness::BOTH, Readiness::default()] {
            control.take_log();
            control.inject(control.key_of(probes.client_fd).unwrap(), readiness);
            probes.test_loop.run_iterations(2);
            let log = control.take_log();
            assert_eq!(count(&log, Op::Recv), usize::from(readiness.inbound), "for {readiness:?}");
            assert_eq!(count(&log, Op::Send), 0, "nothing was queued");
        }
        probes.client.write(10);
        probes.peer.write(10);
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn bytes_stay_in_order_for_every_transfer_size() {
    isolated(|| {
        for size in (1..=64).chain([100, 255, 256, 257, 999]) {
            let probes = ConnectedProbes::new(&format!("pieces of {size}"));
            let control = probes.test_loop.control.clone();
            control.plan(FaultPlan::short_send(size).on(probes.client_fd).every_time());
            control.plan(FaultPlan::short_recv(size).on(probes.peer_fd).every_time());
            // Sizes that do not divide each other, and that need more than one call.
            for length in 1..=90 {
                probes.client.write(length % 17 + 1);
            }
            probes.peer.write(100);
            probes.run_until_received();
            control.clear_faults();
            probes.close_and_check();
        }
    });
}

#[test]
fn the_write_buffer_survives_partial_sends() {
    isolated(|| {
        let probes = ConnectedProbes::new("partial sends");
        let control = probes.test_loop.control.clone();
        for size in [0, 1, 16_384, 0, 65_537, 3, 0, 1_000_000] {
            control.plan(FaultPlan::short_send(size).on(probes.client_fd));
        }
        for length in [1, 70_000, 2, 200_000, 1] {
            probes.client.write(length);
        }
        assert!(probes.client.paused.get());
        probes.client.transport().unwrap().close();
        probes.run_until_lost();
        assert_eq!(probes.peer.received.borrow().len(), probes.client.sent.get());
        assert!(!probes.client.paused.get());
        probes.close_and_check();
    });
}

/// The failing end loses the connection with that error; the other end sees it closed.
fn assert_connection_lost(name: &str, op: Op, errno: i32, queued: bool) {
    let probes = ConnectedProbes::new(name);
    let control = probes.test_loop.control.clone();
    if queued {
        // The first send accepts nothing, the second a part, the third fails.
        control.plan(FaultPlan::short_send(0).on(probes.client_fd));
        control.plan(FaultPlan::short_send(FULL / 3).on(probes.client_fd));
    }
    control.plan(FaultPlan::fail(op, errno).on(probes.client_fd));
    probes.peer.write(10);
    if op == Op::Send {
        probes.client.write(FULL);
        probes.client.write(10);
    }
    probes.run_until_lost();
    assert_eq!(probes.client.error_number(), Some(errno), "{name}");
    assert_eq!(probes.client.transport().map(drop), None, "{name}");
    let arrived = probes.peer.received.borrow().len();
    assert_eq!(arrived, if queued { FULL / 3 } else { 0 }, "{name}");
    probes.close_and_check();
}

#[test]
fn an_error_closes_the_connection_once_and_is_passed_to_connection_lost() {
    isolated(|| {
        for errno in [libc::ECONNRESET, libc::EPIPE, libc::ENOBUFS, libc::ETIMEDOUT, libc::EIO] {
            assert_connection_lost(&format!("recv fails with {errno}"), Op::Recv, errno, false);
            assert_connection_lost(&format!("the first send fails with {errno}"), Op::Send, errno, false);
            assert_connection_lost(&format!("a send of a queue fails with {errno}"), Op::Send, errno, true);
        }
    });
}

#[test]
fn writes_to_a_failed_connection_warn_only_after_several() {
    isolated(|| {
        let probes = ConnectedProbes::new("writes after a failed one");
        probes.test_loop.control.plan(FaultPlan::fail(Op::Send, libc::EPIPE).on(probes.client_fd));
        let transport = probes.client.transport().unwrap();
        for _ in 0..6 {
            transport.write(b"lost");
        }
        probes.test_loop.assert_reports(&["Data is written to a connection that is gone"]);
        transport.write_eof();
        assert_eq!((transport.is_closing(), transport.get_write_buffer_size()), (true, 0));
        probes.run_until_lost();
        probes.close_and_check();
    });
}

#[test]
fn failure_in_both_directions_loses_the_connection_once() {
    isolated(|| {
        let probes = ConnectedProbes::new("both directions fail");
        let control = probes.test_loop.control.clone();
        control.plan(FaultPlan::short_send(0).on(probes.client_fd));
        probes.client.write(100);
        control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET).on(probes.client_fd));
        control.plan(FaultPlan::fail(Op::Send, libc::EPIPE).on(probes.client_fd));
        control.inject(control.key_of(probes.client_fd).unwrap(), Readiness::BOTH);
        probes.run_until_lost();
        assert_eq!(probes.client.error_number(), Some(libc::ECONNRESET), "the receive error came first");
        assert_eq!(control.pending_faults(), 1, "nothing is sent on a lost connection");
        control.clear_faults();
        probes.close_and_check();
    });
}

#[test]
fn both_directions_of_one_event_are_served_in_one_iteration() {
    isolated(|| {
        let probes = ConnectedProbes::new("both directions");
        let control = probes.test_loop.control.clone();
        control.plan(FaultPlan::short_send(0).on(probes.client_fd));
        probes.client.write(100);
        probes.peer.write(50);
        control.take_log();
        control.inject(control.key_of(probes.client_fd).unwrap(), Readiness::BOTH);
        probes.test_loop.run_once();
        let log = control.take_log();
        assert_eq!((count(&log, Op::Recv), count(&log, Op::Send)), (1, 1));
        assert_eq!(probes.client.received.borrow().len(), 50);
        assert!(log.iter().any(|entry| matches!(
            entry.call,
            mainspring_engine::testing::Call::Update { new: Interest::READ, .. }
        )));
        probes.run_until_received();
        probes.close_and_check();
    });
}
