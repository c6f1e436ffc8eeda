//! What is sent, in which order, and when the protocol is paused.

use crate::stage::{Deed, Stage, Told};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Destination, Refusal};
use test_support::{On, guarded};

#[test]
fn datagrams_leave_in_order_whether_they_waited_or_not() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on);
            stage.fill();
            let waited = (0..20u8).map(|number| vec![number]).collect::<Vec<_>>();
            waited.iter().for_each(|data| stage.send(data));
            let mut arrived = Vec::new();
            while arrived.last() != waited.last() {
                arrived.extend(stage.arrived());
                stage.pass();
            }
            assert_eq!(arrived[arrived.len() - 20..], waited);
            assert_eq!(stage.transport.write_buffer_size(), 0);
            stage.transport.close(stage.cx()).unwrap();
            stage.until_lost();
        }
    });
}

#[test]
fn an_event_brings_several_datagrams_unless_one_of_them_gives_the_loop_something_to_do() {
    guarded(|| {
        for on in On::ALL {
            let (stage, near) = (Stage::new(on), tempfile());
            stage.pass();
            let name = bind_near(&stage, &near);
            for number in 0..20u8 {
                stage.peer.send_to(&[number], &name).unwrap();
            }
            *stage.protocol().when.borrow_mut() = Some((Told::Data(Vec::new()), Deed::CallSoon));
            let mut delivered = Vec::new();
            for _ in 0..3 {
                stage.engine.run_once().unwrap();
                delivered.push(stage.protocol().data().len());
            }
            assert_eq!(delivered, [1, 17, 20]);
            assert_eq!(stage.protocol().data(), (0..20u8).map(|number| vec![number]).collect::<Vec<_>>());
            stage.transport.abort(stage.cx(), None).unwrap();
            stage.until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

#[test]
fn one_datagram_is_delivered_in_a_pass_of_a_loop_that_stops() {
    guarded(|| {
        for on in On::ALL {
            let (stage, near) = (Stage::new(on), tempfile());
            stage.pass();
            let name = bind_near(&stage, &near);
            for number in 0..3u8 {
                stage.peer.send_to(&[number], &name).unwrap();
            }
            for expected in 1..=3 {
                stage.pass();
                assert_eq!(stage.protocol().data().len(), expected);
            }
            stage.transport.abort(stage.cx(), None).unwrap();
            stage.until_lost();
            std::fs::remove_file(name).unwrap();
        }
    });
}

fn tempfile() -> std::path::PathBuf {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
    std::env::temp_dir().join(format!("mainspring-near-{}-{thread}", std::process::id()))
}

/// Gives the transport's socket a name, so that its peer can send to it.
pub fn bind_near(stage: &Stage, path: &std::path::Path) -> std::path::PathBuf {
    let _ = std::fs::remove_file(path);
    let address = rustix::net::SocketAddrUnix::new(path).unwrap();
    // SAFETY: the transport owns the descriptor, and lives.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(stage.transport.fd()) };
    rustix::net::bind(fd, &address).unwrap();
    path.to_owned()
}

#[test]
fn the_protocol_is_paused_by_weight_and_resumed_when_it_is_gone() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on);
            stage.pass();
            stage.set_marks(30, 0);
            stage.fill();
            assert_eq!(
                (stage.transport.write_buffer_size(), stage.transport.is_writing_paused()),
                (12, false)
            );
            // Empty datagrams have a header's weight each.
            (0..3).for_each(|_| stage.send(b""));
            assert_eq!(
                (stage.transport.write_buffer_size(), stage.transport.is_writing_paused()),
                (36, true)
            );
            stage.arrived();
            stage.until("it is resumed", || !stage.transport.is_writing_paused());
            assert_eq!(*stage.protocol().log.borrow(), [Told::Made, Told::Pause, Told::Resume]);
            stage.transport.close(stage.cx()).unwrap();
            stage.until_lost();
        }
    });
}

#[test]
fn closing_sends_what_waits_and_aborting_does_not() {
    guarded(|| {
        for (on, aborts) in [(On::Epoll, false), (On::Epoll, true), (On::Fake, false), (On::Fake, true)] {
            let stage = Stage::new(on);
            stage.fill();
            stage.send(b"last");
            if aborts {
                stage.transport.abort(stage.cx(), None).unwrap();
            } else {
                stage.transport.close(stage.cx()).unwrap();
            }
            let mut arrived = stage.arrived();
            stage.until_lost();
            arrived.extend(stage.arrived());
            assert_eq!(arrived.contains(&b"last".to_vec()), !aborts);
        }
    });
}

#[test]
fn what_is_sent_after_the_end_is_counted_and_warned_of() {
    guarded(|| {
        let stage = Stage::new(On::Epoll);
        stage.transport.close(stage.cx()).unwrap();
        (0..6).for_each(|_| stage.send(b"late"));
        stage.until_lost();
        stage.send(b"later");
        assert_eq!(stage.arrived(), [[0; 0]; 0]);
        assert_eq!(stage.engine.host().warnings.get(), 3);
    });
}

#[test]
fn a_foreign_destination_waits_fails_or_ends_the_transport_as_the_face_says() {
    guarded(|| {
        let stage = Stage::new(On::Epoll);
        stage.pass();
        stage.protocol().foreign.set(Some(|| Refusal::System(crate::stage::Failure::System(7))));
        stage.send_to(b"1", Destination::Foreign("somewhere"));
        assert_eq!(stage.protocol().count(&Told::Error(7)), 1);
        stage.protocol().foreign.set(Some(|| Refusal::WouldBlock));
        stage.send_to(b"2", Destination::Foreign("somewhere"));
        assert_eq!(stage.transport.write_buffer_size(), 9);
        stage.protocol().foreign.set(None);
        stage.until("it is sent", || stage.transport.write_buffer_size() == 0);
        stage.protocol().foreign.set(Some(|| Refusal::Fatal(crate::stage::Failure::OfTheProtocol)));
        stage.send_to(b"3", Destination::Foreign("somewhere"));
        stage.until_lost();
        assert_eq!(stage.protocol().count(&Told::Lost(true)), 1);
        stage.assert_reports(&["Fatal write error on datagram transport: OfTheProtocol"]);
    });
}
