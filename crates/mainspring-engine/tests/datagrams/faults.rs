//! System call errors: the protocol is notified, and the endpoint stays open.

use crate::fixture::{Event, Fixture};
use crate::order::bind_near;
use mainspring_engine::testing::{FaultPlan, Op};
use mainspring_engine::transport::Transport as _;
use test_support::{TestBackend, isolated};

const TRANSIENT: [i32; 5] =
    [libc::ENETUNREACH, libc::EPERM, libc::ECONNREFUSED, libc::ENOBUFS, libc::EHOSTUNREACH];

#[test]
fn a_failed_send_calls_error_received_and_the_next_one_works() {
    isolated(|| {
        for errno in TRANSIENT {
            let fixture = Fixture::new(TestBackend::Fake);
            fixture.run_once();
            fixture.control.fail_next(Op::SendTo, errno);
            fixture.send(b"lost");
            fixture.send(b"next");
            assert_eq!(fixture.take_arrived(), [b"next"]);
            assert_eq!(*fixture.protocol().log.borrow(), [Event::Made, Event::Error(errno)]);
            assert!(!fixture.transport.is_closing());
            fixture.transport.close(fixture.cx()).unwrap();
            fixture.run_until_lost();
            fixture.assert_reports(&[]);
        }
    });
}

#[test]
fn a_failed_receive_calls_error_received_and_the_next_one_works() {
    isolated(|| {
        for errno in TRANSIENT {
            let fixture = Fixture::new(TestBackend::Fake);
            fixture.run_once();
            let path = std::env::temp_dir().join(format!("mainspring-faults-{}", std::process::id()));
            let name = bind_near(&fixture, &path);
            fixture.control.fail_next(Op::RecvFrom, errno);
            fixture.peer.send_to(b"data", &name).unwrap();
            fixture.until("the datagram arrives", || !fixture.protocol().data().is_empty());
            let expected = [Event::Made, Event::Error(errno), Event::Data(b"data".to_vec())];
            assert_eq!(*fixture.protocol().log.borrow(), expected);
            fixture.transport.close(fixture.cx()).unwrap();
            fixture.run_until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

#[test]
fn a_blocked_or_interrupted_send_is_retried() {
    isolated(|| {
        for errno in [libc::EAGAIN, libc::EINTR] {
            let fixture = Fixture::new(TestBackend::Fake);
            fixture.run_once();
            fixture.control.plan(FaultPlan::fail(Op::SendTo, errno).times(3));
            fixture.send(b"1");
            fixture.send(b"2");
            assert_eq!(fixture.transport.write_buffer_size(), 18);
            fixture.until("all datagrams are sent", || fixture.transport.write_buffer_size() == 0);
            assert_eq!(fixture.take_arrived(), [b"1", b"2"]);
            assert_eq!(*fixture.protocol().log.borrow(), [Event::Made]);
            fixture.transport.close(fixture.cx()).unwrap();
            fixture.run_until_lost();
        }
    });
}

#[test]
fn a_paused_protocol_is_resumed_after_all_buffered_sends_failed() {
    isolated(|| {
        for closes in [false, true] {
            let fixture = Fixture::new(TestBackend::Fake);
            fixture.run_once();
            fixture.set_marks(0, 0);
            fixture.control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN));
            fixture.control.plan(FaultPlan::fail(Op::SendTo, libc::ENETUNREACH).times(2));
            fixture.send(b"1");
            fixture.send(b"2");
            if closes {
                fixture.transport.close(fixture.cx()).unwrap();
                fixture.run_until_lost();
            }
            fixture.until("the protocol is resumed", || !fixture.transport.is_writing_paused());
            let unreachable = Event::Error(libc::ENETUNREACH);
            let mut expected =
                vec![Event::Made, Event::Pause, unreachable.clone(), unreachable, Event::Resume];
            if closes {
                expected.push(Event::Lost(false));
            }
            assert_eq!(*fixture.protocol().log.borrow(), expected);
            fixture.transport.abort(fixture.cx(), None).unwrap();
            fixture.until("the endpoint is closed", || fixture.transport.is_finished());
        }
    });
}

#[test]
fn a_failed_registration_loses_the_endpoint_once() {
    isolated(|| {
        // The registration for reading, the one for writing, and the removal of the latter.
        for after in 0..3 {
            let fixture = Fixture::new(TestBackend::Fake);
            fixture
                .control
                .plan(FaultPlan::fail(Op::Update, libc::ENOSPC).on(fixture.transport.fd()).after(after));
            fixture.control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN));
            fixture.run_once();
            if !fixture.transport.is_closing() {
                fixture.send(b"waits");
            }
            fixture.run_until_lost();
            assert_eq!(fixture.protocol().count(&Event::Lost(true)), 1, "{after}");
            fixture.engine.host().reports.take();
        }
    });
}
