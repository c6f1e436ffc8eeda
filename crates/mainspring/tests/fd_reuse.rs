//! Descriptor numbers that come to mean something else: the kernel gives the lowest free one out again at once.
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
use support::Stage;
use support::probe::{Face, Probe, Told, connect, probe_server};
use test_support::fd_numbers::pair_with;
use test_support::{On, guarded};

fn counter() -> (Rc<Cell<u32>>, impl FnMut() + 'static) {
    let count = Rc::new(Cell::new(0));
    let counting = Rc::clone(&count);
    (count, move || counting.set(counting.get() + 1))
}

#[test]
fn a_late_event_of_a_closed_reader_does_not_reach_the_next_owner_of_its_number() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("a late event for a reader on {on:?}"));
            let (first, mut first_far) = UnixStream::pair().unwrap();
            let (second, mut second_far) = UnixStream::pair().unwrap();
            let number = second.as_raw_fd();
            let second = RefCell::new(Some(second));
            let newcomer = Rc::new(RefCell::new(None));
            let (new_calls, new_reader) = counter();
            let (old_calls, old_reader) = counter();
            stage.event_loop.add_reader(&number, old_reader).unwrap();
            let event_loop = stage.event_loop.clone();
            let (reading, keeping) = (first.try_clone().unwrap(), Rc::clone(&newcomer));
            let mut new_reader = Some(new_reader);
            // Its own event comes first: it was ready before the other.
            let replace = move || {
                (&reading).read_exact(&mut [0]).unwrap();
                event_loop.remove_reader(&number).unwrap();
                drop(second.take());
                let pair = pair_with(number);
                event_loop.add_reader(&pair.0, new_reader.take().unwrap()).unwrap();
                *keeping.borrow_mut() = Some(pair);
            };
            stage.event_loop.add_reader(&first, replace).unwrap();
            first_far.write_all(b"1").unwrap();
            second_far.write_all(b"2").unwrap();
            if on == On::Fake {
                for fd in [first.as_raw_fd(), number] {
                    stage.control.inject(stage.control.key_of(fd).unwrap(), Readiness::INBOUND);
                }
            }
            stage.passes(3);
            assert!(newcomer.borrow().is_some(), "{}: nothing was replaced", stage.name());
            assert_eq!((old_calls.get(), new_calls.get()), (0, 0), "{}", stage.name());
            newcomer.borrow_mut().as_mut().unwrap().1.write_all(b"3").unwrap();
            stage.pass();
            assert_eq!((old_calls.get(), new_calls.get()), (0, 1), "{}", stage.name());
            for fd in [first.as_raw_fd(), number] {
                assert!(stage.event_loop.remove_reader(&fd).unwrap());
            }
            stage.assert_reports(&[]);
            stage.assert_idle();
        }
    });
}

#[test]
fn a_late_event_of_a_transport_does_not_reach_the_next_owner_of_its_number() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a late event for a transport");
        let control = stage.control.clone();
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let (client, peer) = connect(&stage, &server, &accepted, "the client");
        stage.passes(2);
        let log = control.take_log();
        let accepts = log.iter().filter(|entry| entry.call.op() == Op::Accept);
        let number = accepts.filter_map(|entry| entry.result.ok()).next_back().unwrap() as i32;
        let late = control.key_of(number).unwrap();
        peer.transport().unwrap().abort();
        stage.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);

        let (near, far) = pair_with(number);
        let (calls, reader) = counter();
        stage.event_loop.add_reader(&near, reader).unwrap();
        control.inject(late, Readiness::BOTH);
        stage.passes(2);
        assert_eq!(calls.get(), 0);
        drop(far);
        stage.passes(1);
        assert_eq!(calls.get(), 1);
        assert!(stage.event_loop.remove_reader(&near).unwrap());
        drop(near);

        // A transport again, with the number and perhaps the slot of the first.
        let (client, peer) = connect(&stage, &server, &accepted, "the next client");
        let heard = Rc::new(Cell::new(0));
        let hearing = Rc::clone(&heard);
        let hook = move |told| {
            if told != Told::Lost {
                hearing.set(hearing.get() + 1);
            }
        };
        for probe in [&client, &peer] {
            *probe.hook.borrow_mut() = Some(Rc::new(hook.clone()));
        }
        control.take_log();
        control.inject(late, Readiness::BOTH);
        stage.passes(2);
        assert_eq!(control.take_log().iter().filter(|entry| entry.call.op() == Op::Recv).count(), 0);
        assert_eq!(heard.get(), 0);
        client.transport().unwrap().abort();
        stage.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn a_descriptor_that_was_closed_behind_the_loops_back_can_be_watched_anew() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("closed behind the loop's back on {on:?}"));
            let (old, _old_far) = UnixStream::pair().unwrap();
            let number = old.as_raw_fd();
            let token = Rc::new(());
            let inside = Rc::clone(&token);
            stage.event_loop.add_reader(&old, move || drop(Rc::clone(&inside))).unwrap();
            drop(old);
            stage.passes(2);
            let (new, mut far) = pair_with(number);
            let (calls, reader) = counter();
            stage.event_loop.add_reader(&new, reader).unwrap();
            assert_eq!(Rc::strong_count(&token), 1, "{}: the old reader is kept", stage.name());
            stage.pass();
            assert_eq!(calls.get(), 0, "{}", stage.name());
            far.write_all(b"!").unwrap();
            stage.pass();
            assert_eq!(calls.get(), 1, "{}", stage.name());
            assert!(stage.event_loop.remove_reader(&new).unwrap());
            assert!(!stage.event_loop.remove_reader(&new).unwrap());
            stage.assert_idle();
        }
    });
}

