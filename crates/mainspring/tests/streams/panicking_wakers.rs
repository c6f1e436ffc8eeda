//! Wakers that panic.

use crate::read_wakeups::{WakeCounter, buffered, pair, send};
use crate::support::TestLoop;
use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use test_support::{DELIBERATE, TestBackend, isolated};

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(DELIBERATE);
    }
}

#[test]
fn a_panicking_waker_is_reported_and_loses_no_data() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("a panicking waker on {on:?}"));
            for (near, far) in [pair(&test_loop), pair(&test_loop)] {
                let mut buffer = [0; 8];
                let mut read = Box::pin(near.read(&mut buffer));
                let waker = Waker::from(Arc::new(PanickingWaker));
                assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                send(&test_loop, &far, b"abc");
                test_loop.until("the bytes are buffered", || buffered(&near) == 3);
                test_loop.assert_reports(&["A waker panicked: panic: deliberate"]);
                drop(read);
                assert_eq!(test_loop.run(near.read_exactly(3)).unwrap(), b"abc");
            }
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_panicking_waker_does_not_stop_other_wakers_of_the_same_iteration() {
    isolated(|| {
        for (on, place) in TestBackend::ALL.into_iter().flat_map(|on| (0..3).map(move |place| (on, place))) {
            let test_loop = TestLoop::new(on, format!("waker {place} panics on {on:?}"));
            let pairs = [(); 3].map(|()| pair(&test_loop)).map(|(near, far)| (near, far.into_std().unwrap()));
            let wakes = Arc::new(WakeCounter::default());
            let mut buffers = [[0; 8]; 3];
            let mut reads: Vec<_> = pairs
                .iter()
                .zip(&mut buffers)
                .map(|((near, _), buffer)| Box::pin(near.read(buffer)))
                .collect();
            for (index, read) in reads.iter_mut().enumerate() {
                let waker = if index == place {
                    Waker::from(Arc::new(PanickingWaker))
                } else {
                    Arc::clone(&wakes).into()
                };
                assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            for mut far in pairs.iter().map(|(_, far)| far) {
                far.write_all(b"abc").unwrap();
            }
            test_loop.run_iterations(1);
            assert_eq!(wakes.take(), 2);
            test_loop.assert_reports(&["A waker panicked: panic: deliberate"]);
            for read in reads {
                assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(3))));
            }
            drop(pairs);
            test_loop.assert_idle();
        }
    });
}
