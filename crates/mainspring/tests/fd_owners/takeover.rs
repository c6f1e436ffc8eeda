//! What happens to watchers and waiters of an fd when a transport takes it over.

use crate::support::Stage;
use crate::{Hears, assert_free, assert_owned, poll};
use mainspring::net::UnixStream;
use mainspring::{EventLoop, spawn};
use std::cell::Cell;
use std::io::{ErrorKind, Write};
use std::net::TcpStream as PlainTcpStream;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream as Plain;
use std::rc::Rc;
use test_support::fd_numbers::pair_with;
use test_support::{On, guarded};

/// Logs its name when it fires and when it is dropped.
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
                if on == On::Fake && is_paused {
                    assert_eq!(stage.control.key_of(number), None, "the kernel is asked nothing");
                }
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
                // SAFETY: the socket stays open until the stream made of it is dropped, after the last use of this
                // fd.
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
                // A listener with a full queue: connects stay in progress.
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
                // SAFETY: the socket stays open until the stream made of it is dropped, after the last use of this
                // fd.
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

/// Calls a function when it is dropped.
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
            // Outside of a run, because only there the loop can be closed.
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

/// A transport on its own socket pair, closed at once.
fn connected(event_loop: &EventLoop) {
    let (near, _far) = Plain::pair().unwrap();
    assert!(poll(event_loop.connect_accepted_socket(near, Hears::paused)).is_pending());
}
