//! `HyperTimer` and its sleeps: on the loop's thread, on others, and dropped anywhere.

use crate::support::TestLoop;
use hyper::rt::{Executor, Sleep, Timer};
use mainspring::hyper::{HyperExecutor, HyperTimer};
use mainspring::{EventLoop, sleep};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use test_support::{TestBackend, isolated};

const HOUR: Duration = Duration::from_secs(3600);

fn poll(sleep: &mut Pin<Box<dyn Sleep>>) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn sleeps_end_in_the_order_of_the_loops_clock() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "order");
        let timer = HyperTimer::new(&test_loop.event_loop);
        let begun = timer.now();
        test_loop.run(async {
            timer.sleep_until(begun + 2 * HOUR).await;
            assert_eq!(timer.now() - begun, 2 * HOUR);
            timer.sleep(HOUR).await;
            assert_eq!(timer.now() - begun, 3 * HOUR);
            // A deadline in the past completes at once.
            timer.sleep_until(begun).await;
            timer.sleep(Duration::ZERO).await;
            assert_eq!(timer.now() - begun, 3 * HOUR);
        });
        test_loop.assert_idle();
    });
}

#[test]
fn an_endless_sleep_does_not_overflow() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "endless");
        let mut wait = HyperTimer::new(&test_loop.event_loop).sleep(Duration::MAX);
        assert!(poll(&mut wait).is_pending());
        drop(wait);
        test_loop.assert_idle();
    });
}

#[test]
fn a_dropped_sleep_removes_its_timer() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "dropped");
        let mut wait = HyperTimer::new(&test_loop.event_loop).sleep(HOUR);
        for _ in 0..3 {
            assert!(poll(&mut wait).is_pending());
            assert_eq!(test_loop.event_loop.metrics().timers, 1);
        }
        drop(wait);
        assert_eq!(test_loop.event_loop.metrics().timers, 0);
    });
}

#[test]
fn a_sleep_dropped_on_another_thread_removes_its_timer() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "dropped elsewhere");
        let mut wait = HyperTimer::new(&test_loop.event_loop).sleep(HOUR);
        assert!(poll(&mut wait).is_pending());
        thread::spawn(move || drop(wait)).join().unwrap();
        test_loop.until("the timer is gone", || test_loop.event_loop.metrics().timers == 0);
        test_loop.assert_idle();
    });
}

#[test]
fn a_sleep_can_be_reset() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "reset");
        let timer = HyperTimer::new(&test_loop.event_loop);
        let begun = timer.now();
        let mut wait = timer.sleep(HOUR);
        assert!(poll(&mut wait).is_pending());
        timer.reset(&mut wait, begun + 5 * HOUR);
        assert_eq!(test_loop.event_loop.metrics().timers, 0);
        test_loop.run(wait);
        assert_eq!(timer.now() - begun, 5 * HOUR);
        test_loop.assert_idle();
    });
}

#[test]
fn another_thread_may_sleep_on_the_loops_timer() {
    isolated(|| {
        let event_loop = EventLoop::new().unwrap();
        let timer = HyperTimer::new(&event_loop);
        let remote = event_loop.remote();
        let other = thread::spawn(move || {
            let begun = Instant::now();
            EventLoop::new().unwrap().run_until_complete(timer.sleep(Duration::from_millis(5))).unwrap();
            let is_late_enough = timer.now() >= begun + Duration::from_millis(5);
            remote.stop().unwrap();
            is_late_enough
        });
        event_loop.run_forever().unwrap();
        assert!(other.join().unwrap());
    });
}

#[test]
fn a_sleep_on_a_closed_loop_completes() {
    isolated(|| {
        let event_loop = EventLoop::new().unwrap();
        let timer = HyperTimer::new(&event_loop);
        let (mut here, mut there) = (timer.sleep(HOUR), timer.sleep(HOUR));
        assert!(poll(&mut here).is_pending());
        event_loop.close().unwrap();
        assert!(poll(&mut here).is_ready());
        thread::spawn(move || assert!(poll(&mut there).is_ready())).join().unwrap();
        drop(event_loop);
        assert!(poll(&mut timer.sleep(HOUR)).is_ready());
    });
}

#[test]
fn a_panicking_hyper_task_is_reported() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a panic");
        test_loop.run(async {
            HyperExecutor.execute(async { panic!("{}", test_support::DELIBERATE) });
            sleep(Duration::ZERO).await;
            sleep(Duration::ZERO).await;
        });
        let reports = test_loop.reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains(test_support::DELIBERATE), "{reports:?}");
        test_loop.assert_idle();
    });
}
