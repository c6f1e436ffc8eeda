//! A descriptor is its transport's own from the beginning to the end, whether the kernel is asked about it or not: nobody
//! else may watch it or wait for it, and whoever did before is told.
#![cfg(not(loom))]

#[macro_use]
extern crate checked_test;

#[path = "support/leak_check.rs"]
mod leak_check;
mod support;

use mainspring::net::{
    DatagramProtocol, DatagramTransport, TcpListener, UdpSocket, UnixDatagram, UnixStream,
};
use mainspring::testing::Op;
use mainspring::{Error, EventLoop, Protocol, Transport, spawn};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream as PlainTcpStream;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram as PlainDatagram, UnixStream as Plain};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use support::{On, Stage, guarded};

/// Opens sockets until one has `number`.
fn pair_with(number: i32) -> (Plain, Plain) {
    let mut others = Vec::new();
    for _ in 0..16 {
        let (a, b) = Plain::pair().unwrap();
        if a.as_raw_fd() == number {
            return (a, b);
        }
        if b.as_raw_fd() == number {
            return (b, a);
        }
        others.push((a, b));
    }
    panic!("nobody got the number {number}");
}

/// Keeps what it hears; receives nothing if it is told so.
#[derive(Default)]
struct Hears {
    is_paused: bool,
    heard: RefCell<Vec<u8>>,
}

impl Hears {
    fn paused() -> Self {
        Hears { is_paused: true, ..Hears::default() }
    }
}

impl Protocol for Hears {
    fn connection_made(&self, transport: &Transport) {
        if self.is_paused {
            transport.pause_reading();
        }
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.heard.borrow_mut().extend_from_slice(data);
    }
}

impl DatagramProtocol<std::os::unix::net::SocketAddr> for Hears {
    fn connection_made(&self, transport: &DatagramTransport<std::os::unix::net::SocketAddr>) {
        transport.pause_reading();
    }
}

#[track_caller]
fn assert_busy<R: std::fmt::Debug>(what: Result<R, Error>, called: &str) {
    match what {
        Err(Error::Io(error)) if error.kind() == ErrorKind::ResourceBusy => {}
        other => panic!("{called}: {other:?}"),
    }
}

/// Nobody can watch this number, nor end a watch of it.
#[track_caller]
fn assert_owned(event_loop: &EventLoop, number: i32) {
    let before = event_loop.metrics().descriptors;
    assert_busy(event_loop.add_reader(&number, || panic!("a reader")), "add_reader");
    assert_busy(event_loop.add_writer(&number, || panic!("a writer")), "add_writer");
    assert_busy(event_loop.remove_reader(&number), "remove_reader");
    assert_busy(event_loop.remove_writer(&number), "remove_writer");
    assert_eq!(event_loop.metrics().descriptors, before);
}

/// Anybody can.
#[track_caller]
fn assert_free(event_loop: &EventLoop, number: i32) {
    event_loop.add_reader(&number, || ()).unwrap();
    event_loop.add_writer(&number, || ()).unwrap();
    assert!(event_loop.remove_reader(&number).unwrap() && event_loop.remove_writer(&number).unwrap());
    assert!(!event_loop.remove_reader(&number).unwrap() && !event_loop.remove_writer(&number).unwrap());
}

/// Polls once.
fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// What holds a descriptor, what becomes of it, and whether its number is free after that.
type End = Box<dyn FnOnce(&Stage)>;

fn boxed(end: impl FnOnce(&Stage) + 'static) -> End {
    Box::new(end)
}

/// One kind of owner that the kernel is asked nothing about, or not in every direction: its number, and how it ends.
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
                // Twice: the second one has the same number.
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
            // The system is short of something: it rests for a second.
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
        // As in asyncio: every loop knows its own.
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

