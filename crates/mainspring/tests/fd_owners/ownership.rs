//! The owner of an fd, for every kind and state of transport.

use crate::support::TestLoop;
use crate::{Recorder, assert_free, assert_owned, poll};
use mainspring::Error;
use mainspring::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};
use mainspring_engine::testing::Op;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream as PlainTcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram as PlainDatagram, UnixStream as Plain};
use std::task::Poll;
use test_support::fd_numbers::pair_with_fd;
use test_support::{TestBackend, isolated};

/// Closes or drops an owner.
type End = Box<dyn FnOnce(&TestLoop)>;

fn boxed(end: impl FnOnce(&TestLoop) + 'static) -> End {
    Box::new(end)
}

/// An owner without kernel interest in at least one direction: its fd, and how it ends.
fn owner(test_loop: &TestLoop, kind: &str) -> (i32, End) {
    let event_loop = test_loop.event_loop.clone();
    test_loop.run(async {
        match kind {
            "an unread stream" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let stream = UnixStream::from_std(near).unwrap();
                (number, boxed(move |_| drop((stream, far))))
            }
            "a stream after a write" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let stream = UnixStream::from_std(near).unwrap();
                stream.write_all(b"hello").await.unwrap();
                (number, boxed(move |_| drop((stream, far))))
            }
            "a paused transport" | "a paused and dropped transport" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let (transport, _) =
                    event_loop.connect_accepted_socket(near, Recorder::paused).await.unwrap();
                let closes = !kind.contains("dropped");
                let end = move |_: &TestLoop| {
                    if closes {
                        transport.close();
                    }
                    drop((transport, far));
                };
                (number, boxed(end))
            }
            "a receiving transport" => {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let (transport, _) =
                    event_loop.connect_accepted_socket(near, Recorder::default).await.unwrap();
                let end = move |_: &TestLoop| {
                    transport.abort();
                    drop(far);
                };
                (number, boxed(end))
            }
            "a paused read pipe" => {
                let (reader, writer) = io::pipe().unwrap();
                let number = reader.as_raw_fd();
                let (transport, _) = event_loop.connect_read_pipe(reader, Recorder::paused).await.unwrap();
                let end = move |_: &TestLoop| {
                    transport.close();
                    drop(writer);
                };
                (number, boxed(end))
            }
            "a write pipe" => {
                let (reader, writer) = io::pipe().unwrap();
                let number = writer.as_raw_fd();
                let (transport, _) = event_loop.connect_write_pipe(writer, Recorder::default).await.unwrap();
                let end = move |_: &TestLoop| {
                    transport.close();
                    drop(reader);
                };
                (number, boxed(end))
            }
            "an unused datagram socket" => {
                let (near, far) = PlainDatagram::pair().unwrap();
                let number = near.as_raw_fd();
                let socket = UnixDatagram::from_std(near).unwrap();
                (number, boxed(move |_| drop((socket, far))))
            }
            "a datagram socket after into_std" => {
                let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                let number = plain.as_raw_fd();
                let socket = UdpSocket::from_std(plain).unwrap();
                let end = move |test_loop: &TestLoop| {
                    let plain = socket.into_std().unwrap();
                    assert_eq!(plain.as_raw_fd(), number);
                    assert_free(&test_loop.event_loop, number);
                };
                (number, boxed(end))
            }
            "a paused datagram endpoint" => {
                let (near, far) = PlainDatagram::pair().unwrap();
                let number = near.as_raw_fd();
                let made = event_loop.create_unix_datagram_endpoint(near, Recorder::paused).await;
                let (transport, _) = made.unwrap();
                let end = move |_: &TestLoop| {
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
    "an unread stream",
    "a stream after a write",
    "a paused transport",
    "a paused and dropped transport",
    "a receiving transport",
    "a paused read pipe",
    "a write pipe",
    "an unused datagram socket",
    "a datagram socket after into_std",
    "a paused datagram endpoint",
];

#[test]
fn every_kind_of_transport_owns_its_fd_from_creation_to_close() {
    isolated(|| {
        for on in TestBackend::ALL {
            for kind in KINDS {
                let test_loop = TestLoop::new(on, format!("{kind} on {on:?}"));
                // Twice: the second socket reuses the number.
                for _ in 0..2 {
                    let (number, end) = owner(&test_loop, kind);
                    assert_owned(&test_loop.event_loop, number);
                    test_loop.run_iterations(2);
                    assert_owned(&test_loop.event_loop, number);
                    end(&test_loop);
                    test_loop.assert_idle();
                    let next = pair_with_fd(number);
                    assert_free(&test_loop.event_loop, number);
                    drop(next);
                }
                test_loop.assert_reports(&[]);
                test_loop.assert_idle();
            }
        }
    });
}

#[test]
fn no_other_waiter_may_use_the_fd_of_a_stream() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("waits on {on:?}"));
            let event_loop = &test_loop.event_loop;
            test_loop.run(async {
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
                assert!(sock_accept.is_ready(), "accept() fails at once: not a listener");
                far.write_all(b"hello").unwrap();
                assert_eq!(stream.read_exactly(5).await.unwrap(), b"hello");
                stream.write_all(b"hello").await.unwrap();
                far.read_exact(&mut [0; 5]).unwrap();
            });
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_listener_keeps_its_fd_while_it_pauses_and_while_no_task_accepts() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a listener");
        test_loop.run(async {
            let taken = std::fs::File::open("/dev/null").unwrap();
            let number = taken.as_raw_fd();
            drop(taken);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            assert_owned(&test_loop.event_loop, number);
            // A resource is exhausted: the listener pauses for one second.
            test_loop.control.fail_next(Op::Accept, libc::EMFILE);
            let client = PlainTcpStream::connect(listener.local_addr()).unwrap();
            while test_loop.event_loop.metrics().descriptors > 0 {
                mainspring::sleep(std::time::Duration::ZERO).await;
            }
            assert_owned(&test_loop.event_loop, number);
            drop((listener, client));
        });
        test_loop.assert_idle();
        assert_eq!(test_loop.reports.take().len(), 1, "the listener reported its pause");
    });
}

