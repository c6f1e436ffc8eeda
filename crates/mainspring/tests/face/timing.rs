//! `sleep` and `timeout`.

use crate::support::{Log, assert_leaves_nothing, new_loop, run_on, run_one_pass, virtual_loop};
use mainspring::time::now;
use mainspring::{Elapsed, sleep, sleep_until, spawn, timeout, timeout_at, wait_for, yield_now};
use std::future::pending;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_hour_of_sleep_passes_at_once_in_virtual_time() {
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
fn sleepers_wake_in_the_order_of_their_times() {
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
fn a_sleep_that_is_dropped_leaves_no_timer() {
    let event_loop = new_loop();
    let task = event_loop.spawn(sleep(HOUR)).unwrap();
    run_one_pass(&event_loop);
    assert_eq!(event_loop.metrics().timers, 1);
    task.cancel();
    run_one_pass(&event_loop);
    assert_eq!(event_loop.metrics().timers, 0);
}

#[test]
fn a_timeout_that_is_not_needed_leaves_no_timer() {
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
fn a_timeout_drops_what_took_too_long() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    struct Noted(Log<()>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.add(());
        }
    }
    let noted = Noted(log.clone());
    let result = event_loop.run_until_complete(async {
        timeout(HOUR, async move {
            let _noted = noted;
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
fn a_timeout_is_not_hurt_by_a_future_that_is_polled_for_other_reasons() {
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
fn a_sleep_of_nothing_gives_way_for_one_pass() {
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
fn a_sleep_moved_to_another_task_wakes_that_one() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut nap = Box::pin(sleep(HOUR));
            assert_eq!(timeout(HOUR / 2, &mut nap).await, Err(Elapsed));
            spawn(nap).await.unwrap();
        })
        .unwrap();
    assert_eq!(event_loop.time().as_nanos(), HOUR.as_nanos() as u64);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_timeout_without_time_takes_what_is_there_at_once_and_waits_for_nothing() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let past = now();
        sleep(Duration::from_millis(1)).await;
        let once = || async {
            yield_now().await;
            "a pass later"
        };
        assert_eq!(timeout(Duration::ZERO, async { "there" }).await, Ok("there"));
        assert_eq!(timeout_at(past, async { "there" }).await, Ok("there"));
        assert_eq!(wait_for(once(), Some(Duration::ZERO)).await, Err(Elapsed));
        assert_eq!(timeout(Duration::ZERO, once()).await, Err(Elapsed));
        assert_eq!(timeout_at(past, once()).await, Err(Elapsed));
    });
    assert_leaves_nothing(&event_loop);
}
