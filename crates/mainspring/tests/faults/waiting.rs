//! Faults of the poll call, and virtual time that advances only when the loop is idle.

use crate::connected_probes::ConnectedProbes;
use crate::support::TestLoop;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Error, Time, sleep, timeout};
use mainspring_engine::testing::Op;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use test_support::{TestBackend, isolated};

#[test]
fn an_interrupted_poll_continues() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "an interrupted poll");
        for _ in 0..3 {
            test_loop.control.fail_next(Op::Park, libc::EINTR);
            test_loop.run(sleep(Duration::from_secs(1)));
        }
        assert_eq!(test_loop.control.pending_faults(), 0);
        test_loop.assert_idle();
    });
}

#[test]
fn a_failed_poll_ends_the_run_and_loses_nothing() {
    isolated(|| {
        let probes = ConnectedProbes::new("a failed poll");
        let (test_loop, ran) = (&probes.test_loop, Rc::new(Cell::new(0)));
        for _ in 0..2 {
            let running = Rc::clone(&ran);
            test_loop.event_loop.call_soon(move || running.set(running.get() + 1)).unwrap();
        }
        let timing = Rc::clone(&ran);
        test_loop
            .event_loop
            .call_later(Duration::from_secs(5), move || timing.set(timing.get() + 10))
            .unwrap();
        probes.client.write(100);
        test_loop.control.fail_next(Op::Park, libc::EIO);
        let failed = test_loop.event_loop.run_forever();
        assert!(matches!(&failed, Err(Error::Io(error)) if error.raw_os_error() == Some(libc::EIO)));
        assert!(!test_loop.event_loop.is_running());
        assert_eq!(ran.get(), 0, "ready calls stay ready");
        test_loop.control.fail_next(Op::Park, libc::EIO);
        let failed = test_loop.event_loop.run_until_complete(sleep(Duration::ZERO));
        assert!(matches!(failed, Err(Error::Io(_))));
        probes.run_until_received();
        assert_eq!(ran.get(), 2);
        test_loop.run(sleep(Duration::from_secs(5)));
        assert_eq!(ran.get(), 12);
        probes.close_and_check();
    });
}

#[test]
fn a_poll_that_fails_when_the_future_is_done_does_not_stop_the_next_run() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a failed poll at the end");
        let control = test_loop.control.clone();
        let mut failed = 0;
        // A busy loop does not poll in every iteration; in some of these runs it does in the last one.
        for steps in 0..100 {
            let busy = async {
                for _ in 0..steps {
                    sleep(Duration::ZERO).await;
                }
                control.fail_next(Op::Park, libc::EIO);
            };
            test_loop.run(busy);
            failed += usize::from(control.pending_faults() == 0);
            control.clear_faults();
            test_loop.run(sleep(Duration::from_secs(1)));
        }
        assert!(failed > 0, "no poll has failed");
        test_loop.assert_idle();
    });
}

#[test]
fn stopping_a_finished_run_does_not_stop_the_next() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, "stopped at the end");
            test_loop.run(async { test_loop.event_loop.stop() });
            test_loop.run(sleep(Duration::from_secs(1)));
            assert_eq!(test_loop.event_loop.time(), Time::from_nanos(1_000_000_000));
            test_loop.assert_idle();
        }
    });
}

#[test]
fn virtual_time_does_not_advance_while_io_is_ready() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, "I/O before the clock");
            test_loop.run(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let conversation = async {
                    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
                    let (accepted, _) = listener.accept().await.unwrap();
                    for _ in 0..10 {
                        client.write_all(b"x").await.unwrap();
                        accepted.read_exact(&mut [0]).await.unwrap();
                    }
                };
                timeout(Duration::from_nanos(1), conversation).await.unwrap();
            });
            assert_eq!(test_loop.event_loop.time(), Time::ZERO);
            test_loop.assert_idle();
        }
    });
}
