//! Fd numbers that are reused: the kernel returns the lowest free number at once.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod support;

use mainspring::{Error, EventLoop};
use mainspring_engine::poller::Readiness;
use mainspring_engine::testing::Op;
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use support::TestLoop;
use support::probe::{Probe, ProbeProtocol, ProtocolEvent, connect, probe_server};
use test_support::fd_numbers::pair_with_fd;
use test_support::{TestBackend, isolated};

fn counter() -> (Rc<Cell<u32>>, impl FnMut() + 'static) {
    let count = Rc::new(Cell::new(0));
    let counting = Rc::clone(&count);
    (count, move || counting.set(counting.get() + 1))
}

#[test]
fn a_late_event_of_a_closed_reader_does_not_reach_the_next_owner_of_its_number() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("a late event for a reader on {on:?}"));
            let (first, mut first_far) = UnixStream::pair().unwrap();
            let (second, mut second_far) = UnixStream::pair().unwrap();
            let number = second.as_raw_fd();
            let second = RefCell::new(Some(second));
            let newcomer = Rc::new(RefCell::new(None));
            let (new_calls, new_reader) = counter();
            let (old_calls, old_reader) = counter();
            test_loop.event_loop.add_reader(&number, old_reader).unwrap();
            let event_loop = test_loop.event_loop.clone();
            let (reading, keeping) = (first.try_clone().unwrap(), Rc::clone(&newcomer));
            let mut new_reader = Some(new_reader);
            // The event of `first` is handled first: it was ready earlier.
            let replace = move || {
                (&reading).read_exact(&mut [0]).unwrap();
                event_loop.remove_reader(&number).unwrap();
                drop(second.take());
                let pair = pair_with_fd(number);
                event_loop.add_reader(&pair.0, new_reader.take().unwrap()).unwrap();
                *keeping.borrow_mut() = Some(pair);
            };
            test_loop.event_loop.add_reader(&first, replace).unwrap();
            first_far.write_all(b"1").unwrap();
            second_far.write_all(b"2").unwrap();
            if on == TestBackend::Fake {
                for fd in [first.as_raw_fd(), number] {
                    test_loop.control.inject(test_loop.control.key_of(fd).unwrap(), Readiness::INBOUND);
                }
            }
            test_loop.run_iterations(3);
            assert!(newcomer.borrow().is_some(), "{}: nothing was replaced", test_loop.name());
            assert_eq!((old_calls.get(), new_calls.get()), (0, 0), "{}", test_loop.name());
            newcomer.borrow_mut().as_mut().unwrap().1.write_all(b"3").unwrap();
            test_loop.run_once();
            assert_eq!((old_calls.get(), new_calls.get()), (0, 1), "{}", test_loop.name());
            for fd in [first.as_raw_fd(), number] {
                assert!(test_loop.event_loop.remove_reader(&fd).unwrap());
            }
            test_loop.assert_reports(&[]);
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_late_event_of_a_transport_does_not_reach_the_next_owner_of_its_number() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a late event for a transport");
        let control = test_loop.control.clone();
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let (client, peer) = connect(&test_loop, &server, &accepted, "the client");
        test_loop.run_iterations(2);
        let log = control.take_log();
        let accepts = log.iter().filter(|entry| entry.call.op() == Op::Accept);
        let number = accepts.filter_map(|entry| entry.result.ok()).next_back().unwrap() as i32;
        let late = control.key_of(number).unwrap();
        peer.transport().unwrap().abort();
        test_loop.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);

        let (near, far) = pair_with_fd(number);
        let (calls, reader) = counter();
        test_loop.event_loop.add_reader(&near, reader).unwrap();
        control.inject(late, Readiness::BOTH);
        test_loop.run_iterations(2);
        assert_eq!(calls.get(), 0);
        drop(far);
        test_loop.run_iterations(1);
        assert_eq!(calls.get(), 1);
        assert!(test_loop.event_loop.remove_reader(&near).unwrap());
        drop(near);

        // Another transport, with the same fd number and perhaps the same slot.
        let (client, peer) = connect(&test_loop, &server, &accepted, "the next client");
        let callbacks = Rc::new(Cell::new(0));
        let count = Rc::clone(&callbacks);
        let hook = move |event| {
            if event != ProtocolEvent::Lost {
                count.set(count.get() + 1);
            }
        };
        for probe in [&client, &peer] {
            *probe.hook.borrow_mut() = Some(Rc::new(hook.clone()));
        }
        control.take_log();
        control.inject(late, Readiness::BOTH);
        test_loop.run_iterations(2);
        assert_eq!(control.take_log().iter().filter(|entry| entry.call.op() == Op::Recv).count(), 0);
        assert_eq!(callbacks.get(), 0);
        client.transport().unwrap().abort();
        test_loop.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn an_fd_closed_without_the_loop_can_be_registered_again() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("closed without the loop on {on:?}"));
            let (old, _old_far) = UnixStream::pair().unwrap();
            let number = old.as_raw_fd();
            let token = Rc::new(());
            let inside = Rc::clone(&token);
            test_loop.event_loop.add_reader(&old, move || drop(Rc::clone(&inside))).unwrap();
            drop(old);
            test_loop.run_iterations(2);
            let (new, mut far) = pair_with_fd(number);
            let (calls, reader) = counter();
            test_loop.event_loop.add_reader(&new, reader).unwrap();
            assert_eq!(Rc::strong_count(&token), 1, "{}: the old reader was not dropped", test_loop.name());
            test_loop.run_once();
            assert_eq!(calls.get(), 0, "{}", test_loop.name());
            far.write_all(b"!").unwrap();
            test_loop.run_once();
            assert_eq!(calls.get(), 1, "{}", test_loop.name());
            assert!(test_loop.event_loop.remove_reader(&new).unwrap());
            assert!(!test_loop.event_loop.remove_reader(&new).unwrap());
            test_loop.assert_idle();
        }
    });
}

