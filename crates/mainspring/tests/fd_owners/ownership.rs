//! Who owns an fd, for every kind and state of transport.

use crate::support::Stage;
use crate::{Hears, assert_free, assert_owned, poll};
use mainspring::Error;
use mainspring::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};
use mainspring_engine::testing::Op;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream as PlainTcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram as PlainDatagram, UnixStream as Plain};
use std::task::Poll;
use test_support::fd_numbers::pair_with;
use test_support::{On, guarded};

/// An owner of an fd, how it ends, and whether the number is free afterwards.
type End = Box<dyn FnOnce(&Stage)>;

fn boxed(end: impl FnOnce(&Stage) + 'static) -> End {
    Box::new(end)
}

/// An owner without kernel interest in at least one direction: its fd, and how it ends.
fn owner(stage: &Stage, kind: &str) -> (i32, End) {
    let event_loop = stage.event_loop.clone();
    stage.run(async {
        match kind {
            "a stream nobody reads" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let stream = UnixStream::from_std(near).unwrap();
                (number, boxed(move |_| drop((stream, far))))
            }
            "a stream that was written to" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let stream = UnixStream::from_std(near).unwrap();
                stream.write_all(b"hello").await.unwrap();
                (number, boxed(move |_| drop((stream, far))))
            }
            "a transport that is paused" | "a transport that is paused and dropped" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let (transport, _) = event_loop.connect_accepted_socket(near, Hears::paused).await.unwrap();
                let closes = !kind.ends_with("dropped");
                let end = move |_: &Stage| {
                    if closes {
                        transport.close();
                    }
                    drop((transport, far));
                };
                (number, boxed(end))
            }
            "a transport that receives" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let (transport, _) = event_loop.connect_accepted_socket(near, Hears::default).await.unwrap();
                let end = move |_: &Stage| {
                    transport.abort();
                    drop(far);
                };
                (number, boxed(end))
            }
            "a pipe that is read, paused" => {
                let (reader, writer) = io::pipe().unwrap();
                let number = reader.as_raw_fd();
                let (transport, _) = event_loop.connect_read_pipe(reader, Hears::paused).await.unwrap();
                let end = move |_: &Stage| {
                    transport.close();
                    drop(writer);
                };
                (number, boxed(end))
            }
            "a pipe that is written" => {
                let (reader, writer) = io::pipe().unwrap();
                let number = writer.as_raw_fd();
                let (transport, _) = event_loop.connect_write_pipe(writer, Hears::default).await.unwrap();
                let end = move |_: &Stage| {
                    transport.close();
                    drop(reader);
                };
                (number, boxed(end))
            }
            "a datagram socket nobody asks" => {
                let (near, far) = PlainDatagram::pair().unwrap();
                let number = near.as_raw_fd();
                let socket = UnixDatagram::from_std(near).unwrap();
                (number, boxed(move |_| drop((socket, far))))
            }
            "a datagram socket that is taken out" => {
                let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                let number = plain.as_raw_fd();
                let socket = UdpSocket::from_std(plain).unwrap();
                let end = move |stage: &Stage| {
                    let plain = socket.into_std().unwrap();
                    assert_eq!(plain.as_raw_fd(), number);
                    assert_free(&stage.event_loop, number);
                };
                (number, boxed(end))
            }
            "a datagram endpoint that is paused" => {
                let (near, far) = PlainDatagram::pair().unwrap();
                let number = near.as_raw_fd();
                let made = event_loop.create_unix_datagram_endpoint(near, Hears::paused).await;
                let (transport, _) = made.unwrap();
                let end = move |_: &Stage| {
                    transport.close();
                    drop(far);
                };
                (number, boxed(end))
            }
            _ => unreachable!("{kind}"),
        }
    })
}

const KINDS: [&str; 10] = [
    "a stream nobody reads",
    "a stream that was written to",
    "a transport that is paused",
    "a transport that is paused and dropped",
    "a transport that receives",
    "a pipe that is read, paused",
    "a pipe that is written",
    "a datagram socket nobody asks",
    "a datagram socket that is taken out",
    "a datagram endpoint that is paused",
];

#[test]
fn the_descriptor_of_every_kind_of_transport_is_its_own_from_beginning_to_end() {
    guarded(|| {
        for on in On::ALL {
            for kind in KINDS {
                let stage = Stage::new(on, format!("{kind} on {on:?}"));
                // Twice: the second socket reuses the number.
                for _ in 0..2 {
                    let (number, end) = owner(&stage, kind);
                    assert_owned(&stage.event_loop, number);
                    stage.passes(2);
                    assert_owned(&stage.event_loop, number);
                    end(&stage);
                    stage.assert_idle();
                    let next = pair_with(number);
                    assert_free(&stage.event_loop, number);
                    drop(next);
                }
                stage.assert_reports(&[]);
                stage.assert_idle();
            }
        }
    });
}

