//! The kernel refusing: the protocol hears of it, and the endpoint lives on.

use crate::order::bind_near;
use crate::stage::{Stage, Told};
use mainspring_engine::testing::{FaultPlan, Op};
use mainspring_engine::transport::Transport as _;
use test_support::{On, guarded};

const TRANSIENT: [i32; 5] =
    [libc::ENETUNREACH, libc::EPERM, libc::ECONNREFUSED, libc::ENOBUFS, libc::EHOSTUNREACH];

#[test]
fn a_failed_send_is_told_and_the_next_one_goes_out() {
    guarded(|| {
        for errno in TRANSIENT {
            let stage = Stage::new(On::Fake);
            stage.pass();
            stage.control.fail_next(Op::SendTo, errno);
            stage.send(b"lost");
            stage.send(b"next");
            assert_eq!(stage.arrived(), [b"next"]);
            assert_eq!(*stage.protocol().log.borrow(), [Told::Made, Told::Error(errno)]);
            assert!(!stage.transport.is_closing());
            stage.transport.close(stage.cx()).unwrap();
            stage.until_lost();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn a_failed_receive_is_told_and_the_next_one_is_delivered() {
    guarded(|| {
        for errno in TRANSIENT {
            let stage = Stage::new(On::Fake);
            stage.pass();
            let path = std::env::temp_dir().join(format!("mainspring-faults-{}", std::process::id()));
            let name = bind_near(&stage, &path);
            stage.control.fail_next(Op::RecvFrom, errno);
            stage.peer.send_to(b"data", &name).unwrap();
            stage.until("it arrives", || !stage.protocol().data().is_empty());
            let expected = [Told::Made, Told::Error(errno), Told::Data(b"data".to_vec())];
            assert_eq!(*stage.protocol().log.borrow(), expected);
            stage.transport.close(stage.cx()).unwrap();
            stage.until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

#[test]
fn a_send_that_would_block_or_was_interrupted_is_made_again() {
    guarded(|| {
        for errno in [libc::EAGAIN, libc::EINTR] {
            let stage = Stage::new(On::Fake);
            stage.pass();
            stage.control.plan(FaultPlan::fail(Op::SendTo, errno).times(3));
            stage.send(b"1");
            stage.send(b"2");
            assert_eq!(stage.transport.write_buffer_size(), 18);
            stage.until("all is sent", || stage.transport.write_buffer_size() == 0);
            assert_eq!(stage.arrived(), [b"1", b"2"]);
            assert_eq!(*stage.protocol().log.borrow(), [Told::Made]);
            stage.transport.close(stage.cx()).unwrap();
            stage.until_lost();
        }
    });
}

#[test]
fn a_protocol_that_was_paused_is_resumed_after_all_that_waited_has_failed() {
    guarded(|| {
        for closes in [false, true] {
            let stage = Stage::new(On::Fake);
            stage.pass();
            stage.set_marks(0, 0);
            stage.control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN));
            stage.control.plan(FaultPlan::fail(Op::SendTo, libc::ENETUNREACH).times(2));
            stage.send(b"1");
            stage.send(b"2");
            if closes {
                stage.transport.close(stage.cx()).unwrap();
                stage.until_lost();
            }
            stage.until("it is resumed", || !stage.transport.is_writing_paused());
            let unreachable = Told::Error(libc::ENETUNREACH);
            let mut expected = vec![Told::Made, Told::Pause, unreachable.clone(), unreachable, Told::Resume];
            if closes {
                expected.push(Told::Lost(false));
            }
            assert_eq!(*stage.protocol().log.borrow(), expected);
            stage.transport.abort(stage.cx(), None).unwrap();
            stage.until("it ends", || stage.transport.is_finished());
        }
    });
}

#[test]
fn a_kernel_that_will_not_watch_the_socket_ends_the_endpoint_once() {
    guarded(|| {
        // The registration for reading; for writing; and the end of that.
        for after in 0..3 {
            let stage = Stage::new(On::Fake);
            stage
                .control
                .plan(FaultPlan::fail(Op::Update, libc::ENOSPC).on(stage.transport.fd()).after(after));
            stage.control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN));
            stage.pass();
            if !stage.transport.is_closing() {
                stage.send(b"waits");
            }
            stage.until_lost();
            assert_eq!(stage.protocol().count(&Told::Lost(true)), 1, "{after}");
            stage.engine.host().reports.take();
        }
    });
}
