//! `sock_recv` and its kin, on sockets that the program owns.

use crate::support::{new_loop, on_every_backend, run_on, run_one_pass};
use mainspring::{EventLoop, net, sleep, spawn, timeout};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_message_that_is_there_and_one_that_is_not_yet() {
    on_every_backend(async |event_loop: EventLoop| {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(b"one").unwrap();
        assert_eq!(event_loop.sock_recv(&here, 2).await.unwrap(), b"on");
        assert_eq!(event_loop.sock_recv(&here, usize::MAX).await.unwrap(), b"e");
        let inner = event_loop.clone();
        let waiting = spawn(async move { inner.sock_recv(&here, 100).await.unwrap() });
        sleep(Duration::ZERO).await;
        assert_eq!(event_loop.metrics().descriptors, 1);
        there.write_all(b"two").unwrap();
        assert_eq!(waiting.await.unwrap(), b"two");
    });
}

#[test]
fn nothing_is_taken_by_one_who_gives_up_wherever_it_stands() {
    let event_loop = new_loop();
    for passes in 0..4 {
        let (here, mut there) = UnixStream::pair().unwrap();
        let here = Rc::new(here);
        let (inner, socket) = (event_loop.clone(), Rc::clone(&here));
        let waiting = event_loop.spawn(async move { inner.sock_recv(&socket, 100).await }).unwrap();
        run_one_pass(&event_loop);
        there.write_all(b"!").unwrap();
        for _ in 0..passes {
            run_one_pass(&event_loop);
        }
        let is_cancelled = waiting.cancel();
        run_one_pass(&event_loop);
        assert_eq!(event_loop.metrics().descriptors, 0);
        if is_cancelled {
            let mut byte = [0];
            (&*here).read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"!");
        }
    }
}

#[test]
fn a_second_one_takes_the_place_of_the_first_which_is_told() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let (here, mut there) = UnixStream::pair().unwrap();
        let here = Rc::new(here);
        let start = |socket: &Rc<UnixStream>| {
            let socket = Rc::clone(socket);
            spawn(async move { EventLoop::current().sock_recv(&socket, 1).await })
        };
        let (first, second) = (start(&here), start(&here));
        assert_eq!(first.await.unwrap().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        there.write_all(b"!").unwrap();
        assert_eq!(second.await.unwrap().unwrap(), b"!");
    });
}

#[test]
fn sending_waits_for_room_and_is_given_up_without_a_trace() {
    on_every_backend(async |event_loop: EventLoop| {
        let (here, there) = UnixStream::pair().unwrap();
        let message = vec![7; 4 << 20];
        let sent = timeout(Duration::from_millis(1), event_loop.sock_sendall(&here, &message)).await;
        assert!(sent.is_err());
        assert_eq!(event_loop.metrics().descriptors, 0);
        drop(there);
        let error = event_loop.sock_sendall(&here, b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_loop_that_is_closed_underneath_refuses() {
    let event_loop = new_loop();
    let (here, _there) = UnixStream::pair().unwrap();
    let inner = event_loop.clone();
    let waiting = event_loop.spawn(async move { inner.sock_recv(&here, 1).await }).unwrap();
    run_one_pass(&event_loop);
    event_loop.close().unwrap();
    assert!(waiting.is_finished());
}

#[test]
fn a_descriptor_of_any_kind_is_awaited_and_not_read() {
    on_every_backend(async |event_loop: EventLoop| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        event_loop.writable(&writer).await.unwrap();
        let early = timeout(Duration::ZERO, event_loop.readable(&reader)).await;
        assert!(early.is_err());
        assert_eq!(event_loop.metrics().descriptors, 0, "given up, it is not watched");
        writer.write_all(b"!").unwrap();
        event_loop.readable(&reader).await.unwrap();
        event_loop.readable(&reader).await.unwrap();
        let mut there = [0; 10];
        assert_eq!(reader.read(&mut there).unwrap(), 1);
        // An end is something to read, and a reader that is gone something to hear.
        drop(writer);
        event_loop.readable(&reader).await.unwrap();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        event_loop.writable(&writer).await.unwrap();
    });
}

#[test]
fn what_cannot_be_watched_is_refused_and_so_is_a_second_one_who_waits() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let file = std::fs::File::open("Cargo.toml").unwrap();
        assert_eq!(event_loop.readable(&file).await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let (reader, _writer) = io::pipe().unwrap();
        let reader = Rc::new(reader);
        let (inner, same) = (event_loop.clone(), Rc::clone(&reader));
        let first = spawn(async move { inner.readable(&same).await });
        sleep(Duration::ZERO).await;
        assert!(timeout(Duration::ZERO, event_loop.readable(&reader)).await.is_err());
        assert_eq!(first.await.unwrap().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    });
    event_loop.close().unwrap();
    let (reader, _writer) = io::pipe().unwrap();
    let closed = new_loop().run_until_complete(event_loop.readable(&reader)).unwrap().unwrap_err();
    assert_eq!(closed.to_string(), "the event loop is closed");
}

#[test]
fn a_socket_of_the_programs_own_is_connected_and_becomes_a_stream() {
    on_every_backend(async |event_loop: EventLoop| {
        let listener = net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        event_loop.sock_connect(&socket, address).await.unwrap();
        let stream = net::TcpStream::from_std(socket.into()).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        assert_eq!(accepted.read_exactly(5).await.unwrap(), b"hello");

        // Nobody listens there any more.
        drop(listener);
        let watched = event_loop.metrics().descriptors;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let refused = event_loop.sock_connect(&socket, address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(event_loop.metrics().descriptors, watched, "what was refused is not watched");
    });
}
