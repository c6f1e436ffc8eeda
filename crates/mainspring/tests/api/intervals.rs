//! `interval`, `Sleep::reset`, `timeout_at`.

use crate::support::{Log, run_one_iteration, virtual_loop};
use mainspring::time::{MissedTickBehavior, interval, interval_at, now};
use mainspring::{Elapsed, EventLoop, Time, sleep, sleep_until, spawn, timeout, timeout_at};
use std::future::pending;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn seconds(time: Time) -> u64 {
    time.as_nanos() / 1_000_000_000
}

fn at(seconds: u64) -> Time {
    Time::ZERO.saturating_add(seconds as u32 * SECOND)
}

/// Runs an interval of ten seconds and takes the second tick at 25 s. Returns when each tick was due and was taken.
fn ticks_with(behaviour: MissedTickBehavior) -> Vec<(u64, u64)> {
    let (event_loop, clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut ticks = interval(10 * SECOND);
            ticks.set_missed_tick_behavior(behaviour);
            let mut seen = Vec::new();
            for number in 0..5 {
                if number == 1 {
                    clock.advance(25 * SECOND);
                }
                let due = ticks.tick().await;
                seen.push((seconds(due), seconds(now())));
            }
            seen
        })
        .unwrap()
}

#[test]
fn ticks_come_every_period_from_the_start_time() {
    let (event_loop, _clock) = virtual_loop();
    let seen = event_loop.run_until_complete(async {
        let mut ticks = interval_at(at(3), 7 * SECOND);
        let mut seen = Vec::new();
        for _ in 0..4 {
            assert_eq!(ticks.tick().await, now());
            seen.push(seconds(now()));
            // Work shorter than the period does not move the ticks.
            sleep(2 * SECOND).await;
        }
        seen
    });
    assert_eq!(seen.unwrap(), [3, 10, 17, 24]);
}

#[test]
fn missed_ticks_burst_are_delayed_or_skipped() {
    let burst = [(0, 0), (10, 25), (20, 25), (30, 30), (40, 40)];
    let delay = [(0, 0), (10, 25), (35, 35), (45, 45), (55, 55)];
    let skip = [(0, 0), (10, 25), (30, 30), (40, 40), (50, 50)];
    assert_eq!(ticks_with(MissedTickBehavior::Burst), burst);
    assert_eq!(ticks_with(MissedTickBehavior::Delay), delay);
    assert_eq!(ticks_with(MissedTickBehavior::Skip), skip);
}

#[test]
fn a_tick_that_is_a_few_milliseconds_late_is_not_missed() {
    for behaviour in [MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
        let (event_loop, clock) = virtual_loop();
        let next = event_loop.run_until_complete(async {
            let mut ticks = interval(Duration::from_millis(2));
            ticks.set_missed_tick_behavior(behaviour);
            ticks.tick().await;
            clock.advance(Duration::from_millis(7));
            ticks.tick().await;
            ticks.tick().await
        });
        assert_eq!(next.unwrap(), Time::from_nanos(4_000_000));
    }
}

#[test]
fn cancelling_tick_consumes_no_tick() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut ticks = interval(10 * SECOND);
            ticks.tick().await;
            assert_eq!(timeout(3 * SECOND, ticks.tick()).await, Err(Elapsed));
            assert_eq!(timeout(3 * SECOND, ticks.tick()).await, Err(Elapsed));
            assert_eq!(seconds(ticks.tick().await), 10);
        })
        .unwrap();
}

#[test]
fn an_interval_can_be_reset() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let mut ticks = interval(10 * SECOND);
            ticks.tick().await;
            sleep(4 * SECOND).await;
            ticks.reset();
            assert_eq!(seconds(ticks.tick().await), 14);
            ticks.reset_at(at(100));
            assert_eq!(seconds(ticks.tick().await), 100);
            assert_eq!(seconds(ticks.tick().await), 110);
            assert_eq!(ticks.period(), 10 * SECOND);
        })
        .unwrap();
    assert_eq!(event_loop.metrics().timers, 0, "dropped with the interval");
}

#[test]
fn an_interval_with_an_infinite_period_ticks_once() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .spawn(async {
            let mut ticks = interval(Duration::MAX);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks.tick().await;
            ticks.tick().await;
            unreachable!()
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 1);
}

