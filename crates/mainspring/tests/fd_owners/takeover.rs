//! A transport takes over an fd that has readers, writers or waiters.

use crate::support::TestLoop;
use crate::{Recorder, assert_free, assert_owned, poll};
use mainspring::net::UnixStream;
use mainspring::{EventLoop, spawn};
use std::cell::Cell;
use std::io::{ErrorKind, Write};
use std::net::TcpStream as PlainTcpStream;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream as Plain;
use std::rc::Rc;
use test_support::fd_numbers::pair_with_fd;
use test_support::{TestBackend, isolated};

/// Counts its drops.
struct DropCounter(Rc<Cell<u32>>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_transport_removes_the_reader_and_writer_of_its_fd() {
    isolated(|| {
        for on in TestBackend::ALL {
            for is_paused in [false, true] {
                let test_loop =
                    TestLoop::new(on, format!("registered before on {on:?}, paused: {is_paused}"));
                let (near, mut far) = Plain::pair().unwrap();
                let number = near.as_raw_fd();
                let gone = Rc::new(Cell::new(0));
                let (reader, writer) = (DropCounter(Rc::clone(&gone)), DropCounter(Rc::clone(&gone)));
                let called = Rc::new(Cell::new(0));
                let calling = Rc::clone(&called);
                let read = move || {
                    let _held = &reader;
                    calling.set(calling.get() + 1);
                };
                test_loop.event_loop.add_reader(&number, read).unwrap();
                let write = move || {
                    let _held = &writer;
                };
                test_loop.event_loop.add_writer(&number, write).unwrap();
                far.write_all(b"hello").unwrap();
                let made = test_loop
                    .event_loop
                    .connect_accepted_socket(near, || Recorder { is_paused, ..Recorder::default() });
                let (transport, protocol) = test_loop.run(made).unwrap();
                assert_eq!(gone.get(), 2, "{}: reader and writer are dropped", test_loop.name());
                if on == TestBackend::Fake && is_paused {
                    assert_eq!(test_loop.control.key_of(number), None, "no kernel interest is registered");
                }
                test_loop.run_iterations(3);
                let calls = called.get();
                assert_owned(&test_loop.event_loop, number);
                test_loop.run_iterations(3);
                assert_eq!(called.get(), calls, "{}", test_loop.name());
                assert_eq!(test_loop.event_loop.metrics().descriptors, usize::from(!is_paused));
                let expected: &[u8] = if is_paused { b"" } else { b"hello" };
                assert_eq!(*protocol.received.borrow(), expected);
                transport.abort();
                drop((transport, far));
                test_loop.assert_idle();
                test_loop.assert_reports(&[]);
            }
        }
    });
}

#[test]
fn waiters_of_a_socket_that_becomes_a_transport_fail() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("waits before on {on:?}"));
            test_loop.run(async {
                let (near, far) = Plain::pair().unwrap();
                near.set_nonblocking(true).unwrap();
                while (&near).write(&[0; 4096]).is_ok() {}
                // SAFETY: the socket stays open until the stream made of it is dropped, after the last use of this
                // fd.
                let lent = unsafe { BorrowedFd::<'static>::borrow_raw(near.as_raw_fd()) };
                let waiting = spawn(async move { EventLoop::current().readable(&lent).await });
                let sending = spawn(async move { EventLoop::current().sock_sendall(&lent, b"!").await });
                mainspring::sleep(std::time::Duration::ZERO).await;
                assert_eq!(test_loop.event_loop.metrics().descriptors, 1);
                let stream = UnixStream::from_std(near).unwrap();
                assert_eq!(test_loop.event_loop.metrics().descriptors, 0);
                assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                assert_eq!(sending.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                drop((stream, far));
            });
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn a_connect_on_a_socket_that_becomes_a_transport_fails() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("connects before on {on:?}"));
            test_loop.run(async {
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
                assert_eq!(test_loop.event_loop.metrics().descriptors, 1);
                let made = test_loop.event_loop.connect_write_pipe(socket, Recorder::default).await;
                assert_eq!(connecting.await.unwrap().unwrap_err().kind(), ErrorKind::ResourceBusy);
                made.unwrap().0.abort();
            });
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
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
fn the_destructor_of_a_removed_reader_may_do_anything() {
    isolated(|| {
        type Action = fn(&EventLoop, i32);
        let actions: [(&str, Action, &[&str]); 4] = [
            ("registers the fd again", |event_loop, number| assert_owned(event_loop, number), &[]),
            ("connects", |event_loop, _| connected(event_loop), &[]),
            ("panics", |_, _| panic!("deliberate"), &["deliberate"]),
            ("closes the loop", |event_loop, _| drop(event_loop.close()), &[]),
        ];
        for (name, action, reports) in actions {
            let test_loop = TestLoop::new(TestBackend::Epoll, name);
            let event_loop = test_loop.event_loop.clone();
            let (near, far) = Plain::pair().unwrap();
            let number = near.as_raw_fd();
            let inner = event_loop.clone();
            let held = OnDrop(Some(Box::new(move || action(&inner, number))));
            let read = move || {
                let _held = &held;
            };
            event_loop.add_reader(&number, read).unwrap();
            // Outside of a run, because only there the loop can be closed.
            drop(poll(event_loop.connect_accepted_socket(near, Recorder::paused)));
            let actual = test_loop.reports.take();
            assert_eq!(actual.len(), reports.len(), "{name}: {actual:?}");
            for (report, expected) in actual.iter().zip(reports) {
                assert!(report.contains(expected), "{name}: {report}");
            }
            if !event_loop.is_closed() {
                test_loop.assert_idle();
            }
            drop(far);
            let next = pair_with_fd(number);
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
    assert!(poll(event_loop.connect_accepted_socket(near, Recorder::paused)).is_pending());
}
