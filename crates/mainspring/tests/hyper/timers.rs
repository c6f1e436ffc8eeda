//! `HyperTimer` and its sleeps: on the loop's thread, on others, and dropped anywhere.

use crate::support::Stage;
use hyper::rt::{Executor, Sleep, Timer};
use mainspring::hyper::{HyperExecutor, HyperTimer};
use mainspring::{EventLoop, sleep};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use test_support::{On, guarded};

const HOUR: Duration = Duration::from_secs(3600);

fn poll(sleep: &mut Pin<Box<dyn Sleep>>) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn waits_end_in_the_order_of_the_loops_clock() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "order");
        let timer = HyperTimer::new(&stage.event_loop);
        let begun = timer.now();
        stage.run(async {
            timer.sleep_until(begun + 2 * HOUR).await;
            assert_eq!(timer.now() - begun, 2 * HOUR);
            timer.sleep(HOUR).await;
            assert_eq!(timer.now() - begun, 3 * HOUR);
            // A deadline in the past completes at once.
            timer.sleep_until(begun).await;
            timer.sleep(Duration::ZERO).await;
            assert_eq!(timer.now() - begun, 3 * HOUR);
        });
        stage.assert_idle();
    });
}

#[test]
fn a_wait_without_end_does_not_overflow() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "for ever");
        let mut wait = HyperTimer::new(&stage.event_loop).sleep(Duration::MAX);
        assert!(poll(&mut wait).is_pending());
        drop(wait);
        stage.assert_idle();
    });
}

#[test]
fn a_wait_that_is_dropped_takes_its_timer_with_it() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "dropped");
        let mut wait = HyperTimer::new(&stage.event_loop).sleep(HOUR);
        for _ in 0..3 {
            assert!(poll(&mut wait).is_pending());
            assert_eq!(stage.event_loop.metrics().timers, 1);
        }
        drop(wait);
        assert_eq!(stage.event_loop.metrics().timers, 0);
    });
}

#[test]
fn a_wait_that_is_dropped_on_another_thread_does_too() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "dropped elsewhere");
        let mut wait = HyperTimer::new(&stage.event_loop).sleep(HOUR);
        assert!(poll(&mut wait).is_pending());
        thread::spawn(move || drop(wait)).join().unwrap();
        stage.until("the timer is gone", || stage.event_loop.metrics().timers == 0);
        stage.assert_idle();
    });
}

#[test]
fn a_wait_can_be_given_another_end() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "reset");
        let timer = HyperTimer::new(&stage.event_loop);
        let begun = timer.now();
        let mut wait = timer.sleep(HOUR);
        assert!(poll(&mut wait).is_pending());
        timer.reset(&mut wait, begun + 5 * HOUR);
        assert_eq!(stage.event_loop.metrics().timers, 0);
        stage.run(wait);
        assert_eq!(timer.now() - begun, 5 * HOUR);
        stage.assert_idle();
    });
}

#[test]
fn a_task_of_another_thread_may_wait() {
    guarded(|| {
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
fn a_wait_for_a_loop_that_is_closed_is_over() {
    guarded(|| {
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
fn a_task_of_hypers_that_panics_is_reported() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a panic");
        stage.run(async {
            HyperExecutor.execute(async { panic!("{}", test_support::DELIBERATE) });
            sleep(Duration::ZERO).await;
            sleep(Duration::ZERO).await;
        });
        let reports = stage.reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains(test_support::DELIBERATE), "{reports:?}");
        stage.assert_idle();
    });
}