#[test]
fn nobody_waits_for_a_stream_in_its_readers_place() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("waits on {on:?}"));
            let event_loop = &stage.event_loop;
            stage.run(async {
                let (near, mut far) = Plain::pair().unwrap();
                let stream = UnixStream::from_std(near).unwrap();
                let refusals = stream.transport().with_fd(|fd| {
                    Ok([
                        poll(event_loop.readable(&fd)).map(|done| done.unwrap_err().kind()),
                        poll(event_loop.writable(&fd)).map(|done| done.unwrap_err().kind()),
                        poll(event_loop.sock_recv(&fd, 1)).map(|done| done.unwrap_err().kind()),
                        poll(event_loop.sock_accept(&fd)).map(|done| done.unwrap_err().kind()),
                    ])
                });
                let [readable, writable, sock_recv, sock_accept] = refusals.unwrap();
                assert_eq!(readable, Poll::Ready(ErrorKind::ResourceBusy));
                assert_eq!(writable, Poll::Ready(ErrorKind::ResourceBusy));
                assert_eq!(sock_recv, Poll::Ready(ErrorKind::ResourceBusy));
                assert!(sock_accept.is_ready(), "it is no listener");
                far.write_all(b"hello").unwrap();
                assert_eq!(stream.read_exactly(5).await.unwrap(), b"hello");
                stream.write_all(b"hello").await.unwrap();
                far.read_exact(&mut [0; 5]).unwrap();
            });
            stage.assert_idle();
        }
    });
}

#[test]
fn a_listener_keeps_its_descriptor_while_it_rests_and_while_nobody_accepts() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a listener");
        stage.run(async {
            let taken = std::fs::File::open("/dev/null").unwrap();
            let number = taken.as_raw_fd();
            drop(taken);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            assert_owned(&stage.event_loop, number);
            // A resource is exhausted: the listener pauses for one second.
            stage.control.fail_next(Op::Accept, libc::EMFILE);
            let client = PlainTcpStream::connect(listener.local_addr()).unwrap();
            while stage.event_loop.metrics().descriptors > 0 {
                mainspring::sleep(std::time::Duration::ZERO).await;
            }
            assert_owned(&stage.event_loop, number);
            drop((listener, client));
        });
        stage.assert_idle();
        assert_eq!(stage.reports.take().len(), 1, "the listener has told that it rests");
    });
}

#[test]
fn a_loop_that_is_closed_has_no_say_in_anothers_descriptors() {
    guarded(|| {
        let (first, second) = (Stage::new(On::Epoll, "the first loop"), Stage::new(On::Epoll, "the second"));
        let (near, far) = Plain::pair().unwrap();
        let number = near.as_raw_fd();
        let paused = first.event_loop.connect_accepted_socket(near, Hears::paused);
        let (transport, _) = first.run(paused).unwrap();
        assert_owned(&first.event_loop, number);
        // As in asyncio, each loop knows only its own fds.
        assert_free(&second.event_loop, number);
        first.event_loop.close().unwrap();
        assert!(matches!(first.event_loop.add_reader(&number, || ()), Err(Error::Closed)));
        drop((transport, far));
        let next = pair_with(number);
        assert_free(&second.event_loop, number);
        drop(next);
    });
}

#[test]
fn a_transport_that_the_kernel_does_not_take_gives_its_number_up_in_the_end() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a transport that cannot be registered");
        stage.control.fail_next(Op::Update, libc::ENOSPC);
        let (near, far) = Plain::pair().unwrap();
        let number = near.as_raw_fd();
        let made = stage.event_loop.connect_accepted_socket(near, Hears::default);
        let (transport, _) = stage.run(made).unwrap();
        stage.until("it has failed", || transport.is_closing());
        drop(transport);
        stage.assert_idle();
        let next = pair_with(number);
        assert_free(&stage.event_loop, number);
        drop((next, far));
    });
}

#[test]
fn a_transport_that_is_kept_after_its_end_has_nothing_to_do_with_its_number() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("kept after the end on {on:?}"));
            let mut kept = Vec::new();
            for _ in 0..3 {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let made = stage.event_loop.connect_accepted_socket(near, Hears::paused);
                let (transport, _) = stage.run(made).unwrap();
                // An object that was closed earlier has no claim on a reused number.
                drop(kept.pop());
                assert_owned(&stage.event_loop, number);
                transport.resume_reading();
                transport.pause_reading();
                assert_owned(&stage.event_loop, number);
                transport.close();
                assert_owned(&stage.event_loop, number);
                stage.assert_idle();
                drop(far);
                let next = pair_with(number);
                assert_free(&stage.event_loop, number);
                transport.close();
                transport.abort();
                drop(next);
                kept.push(transport);
            }
        }
    });
}
