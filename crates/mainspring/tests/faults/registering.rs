//! Faults of registering an fd.

use crate::conversation::Conversation;
use crate::support::Stage;
use crate::support::probe::{FULL, Face, Probe, Told, probe_server};
use mainspring::net::TcpListener;
use mainspring::{Error, EventLoop};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use test_support::{On, guarded};

const ERRORS: [i32; 2] = [libc::ENOMEM, libc::ENOSPC];

fn os_error(error: &std::io::Error) -> Option<i32> {
    error.raw_os_error()
}

#[test]
fn a_connection_that_cannot_be_watched_is_lost_with_the_kernels_reason() {
    guarded(|| {
        for errno in ERRORS {
            let stage = Stage::new(On::Fake, format!("no watch for reading: {errno}"));
            let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
            let client = Probe::new("the client");
            let face = Face(Rc::clone(&client));
            // A connection starts reading right after it is made.
            let control = stage.control.clone();
            let is_made = move |told| {
                if told == Told::Made {
                    control.fail_next(Op::Update, errno);
                }
            };
            *client.hook.borrow_mut() = Some(Rc::new(is_made));
            stage.run(stage.event_loop.create_connection(server.local_addr(), || face)).unwrap();
            stage.until("one end is lost", || client.lost.get() == 1 && accepted.borrow().len() == 1);
            let peer = Rc::clone(&accepted.borrow()[0]);
            stage.until("both ends are lost", || client.lost.get() == 1 && peer.lost.get() == 1);
            assert_eq!(client.error_number(), Some(errno));
            for probe in [&client, &peer] {
                probe.assert_in_order(None, stage.name());
            }
            server.close();
            stage.assert_idle();
        }
    });
}

#[test]
fn a_queue_that_cannot_wait_for_the_kernel_loses_its_connection() {
    guarded(|| {
        for errno in ERRORS {
            let talk = Conversation::new(&format!("no watch for writing: {errno}"));
            let control = talk.stage.control.clone();
            control.plan(FaultPlan::short_send(10).on(talk.client_fd));
            control.plan(FaultPlan::fail(Op::Update, errno).on(talk.client_fd));
            talk.client.write(FULL);
            talk.client.write(FULL);
            assert!(!talk.client.paused.get(), "nothing is queued on a connection that is gone");
            talk.until_lost();
            assert_eq!(talk.client.error_number(), Some(errno));
            assert_eq!(talk.peer.received.borrow().len(), 10);
            talk.end();
        }
    });
}

#[test]
fn a_change_of_mind_that_the_kernel_refuses_loses_the_connection_once() {
    guarded(|| {
        type Change = fn(&mainspring::Transport);
        let changes: [(&str, Change); 4] = [
            ("pause_reading", |transport| transport.pause_reading()),
            ("resume_reading", |transport| {
                transport.pause_reading();
                transport.resume_reading();
            }),
            ("close", |transport| transport.close()),
            ("abort", |transport| transport.abort()),
        ];
        for (index, (name, change)) in changes.into_iter().enumerate() {
            let talk = Conversation::new(&format!("{name} is refused"));
            let after = usize::from(index == 1);
            talk.stage
                .control
                .plan(FaultPlan::fail(Op::Update, libc::ENOMEM).on(talk.client_fd).after(after));
            change(&talk.client.transport().unwrap());
            talk.until_lost();
            talk.end();
        }
    });
}

#[test]
fn the_last_update_of_a_drained_queue_may_fail() {
    guarded(|| {
        let talk = Conversation::new("the end of a queue is refused");
        let control = talk.stage.control.clone();
        control.plan(FaultPlan::short_send(10).on(talk.client_fd));
        control.plan(FaultPlan::fail(Op::Update, libc::ENOMEM).on(talk.client_fd).after(1));
        talk.client.write(1000);
        talk.until_lost();
        assert_eq!(talk.peer.received.borrow().len(), 1000, "all was sent by then");
        assert_eq!(talk.client.error_number(), Some(libc::ENOMEM));
        talk.end();
    });
}

#[test]
fn a_server_or_listener_that_cannot_be_watched_is_not_made() {
    guarded(|| {
        for errno in ERRORS {
            let stage = Stage::new(On::Fake, "a server that cannot be watched");
            stage.control.fail_next(Op::Update, errno);
            let refused = stage.run(probe_server(&stage.event_loop)).map(drop).unwrap_err();
            assert_eq!(os_error(&refused), Some(errno));
            stage.control.fail_next(Op::Update, errno);
            let refused = stage.run(async { TcpListener::bind("127.0.0.1:0").await.map(drop) }).unwrap_err();
            assert_eq!(os_error(&refused), Some(errno));
            stage.assert_idle();
        }
    });
}

#[test]
fn a_connect_that_cannot_be_watched_fails_and_closes_its_socket() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a connect that cannot be watched");
        let (server, _accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        stage.control.fail_next(Op::Update, libc::ENOSPC);
        let face = Face(Probe::new("nobody's"));
        let connecting = stage.event_loop.create_connection(server.local_addr(), || face);
        let refused = stage.run(connecting).map(drop).unwrap_err();
        assert!(refused.to_string().contains("cannot connect to 127.0.0.1"), "{refused}");
        stage.passes(3);
        server.close();
        stage.until("what was accepted is gone", || stage.event_loop.metrics().descriptors == 0);
        stage.assert_idle();
    });
}

#[test]
fn a_reader_that_is_refused_is_dropped_and_the_former_one_stays() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a reader that is refused");
        let (a, b) = UnixStream::pair().unwrap();
        let token = Rc::new(());
        let count = Rc::new(Cell::new(0));
        stage.control.fail_next(Op::Update, libc::ENOSPC);
        assert_refused(&stage.event_loop, &a, &token);
        assert_eq!(stage.event_loop.metrics().descriptors, 0);
        let counting = Rc::clone(&count);
        stage.event_loop.add_reader(&a, move || counting.set(counting.get() + 1)).unwrap();
        stage.control.fail_next(Op::Update, libc::ENOMEM);
        assert_refused(&stage.event_loop, &a, &token);
        drop(b);
        stage.pass();
        assert_eq!(count.get(), 1, "the former reader is called");
        assert!(stage.event_loop.remove_reader(&a).unwrap());
        stage.assert_idle();
    });
}

#[track_caller]
fn assert_refused(event_loop: &EventLoop, socket: &UnixStream, token: &Rc<()>) {
    let inside = Rc::clone(token);
    let refused = event_loop.add_reader(socket, move || drop(Rc::clone(&inside)));
    assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
    assert_eq!(Rc::strong_count(token), 1, "the closure is kept");
}

#[test]
fn a_watch_that_is_removed_is_not_called_again_whatever_the_kernel_says() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a removal that is refused");
        let (a, _b) = UnixStream::pair().unwrap();
        let count = Rc::new(Cell::new(0));
        let counting = Rc::clone(&count);
        stage.event_loop.add_writer(&a, move || counting.set(counting.get() + 1)).unwrap();
        // Scheduled before the writer in the iteration in which the fd is writable.
        let (event_loop, control, number) = (stage.event_loop.clone(), stage.control.clone(), a.as_raw_fd());
        stage.event_loop.add_reader(&a, || {}).unwrap();
        stage
            .event_loop
            .call_soon(move || {
                control.fail_next(Op::Update, libc::EBADF);
                assert!(event_loop.remove_writer(&number).unwrap());
            })
            .unwrap();
        stage.passes(3);
        assert_eq!(count.get(), 0);
        stage.assert_reports(&[]);
        assert!(stage.event_loop.remove_reader(&a).unwrap());
        stage.assert_idle();
    });
}