#[test]
fn a_closed_loop_does_not_affect_the_fds_of_another() {
    isolated(|| {
        let (first, second) = (
            TestLoop::new(TestBackend::Epoll, "the first loop"),
            TestLoop::new(TestBackend::Epoll, "the second"),
        );
        let (near, far) = Plain::pair().unwrap();
        let number = near.as_raw_fd();
        let paused = first.event_loop.connect_accepted_socket(near, Recorder::paused);
        let (transport, _) = first.run(paused).unwrap();
        assert_owned(&first.event_loop, number);
        // As in asyncio, each loop knows only its own fds.
        assert_free(&second.event_loop, number);
        first.event_loop.close().unwrap();
        assert!(matches!(first.event_loop.add_reader(&number, || ()), Err(Error::Closed)));
        drop((transport, far));
        let next = pair_with_fd(number);
        assert_free(&second.event_loop, number);
        drop(next);
    });
}

#[test]
fn a_transport_that_cannot_be_registered_frees_its_fd_number() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a transport that cannot be registered");
        test_loop.control.fail_next(Op::Update, libc::ENOSPC);
        let (near, far) = Plain::pair().unwrap();
        let number = near.as_raw_fd();
        let made = test_loop.event_loop.connect_accepted_socket(near, Recorder::default);
        let (transport, _) = test_loop.run(made).unwrap();
        test_loop.until("the registration has failed", || transport.is_closing());
        drop(transport);
        test_loop.assert_idle();
        let next = pair_with_fd(number);
        assert_free(&test_loop.event_loop, number);
        drop((next, far));
    });
}

#[test]
fn a_closed_transport_does_not_own_a_reused_fd_number() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("kept after close on {on:?}"));
            let mut kept = Vec::new();
            for _ in 0..3 {
                let (near, far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let made = test_loop.event_loop.connect_accepted_socket(near, Recorder::paused);
                let (transport, _) = test_loop.run(made).unwrap();
                // A transport that was closed earlier does not own a reused number.
                drop(kept.pop());
                assert_owned(&test_loop.event_loop, number);
                transport.resume_reading();
                transport.pause_reading();
                assert_owned(&test_loop.event_loop, number);
                transport.close();
                assert_owned(&test_loop.event_loop, number);
                test_loop.assert_idle();
                drop(far);
                let next = pair_with_fd(number);
                assert_free(&test_loop.event_loop, number);
                transport.close();
                transport.abort();
                drop(next);
                kept.push(transport);
            }
        }
    });
}
