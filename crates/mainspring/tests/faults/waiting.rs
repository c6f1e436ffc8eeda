//! Faults of the poll call, and virtual time that advances only when the loop is idle.

use crate::conversation::Conversation;
use crate::support::Stage;
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Error, Time, sleep, timeout};
use mainspring_engine::testing::Op;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use test_support::{On, guarded};

#[test]
fn a_wait_that_is_interrupted_goes_on() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "an interrupted wait");
        for _ in 0..3 {
            stage.control.fail_next(Op::Park, libc::EINTR);
            stage.run(sleep(Duration::from_secs(1)));
        }
        assert_eq!(stage.control.pending_faults(), 0);
        stage.assert_idle();
    });
}

#[test]
fn a_wait_that_fails_ends_the_run_and_leaves_everything_as_it_was() {
    guarded(|| {
        let talk = Conversation::new("a wait that fails");
        let (stage, ran) = (&talk.stage, Rc::new(Cell::new(0)));
        for _ in 0..2 {
            let running = Rc::clone(&ran);
            stage.event_loop.call_soon(move || running.set(running.get() + 1)).unwrap();
        }
        let timing = Rc::clone(&ran);
        stage.event_loop.call_later(Duration::from_secs(5), move || timing.set(timing.get() + 10)).unwrap();
        talk.client.write(100);
        stage.control.fail_next(Op::Park, libc::EIO);
        let failed = stage.event_loop.run_forever();
        assert!(matches!(&failed, Err(Error::Io(error)) if error.raw_os_error() == Some(libc::EIO)));
        assert!(!stage.event_loop.is_running());
        assert_eq!(ran.get(), 0, "what was ready stays ready");
        stage.control.fail_next(Op::Park, libc::EIO);
        let failed = stage.event_loop.run_until_complete(sleep(Duration::ZERO));
        assert!(matches!(failed, Err(Error::Io(_))));
        talk.let_arrive();
        assert_eq!(ran.get(), 2);
        stage.run(sleep(Duration::from_secs(5)));
        assert_eq!(ran.get(), 12);
        talk.end();
    });
}

#[test]
fn a_wait_that_fails_when_the_future_is_done_does_not_stop_the_next_run() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a wait that fails at the end");
        let control = stage.control.clone();
        let mut failed = 0;
        // A busy loop does not poll in every iteration; in some of these runs it does in the last one.
        for steps in 0..100 {
            let busy = async {
                for _ in 0..steps {
                    sleep(Duration::ZERO).await;
                }
                control.fail_next(Op::Park, libc::EIO);
            };
            stage.run(busy);
            failed += usize::from(control.pending_faults() == 0);
            control.clear_faults();
            stage.run(sleep(Duration::from_secs(1)));
        }
        assert!(failed > 0, "no wait has failed");
        stage.assert_idle();
    });
}

#[test]
fn a_run_that_is_stopped_as_its_future_is_done_does_not_stop_the_next_one() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, "stopped at the end");
            stage.run(async { stage.event_loop.stop() });
            stage.run(sleep(Duration::from_secs(1)));
            assert_eq!(stage.event_loop.time(), Time::from_nanos(1_000_000_000));
            stage.assert_idle();
        }
    });
}

#[test]
fn virtual_time_does_not_pass_while_io_can_be_served() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, "I/O before the clock");
            stage.run(async {
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
            assert_eq!(stage.event_loop.time(), Time::ZERO);
            stage.assert_idle();
        }
    });
}
