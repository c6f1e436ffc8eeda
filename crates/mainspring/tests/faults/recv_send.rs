//! Faults of `recv` and `send`, seen by protocols.

use crate::conversation::{Conversation, count};
use crate::support::probe::FULL;
use mainspring_engine::poller::{Interest, Readiness};
use mainspring_engine::testing::{FaultPlan, Op};
use test_support::guarded;

#[test]
fn an_interrupted_or_empty_claim_is_made_again_and_nothing_is_lost() {
    guarded(|| {
        for op in [Op::Recv, Op::Send] {
            for errno in [libc::EINTR, libc::EAGAIN] {
                let talk = Conversation::new(&format!("{op:?} answers {errno}"));
                for fd in [talk.client_fd, talk.peer_fd] {
                    talk.stage.control.plan(FaultPlan::fail(op, errno).on(fd).times(3));
                }
                for _ in 0..5 {
                    talk.client.write(1000);
                    talk.peer.write(2000);
                    talk.let_arrive();
                }
                talk.end();
            }
        }
    });
}

#[test]
fn events_that_are_not_true_cost_a_claim_and_nothing_else() {
    guarded(|| {
        let talk = Conversation::new("spurious events");
        let control = talk.stage.control.clone();
        for readiness in [Readiness::INBOUND, Readiness::OUTBOUND, Readiness::BOTH, Readiness::default()] {
            control.take_log();
            control.inject(control.key_of(talk.client_fd).unwrap(), readiness);
            talk.stage.passes(2);
            let log = control.take_log();
            assert_eq!(count(&log, Op::Recv), usize::from(readiness.inbound), "for {readiness:?}");
            assert_eq!(count(&log, Op::Send), 0, "nothing was queued");
        }
        talk.client.write(10);
        talk.peer.write(10);
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn bytes_keep_their_order_through_reads_and_writes_of_every_size() {
    guarded(|| {
        for size in (1..=64).chain([100, 255, 256, 257, 999]) {
            let talk = Conversation::new(&format!("pieces of {size}"));
            let control = talk.stage.control.clone();
            control.plan(FaultPlan::short_send(size).on(talk.client_fd).every_time());
            control.plan(FaultPlan::short_recv(size).on(talk.peer_fd).every_time());
            // Sizes that do not divide each other, and that need more than one call.
            for length in 1..=90 {
                talk.client.write(length % 17 + 1);
            }
            talk.peer.write(100);
            talk.let_arrive();
            control.clear_faults();
            talk.end();
        }
    });
}

#[test]
fn a_queue_goes_out_whole_whatever_the_kernel_takes_of_it() {
    guarded(|| {
        let talk = Conversation::new("a queue in uneven pieces");
        let control = talk.stage.control.clone();
        for size in [0, 1, 16_384, 0, 65_537, 3, 0, 1_000_000] {
            control.plan(FaultPlan::short_send(size).on(talk.client_fd));
        }
        for length in [1, 70_000, 2, 200_000, 1] {
            talk.client.write(length);
        }
        assert!(talk.client.paused.get());
        talk.client.transport().unwrap().close();
        talk.until_lost();
        assert_eq!(talk.peer.received.borrow().len(), talk.client.sent.get());
        assert!(!talk.client.paused.get());
        talk.end();
    });
}

/// The failing end loses the connection with that error; the other end sees it closed.
fn assert_loses(name: &str, op: Op, errno: i32, queued: bool) {
    let talk = Conversation::new(name);
    let control = talk.stage.control.clone();
    if queued {
        // The first send accepts nothing, the second a part, the third fails.
        control.plan(FaultPlan::short_send(0).on(talk.client_fd));
        control.plan(FaultPlan::short_send(FULL / 3).on(talk.client_fd));
    }
    control.plan(FaultPlan::fail(op, errno).on(talk.client_fd));
    talk.peer.write(10);
    if op == Op::Send {
        talk.client.write(FULL);
        talk.client.write(10);
    }
    talk.until_lost();
    assert_eq!(talk.client.error_number(), Some(errno), "{name}");
    assert_eq!(talk.client.transport().map(drop), None, "{name}");
    let arrived = talk.peer.received.borrow().len();
    assert_eq!(arrived, if queued { FULL / 3 } else { 0 }, "{name}");
    talk.end();
}

#[test]
fn an_error_ends_the_connection_once_and_is_told() {
    guarded(|| {
        for errno in [libc::ECONNRESET, libc::EPIPE, libc::ENOBUFS, libc::ETIMEDOUT, libc::EIO] {
            assert_loses(&format!("recv fails with {errno}"), Op::Recv, errno, false);
            assert_loses(&format!("the first send fails with {errno}"), Op::Send, errno, false);
            assert_loses(&format!("a send of a queue fails with {errno}"), Op::Send, errno, true);
        }
    });
}

#[test]
fn writing_to_a_connection_that_failed_is_no_error_at_first() {
    guarded(|| {
        let talk = Conversation::new("writes after a failed one");
        talk.stage.control.plan(FaultPlan::fail(Op::Send, libc::EPIPE).on(talk.client_fd));
        let transport = talk.client.transport().unwrap();
        for _ in 0..6 {
            transport.write(b"lost");
        }
        talk.stage.assert_reports(&["Data is written to a connection that is gone"]);
        transport.write_eof();
        assert_eq!((transport.is_closing(), transport.get_write_buffer_size()), (true, 0));
        talk.until_lost();
        talk.end();
    });
}

#[test]
fn a_failure_in_both_directions_at_once_loses_the_connection_once() {
    guarded(|| {
        let talk = Conversation::new("both directions fail");
        let control = talk.stage.control.clone();
        control.plan(FaultPlan::short_send(0).on(talk.client_fd));
        talk.client.write(100);
        control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET).on(talk.client_fd));
        control.plan(FaultPlan::fail(Op::Send, libc::EPIPE).on(talk.client_fd));
        control.inject(control.key_of(talk.client_fd).unwrap(), Readiness::BOTH);
        talk.until_lost();
        assert_eq!(talk.client.error_number(), Some(libc::ECONNRESET), "what was received first");
        assert_eq!(control.pending_faults(), 1, "nothing is sent on a connection that is gone");
        control.clear_faults();
        talk.end();
    });
}

#[test]
fn both_directions_of_one_event_are_served_in_one_pass() {
    guarded(|| {
        let talk = Conversation::new("both directions");
        let control = talk.stage.control.clone();
        control.plan(FaultPlan::short_send(0).on(talk.client_fd));
        talk.client.write(100);
        talk.peer.write(50);
        control.take_log();
        control.inject(control.key_of(talk.client_fd).unwrap(), Readiness::BOTH);
        talk.stage.pass();
        let log = control.take_log();
        assert_eq!((count(&log, Op::Recv), count(&log, Op::Send)), (1, 1));
        assert_eq!(talk.client.received.borrow().len(), 50);
        assert!(log.iter().any(|entry| matches!(
            entry.call,
            mainspring_engine::testing::Call::Update { new: Interest::READ, .. }
        )));
        talk.let_arrive();
        talk.end();
    });
}