#[test]
fn a_reader_and_a_writer_of_a_closed_descriptor_can_both_be_removed() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("removed after it was closed on {on:?}"));
            let (old, _far) = UnixStream::pair().unwrap();
            let number = old.as_raw_fd();
            stage.event_loop.add_reader(&number, || {}).unwrap();
            stage.event_loop.add_writer(&number, || {}).unwrap();
            drop(old);
            assert!(stage.event_loop.remove_reader(&number).unwrap());
            assert!(stage.event_loop.remove_writer(&number).unwrap());
            assert!(!stage.event_loop.remove_writer(&number).unwrap());
            let refused = stage.event_loop.add_reader(&number, || {});
            assert!(matches!(refused, Err(Error::Io(error)) if error.raw_os_error() == Some(libc::EBADF)));
            stage.assert_idle();
        }
    });
}

#[test]
fn a_transport_takes_the_number_over_from_a_reader_that_was_closed_behind_the_loops_back() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("a transport on a forgotten number on {on:?}"));
            let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
            let token = Rc::new(());
            let forgotten = forget_readers(&stage.event_loop, &token, 8);
            let (client, peer) = connect(&stage, &server, &accepted, "the client");
            client.write(100);
            peer.write(100);
            stage.until("all has arrived", || {
                client.received.borrow().len() == 100 && peer.received.borrow().len() == 100
            });
            let is_taken = |number: &&i32| {
                matches!(stage.event_loop.remove_reader(*number), Err(Error::Io(error))
                    if error.kind() == std::io::ErrorKind::ResourceBusy)
            };
            assert_eq!(
                forgotten.iter().filter(is_taken).count(),
                2,
                "{}: both ends have numbers that were forgotten",
                stage.name()
            );
            assert_eq!(Rc::strong_count(&token), 1, "{}: the forgotten readers are kept", stage.name());
            client.transport().unwrap().close();
            stage.until("both ends are lost", || peer.lost.get() == 1 && client.lost.get() == 1);
            drop(server);
            stage.assert_idle();
        }
    });
}

/// Adds readers for sockets that are closed without a word to the loop, and gives their numbers.
fn forget_readers(event_loop: &EventLoop, token: &Rc<()>, count: usize) -> Vec<i32> {
    let sockets: Vec<_> = (0..count / 2).flat_map(|_| <[_; 2]>::from(UnixStream::pair().unwrap())).collect();
    for socket in &sockets {
        let inside = Rc::clone(token);
        event_loop.add_reader(socket, move || drop(Rc::clone(&inside))).unwrap();
    }
    sockets.iter().map(AsRawFd::as_raw_fd).collect()
}

#[test]
fn a_connection_that_is_replaced_in_connection_lost_is_another_one() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("connections one after the other on {on:?}"));
            let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
            let address = server.local_addr();
            let next = Rc::new(RefCell::new(Vec::new()));
            for _ in 0..5 {
                let (client, peer) = connect(&stage, &server, &accepted, "the client");
                let (event_loop, made) = (stage.event_loop.clone(), Rc::clone(&next));
                let hook = move |told| {
                    if told == Told::Lost {
                        let probe = Probe::new("the next client");
                        made.borrow_mut().push(Rc::clone(&probe));
                        let inside = event_loop.clone();
                        let connecting =
                            async move { inside.create_connection(address, || Face(probe)).await.map(drop) };
                        drop(event_loop.spawn(connecting).unwrap());
                    }
                };
                *client.hook.borrow_mut() = Some(Rc::new(hook));
                peer.write(10);
                client.transport().unwrap().close();
                let is_made = || next.borrow().last().is_some_and(|probe| probe.made.get() == 1);
                stage.until("the next one is made", is_made);
                client.hook.take();
                let last = Rc::clone(next.borrow().last().unwrap());
                stage.until("the first is lost", || client.lost.get() == 1 && peer.lost.get() == 1);
                last.write(20);
                let arrived =
                    || accepted.borrow().last().is_some_and(|peer| peer.received.borrow().len() == 20);
                stage.until("the next one works", arrived);
                assert_eq!(last.received.borrow().len(), 0, "{}: data of another", stage.name());
                last.transport().unwrap().close();
                stage.until("the next is lost", || last.lost.get() == 1);
                next.borrow_mut().clear();
            }
            drop(server);
            stage.assert_idle();
        }
    });
}
