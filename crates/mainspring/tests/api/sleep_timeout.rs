//! `sleep`, `timeout`, `wait_for`.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_iteration, virtual_loop};
use mainspring::time::now;
use mainspring::{Elapsed, sleep, sleep_until, spawn, timeout, timeout_at, wait_for, yield_now};
use std::future::pending;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn virtual_time_skips_an_hour_of_sleep() {
    let (event_loop, _clock) = virtual_loop();
    let start = event_loop.time();
    event_loop
        .run_until_complete(async {
            sleep(HOUR).await;
            sleep_until(start.saturating_add(HOUR + HOUR)).await;
        })
        .unwrap();
    assert_eq!(event_loop.time(), start.saturating_add(2 * HOUR));
}

#[test]
fn sleeping_tasks_wake_in_order_of_their_deadlines() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::<u64>::new();
    let inside = log.clone();
    event_loop
        .run_until_complete(async move {
            let tasks = [3, 1, 2].map(|seconds| {
                let log = inside.clone();
                spawn(async move {
                    sleep(Duration::from_secs(seconds)).await;
                    log.add(seconds);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
    log.assert([1_u64, 2, 3]);
}

#[test]
fn a_dropped_sleep_leaves_no_timer() {
    let event_loop = new_loop();
    let task = event_loop.spawn(sleep(HOUR)).unwrap();
    run_one_iteration(&event_loop);
    assert_eq!(event_loop.metrics().timers, 1);
    task.cancel();
    run_one_iteration(&event_loop);
    assert_eq!(event_loop.metrics().timers, 0);
}

#[test]
fn a_timeout_that_did_not_expire_leaves_no_timer() {
    let event_loop = new_loop();
    let result = event_loop.run_until_complete(timeout(HOUR, async {
        sleep(Duration::ZERO).await;
        assert_eq!(mainspring::EventLoop::current().metrics().timers, 1);
        "in time"
    }));
    assert_eq!(result.unwrap(), Ok("in time"));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn an_expired_timeout_drops_its_future() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    struct LogOnDrop(Log<()>);
    impl Drop for LogOnDrop {
        fn drop(&mut self) {
            self.0.add(());
        }
    }
    let guard = LogOnDrop(log.clone());
    let result = event_loop.run_until_complete(async {
        timeout(HOUR, async move {
            let _guard = guard;
            pending::<()>().await;
        })
        .await
    });
    assert_eq!(result.unwrap(), Err(Elapsed));
    log.assert([()]);
    assert_eq!(event_loop.time().as_nanos(), HOUR.as_nanos() as u64);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_timeout_expires_although_its_future_is_polled_in_between() {
    let (event_loop, _clock) = virtual_loop();
    let result = event_loop.run_until_complete(timeout(HOUR, async {
        loop {
            sleep(HOUR / 10).await;
        }
    }));
    assert_eq!(result.unwrap(), Err::<(), _>(Elapsed));
    assert_eq!(event_loop.time().as_nanos(), HOUR.as_nanos() as u64);
}

#[test]
fn a_zero_sleep_yields_for_one_iteration() {
    let event_loop = new_loop();
    let log = Log::new();
    let inside = log.clone();
    run_on(&event_loop, async move {
        mainspring::EventLoop::current().call_soon(inside.adder("others")).unwrap();
        sleep(Duration::ZERO).await;
        inside.add("again");
    });
    log.assert(["others", "again"]);
}

#[test]
fn a_sleep_moved_to_another_task_wakes_that_task() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut sleeping = Box::pin(sleep(HOUR));
            assert_eq!(timeout(HOUR / 2, &mut sleeping).await, Err(Elapsed));
            spawn(sleeping).await.unwrap();
        })
        .unwrap();
    assert_eq!(event_loop.time().as_nanos(), HOUR.as_nanos() as u64);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_zero_timeout_returns_a_ready_result_and_never_waits() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let past = now();
        sleep(Duration::from_millis(1)).await;
        let one_iteration = || async {
            yield_now().await;
            "an iteration later"
        };
        assert_eq!(timeout(Duration::ZERO, async { "ready" }).await, Ok("ready"));
        assert_eq!(timeout_at(past, async { "ready" }).await, Ok("ready"));
        assert_eq!(wait_for(one_iteration(), Some(Duration::ZERO)).await, Err(Elapsed));
        assert_eq!(timeout(Duration::ZERO, one_iteration()).await, Err(Elapsed));
        assert_eq!(timeout_at(past, one_iteration()).await, Err(Elapsed));
    });
    assert_leaves_nothing(&event_loop);
}
