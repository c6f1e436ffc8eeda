//! `sock_recv`, `sock_sendall`, `sock_connect`, `readable` and `writable`, on fds that the program owns.

use crate::support::{new_loop, on_every_backend, run_on, run_one_iteration};
use mainspring::{EventLoop, net, sleep, spawn, timeout};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn sock_recv_returns_available_data_or_waits() {
    on_every_backend(async |event_loop: EventLoop| {
        let (local, mut peer) = UnixStream::pair().unwrap();
        peer.write_all(b"one").unwrap();
        assert_eq!(event_loop.sock_recv(&local, 2).await.unwrap(), b"on");
        assert_eq!(event_loop.sock_recv(&local, usize::MAX).await.unwrap(), b"e");
        let inner = event_loop.clone();
        let waiting = spawn(async move { inner.sock_recv(&local, 100).await.unwrap() });
        sleep(Duration::ZERO).await;
        assert_eq!(event_loop.metrics().descriptors, 1);
        peer.write_all(b"two").unwrap();
        assert_eq!(waiting.await.unwrap(), b"two");
    });
}

#[test]
fn a_cancelled_sock_recv_takes_no_data() {
    let event_loop = new_loop();
    for iterations in 0..4 {
        let (local, mut peer) = UnixStream::pair().unwrap();
        let local = Rc::new(local);
        let (inner, socket) = (event_loop.clone(), Rc::clone(&local));
        let waiting = event_loop.spawn(async move { inner.sock_recv(&socket, 100).await }).unwrap();
        run_one_iteration(&event_loop);
        peer.write_all(b"!").unwrap();
        for _ in 0..iterations {
            run_one_iteration(&event_loop);
        }
        let is_cancelled = waiting.cancel();
        run_one_iteration(&event_loop);
        assert_eq!(event_loop.metrics().descriptors, 0);
        if is_cancelled {
            let mut byte = [0];
            (&*local).read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"!");
        }
    }
}

#[test]
fn a_second_sock_recv_replaces_the_first_which_fails() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let (local, mut peer) = UnixStream::pair().unwrap();
        let local = Rc::new(local);
        let start = |socket: &Rc<UnixStream>| {
            let socket = Rc::clone(socket);
            spawn(async move { EventLoop::current().sock_recv(&socket, 1).await })
        };
        let (first, second) = (start(&local), start(&local));
        assert_eq!(first.await.unwrap().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        peer.write_all(b"!").unwrap();
        assert_eq!(second.await.unwrap().unwrap(), b"!");
    });
}

#[test]
fn sock_sendall_waits_for_buffer_space_and_can_be_cancelled() {
    on_every_backend(async |event_loop: EventLoop| {
        let (local, peer) = UnixStream::pair().unwrap();
        let message = vec![7; 4 << 20];
        let sent = timeout(Duration::from_millis(1), event_loop.sock_sendall(&local, &message)).await;
        assert!(sent.is_err());
        assert_eq!(event_loop.metrics().descriptors, 0);
        drop(peer);
        let error = event_loop.sock_sendall(&local, b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn closing_the_loop_ends_a_pending_sock_recv() {
    let event_loop = new_loop();
    let (local, _peer) = UnixStream::pair().unwrap();
    let inner = event_loop.clone();
    let waiting = event_loop.spawn(async move { inner.sock_recv(&local, 1).await }).unwrap();
    run_one_iteration(&event_loop);
    event_loop.close().unwrap();
    assert!(waiting.is_finished());
}

#[test]
fn readable_and_writable_wait_for_any_fd_and_read_nothing() {
    on_every_backend(async |event_loop: EventLoop| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        event_loop.writable(&writer).await.unwrap();
        let early = timeout(Duration::ZERO, event_loop.readable(&reader)).await;
        assert!(early.is_err());
        assert_eq!(event_loop.metrics().descriptors, 0, "cancelled, so not registered");
        writer.write_all(b"!").unwrap();
        event_loop.readable(&reader).await.unwrap();
        event_loop.readable(&reader).await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(reader.read(&mut buffer).unwrap(), 1);
        // EOF is readable; a pipe whose reader is closed is writable.
        drop(writer);
        event_loop.readable(&reader).await.unwrap();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        event_loop.writable(&writer).await.unwrap();
    });
}

#[test]
fn readable_refuses_a_regular_file_and_a_second_waiter_replaces_the_first() {
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
fn sock_connect_connects_a_user_socket_that_becomes_a_stream() {
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

        // Nothing listens at this address now.
        drop(listener);
        let registered = event_loop.metrics().descriptors;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        let refused = event_loop.sock_connect(&socket, address).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(event_loop.metrics().descriptors, registered, "a refused socket is not registered");
    });
}