#[test]
#[should_panic(expected = "the period of an interval is zero")]
fn a_zero_period_panics() {
    drop(interval_at(Time::ZERO, Duration::ZERO));
}

#[test]
fn a_reset_sleep_wakes_its_task_at_the_new_deadline() {
    let (event_loop, _clock) = virtual_loop();
    for (first, second) in [(10, 20), (20, 10)] {
        let start = event_loop.time();
        let after = |seconds: u32| start.saturating_add(seconds * SECOND);
        let woken_at = event_loop.run_until_complete(async {
            let mut sleeping = sleep_until(after(first));
            assert_eq!(sleeping.deadline(), Some(after(first)));
            assert_eq!(timeout(5 * SECOND, &mut sleeping).await, Err(Elapsed));
            sleeping.reset(after(second));
            assert_eq!(sleeping.deadline(), Some(after(second)));
            (&mut sleeping).await;
            assert!(sleeping.is_elapsed());
            let woken_at = now();
            // Reset after it has elapsed.
            sleeping.reset(after(30));
            assert!(!sleeping.is_elapsed());
            sleeping.await;
            woken_at
        });
        assert_eq!(woken_at.unwrap(), after(second));
        assert_eq!(event_loop.time(), after(30));
        assert_eq!(event_loop.metrics().timers, 0);
    }
}

#[test]
fn a_sleep_can_be_an_idle_timeout_that_activity_resets() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    event_loop
        .spawn(async move {
            let mut sleeping = sleep(10 * SECOND);
            for _ in 0..3 {
                // Activity postpones the deadline.
                assert_eq!(timeout(5 * SECOND, &mut sleeping).await, Err(Elapsed));
                sleeping.reset(now().saturating_add(10 * SECOND));
            }
            sleeping.await;
            inside.add(seconds(now()));
        })
        .unwrap();
    event_loop.run_until_idle().unwrap();
    log.assert([25_u64]);
}

#[test]
fn resetting_a_sleep_after_its_loop_was_closed_has_no_effect() {
    let (event_loop, _clock) = virtual_loop();
    let mut sleeping = Box::pin(sleep(SECOND));
    let polled = event_loop.run_until_complete(async { timeout(Duration::ZERO, &mut sleeping).await });
    assert_eq!(polled.unwrap(), Err(Elapsed));
    event_loop.close().unwrap();
    sleeping.reset(at(1));
}

#[test]
fn timeout_at_applies_one_deadline_to_several_futures() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let deadline = now().saturating_add(10 * SECOND);
            assert_eq!(timeout_at(deadline, sleep(6 * SECOND)).await, Ok(()));
            assert_eq!(timeout_at(deadline, sleep(6 * SECOND)).await, Err(Elapsed));
            assert_eq!(now(), deadline);
            assert_eq!(
                timeout_at(deadline, async { 1 }).await,
                Ok(1),
                "a ready future wins over an expired deadline"
            );
            assert_eq!(timeout_at(deadline, pending::<()>()).await, Err(Elapsed));
        })
        .unwrap();
}

#[test]
fn two_intervals_and_a_sleep_share_the_virtual_clock() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::<String>::new();
    for (name, period) in [("two", 2), ("three", 3)] {
        let log = log.clone();
        event_loop
            .spawn(async move {
                let mut ticks = interval(period * SECOND);
                loop {
                    log.add(format!("{name} {}", seconds(ticks.tick().await)));
                }
            })
            .unwrap();
    }
    event_loop.run_until_complete(sleep(6 * SECOND + SECOND / 2)).unwrap();
    let expected = ["two 0", "three 0", "two 2", "three 3", "two 4", "two 6", "three 6"];
    let mut seen = log.entries();
    seen[5..].sort_by_key(|entry| std::cmp::Reverse(entry.clone()));
    assert_eq!(seen, expected);
}

#[test]
fn an_interval_can_move_to_another_task() {
    let (event_loop, _clock) = virtual_loop();
    let second = event_loop.run_until_complete(async {
        let mut ticks = interval(SECOND);
        ticks.tick().await;
        assert!(timeout(SECOND / 2, ticks.tick()).await.is_err());
        spawn(async move { ticks.tick().await }).await.unwrap()
    });
    assert_eq!(second.unwrap(), at(1));
    run_one_iteration(&event_loop);
    assert_eq!(event_loop.metrics(), Default::default());
    drop(EventLoop::try_current());
}