#[test]
fn the_reader_and_writer_of_a_closed_fd_can_be_removed() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("removed after it was closed on {on:?}"));
            let (old, _far) = UnixStream::pair().unwrap();
            let number = old.as_raw_fd();
            test_loop.event_loop.add_reader(&number, || {}).unwrap();
            test_loop.event_loop.add_writer(&number, || {}).unwrap();
            drop(old);
            assert!(test_loop.event_loop.remove_reader(&number).unwrap());
            assert!(test_loop.event_loop.remove_writer(&number).unwrap());
            assert!(!test_loop.event_loop.remove_writer(&number).unwrap());
            let refused = test_loop.event_loop.add_reader(&number, || {});
            assert!(matches!(refused, Err(Error::Io(error)) if error.raw_os_error() == Some(libc::EBADF)));
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_transport_replaces_a_stale_reader_of_its_fd_number() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("a transport on a stale fd number on {on:?}"));
            let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
            let token = Rc::new(());
            let forgotten = add_stale_readers(&test_loop.event_loop, &token, 8);
            let (client, peer) = connect(&test_loop, &server, &accepted, "the client");
            client.write(100);
            peer.write(100);
            test_loop.until("all has arrived", || {
                client.received.borrow().len() == 100 && peer.received.borrow().len() == 100
            });
            let is_taken = |number: &&i32| {
                matches!(test_loop.event_loop.remove_reader(*number), Err(Error::Io(error))
                    if error.kind() == std::io::ErrorKind::ResourceBusy)
            };
            assert_eq!(
                forgotten.iter().filter(is_taken).count(),
                2,
                "{}: both ends reuse stale fd numbers",
                test_loop.name()
            );
            assert_eq!(
                Rc::strong_count(&token),
                1,
                "{}: the stale readers were not dropped",
                test_loop.name()
            );
            client.transport().unwrap().close();
            test_loop.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);
            drop(server);
            test_loop.assert_idle();
        }
    });
}

/// Adds readers for sockets that are then closed without telling the loop, and returns their fd numbers.
fn add_stale_readers(event_loop: &EventLoop, token: &Rc<()>, count: usize) -> Vec<i32> {
    let sockets: Vec<_> = (0..count / 2).flat_map(|_| <[_; 2]>::from(UnixStream::pair().unwrap())).collect();
    for socket in &sockets {
        let inside = Rc::clone(token);
        event_loop.add_reader(socket, move || drop(Rc::clone(&inside))).unwrap();
    }
    sockets.iter().map(AsRawFd::as_raw_fd).collect()
}

#[test]
fn a_connection_opened_in_connection_lost_is_independent() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("connections one after the other on {on:?}"));
            let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
            let address = server.local_addr();
            let next = Rc::new(RefCell::new(Vec::new()));
            for _ in 0..5 {
                let (client, peer) = connect(&test_loop, &server, &accepted, "the client");
                let (event_loop, made) = (test_loop.event_loop.clone(), Rc::clone(&next));
                let hook = move |event| {
                    if event == ProtocolEvent::Lost {
                        let probe = Probe::new("the next client");
                        made.borrow_mut().push(Rc::clone(&probe));
                        let inside = event_loop.clone();
                        let connecting = async move {
                            inside.create_connection(address, || ProbeProtocol(probe)).await.map(drop)
                        };
                        drop(event_loop.spawn(connecting).unwrap());
                    }
                };
                *client.hook.borrow_mut() = Some(Rc::new(hook));
                peer.write(10);
                client.transport().unwrap().close();
                let is_made = || next.borrow().last().is_some_and(|probe| probe.made.get() == 1);
                test_loop.until("the next one is made", is_made);
                client.hook.take();
                let last = Rc::clone(next.borrow().last().unwrap());
                test_loop.until("the first is lost", || client.lost.get() == 1 && peer.lost.get() == 1);
                last.write(20);
                let arrived =
                    || accepted.borrow().last().is_some_and(|peer| peer.received.borrow().len() == 20);
                test_loop.until("the next one works", arrived);
                assert_eq!(
                    last.received.borrow().len(),
                    0,
                    "{}: data of another connection",
                    test_loop.name()
                );
                last.transport().unwrap().close();
                test_loop.until("the next is lost", || last.lost.get() == 1);
                next.borrow_mut().clear();
            }
            drop(server);
            test_loop.assert_idle();
        }
    });
}
