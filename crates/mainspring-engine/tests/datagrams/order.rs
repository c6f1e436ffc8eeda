//! The order of datagrams, and when the protocol is paused.

use crate::fixture::{Action, Event, Fixture};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Destination, Refusal};
use test_support::{TestBackend, isolated};

#[test]
fn datagrams_are_sent_in_order_buffered_or_not() {
    isolated(|| {
        for on in TestBackend::ALL {
            let fixture = Fixture::new(on);
            fixture.fill();
            let waited = (0..20u8).map(|number| vec![number]).collect::<Vec<_>>();
            waited.iter().for_each(|data| fixture.send(data));
            let mut arrived = Vec::new();
            while arrived.last() != waited.last() {
                arrived.extend(fixture.take_arrived());
                fixture.run_once();
            }
            assert_eq!(arrived[arrived.len() - 20..], waited);
            assert_eq!(fixture.transport.write_buffer_size(), 0);
            fixture.transport.close(fixture.cx()).unwrap();
            fixture.run_until_lost();
        }
    });
}

#[test]
fn one_event_delivers_several_datagrams_until_a_callback_schedules_a_call() {
    isolated(|| {
        for on in TestBackend::ALL {
            let (fixture, near) = (Fixture::new(on), tempfile());
            fixture.run_once();
            let name = bind_near(&fixture, &near);
            for number in 0..20u8 {
                fixture.peer.send_to(&[number], &name).unwrap();
            }
            *fixture.protocol().when.borrow_mut() = Some((Event::Data(Vec::new()), Action::CallSoon));
            let mut delivered = Vec::new();
            for _ in 0..3 {
                fixture.engine.run_once().unwrap();
                delivered.push(fixture.protocol().data().len());
            }
            assert_eq!(delivered, [1, 17, 20]);
            assert_eq!(fixture.protocol().data(), (0..20u8).map(|number| vec![number]).collect::<Vec<_>>());
            fixture.transport.abort(fixture.cx(), None).unwrap();
            fixture.run_until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

#[test]
fn a_stopping_loop_delivers_one_datagram_per_iteration() {
    isolated(|| {
        for on in TestBackend::ALL {
            let (fixture, near) = (Fixture::new(on), tempfile());
            fixture.run_once();
            let name = bind_near(&fixture, &near);
            for number in 0..3u8 {
                fixture.peer.send_to(&[number], &name).unwrap();
            }
            for expected in 1..=3 {
                fixture.run_once();
                assert_eq!(fixture.protocol().data().len(), expected);
            }
            fixture.transport.abort(fixture.cx(), None).unwrap();
            fixture.run_until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

fn tempfile() -> std::path::PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
    std::env::temp_dir().join(format!("mainspring-near-{}-{thread}", std::process::id()))
}

/// Binds the transport's socket, so that its peer can send to it.
pub fn bind_near(fixture: &Fixture, path: &std::path::Path) -> std::path::PathBuf {
    let _ = std::fs::remove_file(path);
    let address = rustix::net::SocketAddrUnix::new(path).unwrap();
    // SAFETY: the transport owns the fd and is alive.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fixture.transport.fd()) };
    rustix::net::bind(fd, &address).unwrap();
    path.to_owned()
}

#[test]
fn the_protocol_is_paused_by_buffered_size_and_resumed_when_sent() {
    isolated(|| {
        for on in TestBackend::ALL {
            let fixture = Fixture::new(on);
            fixture.run_once();
            fixture.set_marks(30, 0);
            fixture.fill();
            assert_eq!(
                (fixture.transport.write_buffer_size(), fixture.transport.is_writing_paused()),
                (12, false)
            );
            // Empty datagrams count with a header's weight each.
            (0..3).for_each(|_| fixture.send(b""));
            assert_eq!(
                (fixture.transport.write_buffer_size(), fixture.transport.is_writing_paused()),
                (36, true)
            );
            fixture.take_arrived();
            fixture.until("the protocol is resumed", || !fixture.transport.is_writing_paused());
            assert_eq!(*fixture.protocol().log.borrow(), [Event::Made, Event::Pause, Event::Resume]);
            fixture.transport.close(fixture.cx()).unwrap();
            fixture.run_until_lost();
        }
    });
}

#[test]
fn close_sends_buffered_datagrams_and_abort_drops_them() {
    isolated(|| {
        for (on, aborts) in [
            (TestBackend::Epoll, false),
            (TestBackend::Epoll, true),
            (TestBackend::Fake, false),
            (TestBackend::Fake, true),
        ] {
            let fixture = Fixture::new(on);
            fixture.fill();
            fixture.send(b"last");
            if aborts {
                fixture.transport.abort(fixture.cx(), None).unwrap();
            } else {
                fixture.transport.close(fixture.cx()).unwrap();
            }
            let mut arrived = fixture.take_arrived();
            fixture.run_until_lost();
            arrived.extend(fixture.take_arrived());
            assert_eq!(arrived.contains(&b"last".to_vec()), !aborts);
        }
    });
}

#[test]
fn sends_after_the_end_are_counted_and_warn() {
    isolated(|| {
        let fixture = Fixture::new(TestBackend::Epoll);
        fixture.transport.close(fixture.cx()).unwrap();
        (0..6).for_each(|_| fixture.send(b"late"));
        fixture.run_until_lost();
        fixture.send(b"later");
        assert_eq!(fixture.take_arrived(), [[0; 0]; 0]);
        assert_eq!(fixture.engine.host().warnings.get(), 3);
    });
}

#[test]
fn a_foreign_destination_blocks_fails_or_closes_as_the_sink_says() {
    isolated(|| {
        let fixture = Fixture::new(TestBackend::Epoll);
        fixture.run_once();
        fixture.protocol().foreign.set(Some(|| Refusal::System(crate::fixture::Failure::System(7))));
        fixture.send_to(b"1", Destination::Foreign("somewhere"));
        assert_eq!(fixture.protocol().count(&Event::Error(7)), 1);
        fixture.protocol().foreign.set(Some(|| Refusal::WouldBlock));
        fixture.send_to(b"2", Destination::Foreign("somewhere"));
        assert_eq!(fixture.transport.write_buffer_size(), 9);
        fixture.protocol().foreign.set(None);
        fixture.until("the datagram is sent", || fixture.transport.write_buffer_size() == 0);
        fixture.protocol().foreign.set(Some(|| Refusal::Fatal(crate::fixture::Failure::Protocol)));
        fixture.send_to(b"3", Destination::Foreign("somewhere"));
        fixture.run_until_lost();
        assert_eq!(fixture.protocol().count(&Event::Lost(true)), 1);
        fixture.assert_reports(&["Fatal write error on datagram transport: Protocol"]);
    });
}
