//! Faults of registering an fd.

use crate::connected_probes::ConnectedProbes;
use crate::support::TestLoop;
use crate::support::probe::{FULL, Probe, ProbeProtocol, ProtocolEvent, probe_server};
use mainspring::net::TcpListener;
use mainspring::{Error, EventLoop};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use test_support::{TestBackend, isolated};

const ERRORS: [i32; 2] = [libc::ENOMEM, libc::ENOSPC];

fn os_error(error: &std::io::Error) -> Option<i32> {
    error.raw_os_error()
}

#[test]
fn a_connection_that_cannot_be_registered_is_lost_with_the_kernels_error() {
    isolated(|| {
        for errno in ERRORS {
            let test_loop = TestLoop::new(TestBackend::Fake, format!("no registration for reading: {errno}"));
            let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
            let client = Probe::new("the client");
            let protocol = ProbeProtocol(Rc::clone(&client));
            // A connection starts reading right after it is made.
            let control = test_loop.control.clone();
            let is_made = move |event| {
                if event == ProtocolEvent::Made {
                    control.fail_next(Op::Update, errno);
                }
            };
            *client.hook.borrow_mut() = Some(Rc::new(is_made));
            test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || protocol)).unwrap();
            test_loop.until("one end is lost", || client.lost.get() == 1 && accepted.borrow().len() == 1);
            let peer = Rc::clone(&accepted.borrow()[0]);
            test_loop.until("both ends are lost", || client.lost.get() == 1 && peer.lost.get() == 1);
            assert_eq!(client.error_number(), Some(errno));
            for probe in [&client, &peer] {
                probe.assert_in_order(None, test_loop.name());
            }
            server.close();
            test_loop.assert_idle();
        }
    });
}

#[test]
fn failing_to_register_write_interest_loses_the_connection() {
    isolated(|| {
        for errno in ERRORS {
            let probes = ConnectedProbes::new(&format!("no registration for writing: {errno}"));
            let control = probes.test_loop.control.clone();
            control.plan(FaultPlan::short_send(10).on(probes.client_fd));
            control.plan(FaultPlan::fail(Op::Update, errno).on(probes.client_fd));
            probes.client.write(FULL);
            probes.client.write(FULL);
            assert!(!probes.client.paused.get(), "nothing is queued on a lost connection");
            probes.run_until_lost();
            assert_eq!(probes.client.error_number(), Some(errno));
            assert_eq!(probes.peer.received.borrow().len(), 10);
            probes.close_and_check();
        }
    });
}

#[test]
fn a_refused_interest_change_loses_the_connection_once() {
    isolated(|| {
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
            let probes = ConnectedProbes::new(&format!("{name} is refused"));
            let after = usize::from(index == 1);
            probes
                .test_loop
                .control
                .plan(FaultPlan::fail(Op::Update, libc::ENOMEM).on(probes.client_fd).after(after));
            change(&probes.client.transport().unwrap());
            probes.run_until_lost();
            probes.close_and_check();
        }
    });
}

#[test]
fn failing_to_remove_write_interest_loses_the_connection() {
    isolated(|| {
        let probes = ConnectedProbes::new("removal of write interest is refused");
        let control = probes.test_loop.control.clone();
        control.plan(FaultPlan::short_send(10).on(probes.client_fd));
        control.plan(FaultPlan::fail(Op::Update, libc::ENOMEM).on(probes.client_fd).after(1));
        probes.client.write(1000);
        probes.run_until_lost();
        assert_eq!(probes.peer.received.borrow().len(), 1000, "all data was sent before the failure");
        assert_eq!(probes.client.error_number(), Some(libc::ENOMEM));
        probes.close_and_check();
    });
}

#[test]
fn a_server_that_cannot_be_registered_is_not_created() {
    isolated(|| {
        for errno in ERRORS {
            let test_loop = TestLoop::new(TestBackend::Fake, "a server that cannot be registered");
            test_loop.control.fail_next(Op::Update, errno);
            let refused = test_loop.run(probe_server(&test_loop.event_loop)).map(drop).unwrap_err();
            assert_eq!(os_error(&refused), Some(errno));
            test_loop.control.fail_next(Op::Update, errno);
            let refused =
                test_loop.run(async { TcpListener::bind("127.0.0.1:0").await.map(drop) }).unwrap_err();
            assert_eq!(os_error(&refused), Some(errno));
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_connect_that_cannot_be_registered_fails_and_closes_its_socket() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a connect that cannot be registered");
        let (server, _accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        test_loop.control.fail_next(Op::Update, libc::ENOSPC);
        let protocol = ProbeProtocol(Probe::new("unused"));
        let connecting = test_loop.event_loop.create_connection(server.local_addr(), || protocol);
        let refused = test_loop.run(connecting).map(drop).unwrap_err();
        assert!(refused.to_string().contains("cannot connect to 127.0.0.1"), "{refused}");
        test_loop.run_iterations(3);
        server.close();
        test_loop
            .until("the accepted connection is closed", || test_loop.event_loop.metrics().descriptors == 0);
        test_loop.assert_idle();
    });
}

#[test]
fn a_refused_reader_is_dropped_and_the_former_one_stays() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a refused reader");
        let (a, b) = UnixStream::pair().unwrap();
        let token = Rc::new(());
        let count = Rc::new(Cell::new(0));
        test_loop.control.fail_next(Op::Update, libc::ENOSPC);
        assert_refused(&test_loop.event_loop, &a, &token);
        assert_eq!(test_loop.event_loop.metrics().descriptors, 0);
        let counting = Rc::clone(&count);
        test_loop.event_loop.add_reader(&a, move || counting.set(counting.get() + 1)).unwrap();
        test_loop.control.fail_next(Op::Update, libc::ENOMEM);
        assert_refused(&test_loop.event_loop, &a, &token);
        drop(b);
        test_loop.run_once();
        assert_eq!(count.get(), 1, "the former reader is called");
        assert!(test_loop.event_loop.remove_reader(&a).unwrap());
        test_loop.assert_idle();
    });
}

#[track_caller]
fn assert_refused(event_loop: &EventLoop, socket: &UnixStream, token: &Rc<()>) {
    let inside = Rc::clone(token);
    let refused = event_loop.add_reader(socket, move || drop(Rc::clone(&inside)));
    assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
    assert_eq!(Rc::strong_count(token), 1, "the closure was not dropped");
}

#[test]
fn a_removed_writer_is_not_called_even_if_the_kernel_refuses_the_removal() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a refused removal");
        let (a, _b) = UnixStream::pair().unwrap();
        let count = Rc::new(Cell::new(0));
        let counting = Rc::clone(&count);
        test_loop.event_loop.add_writer(&a, move || counting.set(counting.get() + 1)).unwrap();
        // Scheduled before the writer in the iteration in which the fd is writable.
        let (event_loop, control, number) =
            (test_loop.event_loop.clone(), test_loop.control.clone(), a.as_raw_fd());
        test_loop.event_loop.add_reader(&a, || {}).unwrap();
        test_loop
            .event_loop
            .call_soon(move || {
                control.fail_next(Op::Update, libc::EBADF);
                assert!(event_loop.remove_writer(&number).unwrap());
            })
            .unwrap();
        test_loop.run_iterations(3);
        assert_eq!(count.get(), 0);
        test_loop.assert_reports(&[]);
        assert!(test_loop.event_loop.remove_reader(&a).unwrap());
        test_loop.assert_idle();
    });
}