/// Says what a reader is for, and that it is gone.
struct Token(Rc<Cell<u32>>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_transport_takes_its_descriptor_from_those_who_watch_it() {
    guarded(|| {
        for on in On::ALL {
            for is_paused in [false, true] {
                let stage = Stage::new(on, format!("watched before on {on:?}, paused: {is_paused}"));
                let (near, mut far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let gone = Rc::new(Cell::new(0));
                let (reader, writer) = (Token(Rc::clone(&gone)), Token(Rc::clone(&gone)));
                let called = Rc::new(Cell::new(0));
                let calling = Rc::clone(&called);
                let read = move || {
                    let _held = &reader;
                    calling.set(calling.get() + 1);
                };
                stage.event_loop.add_reader(&number, read).unwrap();
                let write = move || {
                    let _held = &writer;
                };
                stage.event_loop.add_writer(&number, write).unwrap();
                far.write_all(b"hello").unwrap();
                let made = stage
                    .event_loop
                    .connect_accepted_socket(near, || Hears { is_paused, ..Hears::default() });
                let (transport, protocol) = stage.run(made).unwrap();
                assert_eq!(gone.get(), 2, "{}: both are let go", stage.name());
                stage.passes(3);
                let calls = called.get();
                assert_owned(&stage.event_loop, number);
                stage.passes(3);
                assert_eq!(called.get(), calls, "{}", stage.name());
                assert_eq!(stage.event_loop.metrics().descriptors, usize::from(!is_paused));
                let heard: &[u8] = if is_paused { b"" } else { b"hello" };
                assert_eq!(*protocol.heard.borrow(), heard);
                transport.abort();
                drop((transport, far));
                stage.assert_idle();
                stage.assert_reports(&[]);
            }
        }
    });
}

#[test]
fn who_waits_for_a_socket_that_becomes_a_transport_is_told() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("waits before on {on:?}"));
            stage.run(async {
                let (near, far) = Plain::pair().unwrap();
                near.set_nonblocking(true).unwrap();
                while (&near).write(&[0; 4096]).is_ok() {}
                // SAFETY: the socket is open until the stream that is made of it goes, after the last use of this.
                let lent = unsafe { BorrowedFd::<'static>::borrow_raw(near.as_raw_fd()) };
                let waiting = spawn(async move { EventLoop::current().readable(&lent).await });
                let sending = spawn(async move { EventLoop::current().sock_sendall(&lent, b"!").await });
                mainspring::sleep(std::time::Duration::ZERO).await;
                assert_eq!(stage.event_loop.metrics().descriptors, 1);
                let stream = UnixStream::from_std(near).unwrap();
                assert_eq!(stage.event_loop.metrics().descriptors, 0);
                assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                assert_eq!(sending.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                drop((stream, far));
            });
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn whoever_connects_a_socket_that_becomes_a_transport_is_told() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("connects before on {on:?}"));
            stage.run(async {
                // A listener that takes nobody: its queue is full, and who connects waits.
                let listener =
                    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
                let address: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
                listener.bind(&address.into()).unwrap();
                listener.listen(0).unwrap();
                let address = listener.local_addr().unwrap().as_socket().unwrap();
                let _full = PlainTcpStream::connect(address).unwrap();
                let socket =
                    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
                socket.set_nonblocking(true).unwrap();
                // SAFETY: the socket is open until the stream that is made of it goes, after the last use of this.
                let lent = unsafe { BorrowedFd::<'static>::borrow_raw(socket.as_raw_fd()) };
                let connecting =
                    spawn(async move { EventLoop::current().sock_connect(&lent, address).await });
                mainspring::sleep(std::time::Duration::ZERO).await;
                assert_eq!(stage.event_loop.metrics().descriptors, 1);
                let made = stage.event_loop.connect_write_pipe(socket, Hears::default).await;
                assert_eq!(connecting.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                made.unwrap().0.abort();
            });
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

/// Does something when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce()>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

#[test]
fn a_reader_that_is_displaced_may_do_anything_as_it_goes() {
    guarded(|| {
        type Action = fn(&EventLoop, i32);
        let actions: [(&str, Action, &[&str]); 4] = [
            ("watches it again", |event_loop, number| assert_owned(event_loop, number), &[]),
            ("connects", |event_loop, _| connected(event_loop), &[]),
            ("panics", |_, _| panic!("deliberate"), &["deliberate"]),
            ("closes the loop", |event_loop, _| drop(event_loop.close()), &[]),
        ];
        for (name, action, reports) in actions {
            let stage = Stage::new(On::Epoll, name);
            let event_loop = stage.event_loop.clone();
            let (near, far) = Plain::pair().unwrap();
            let number = near.as_raw_fd();
            let inner = event_loop.clone();
            let held = OnDrop(Some(Box::new(move || action(&inner, number))));
            let read = move || {
                let _held = &held;
            };
            event_loop.add_reader(&number, read).unwrap();
            // Not inside of a run: only there the loop can be closed.
            drop(poll(event_loop.connect_accepted_socket(near, Hears::paused)));
            let told = stage.reports.take();
            assert_eq!(told.len(), reports.len(), "{name}: {told:?}");
            for (told, expected) in told.iter().zip(reports) {
                assert!(told.contains(expected), "{name}: {told}");
            }
            if !event_loop.is_closed() {
                stage.assert_idle();
            }
            drop(far);
            let next = pair_with(number);
            if !event_loop.is_closed() {
                assert_free(&event_loop, number);
            }
            drop(next);
        }
    });
}

/// A transport on a pair of its own, closed at once.
fn connected(event_loop: &EventLoop) {
    let (near, _far) = Plain::pair().unwrap();
    assert!(poll(event_loop.connect_accepted_socket(near, Hears::paused)).is_pending());
}
