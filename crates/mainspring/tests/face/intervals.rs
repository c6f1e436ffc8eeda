//! `interval`, `Sleep::reset`, `timeout_at`.

use crate::support::{Log, run_one_pass, virtual_loop};
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

/// The ticks of an interval of ten seconds, when each was due and when it was taken, if the second is taken at 25.
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
fn ticks_come_at_once_and_then_every_period() {
    let (event_loop, _clock) = virtual_loop();
    let seen = event_loop.run_until_complete(async {
        let mut ticks = interval_at(at(3), 7 * SECOND);
        let mut seen = Vec::new();
        for _ in 0..4 {
            assert_eq!(ticks.tick().await, now());
            seen.push(seconds(now()));
            // Work that is done in time does not move the ticks.
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
fn a_tick_that_is_a_little_late_is_not_missed() {
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
fn giving_up_a_tick_takes_none() {
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
fn an_interval_can_be_set_anew() {
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
fn a_period_beyond_the_clock_ticks_once() {
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
fn a_period_of_nothing_is_refused() {
    drop(interval_at(Time::ZERO, Duration::ZERO));
}

#[test]
fn a_sleep_that_is_reset_wakes_whoever_awaits_it_at_the_new_time() {
    let (event_loop, _clock) = virtual_loop();
    for (first, second) in [(10, 20), (20, 10)] {
        let start = event_loop.time();
        let plus = |seconds: u32| start.saturating_add(seconds * SECOND);
        let taken = event_loop.run_until_complete(async {
            let mut nap = sleep_until(plus(first));
            assert_eq!(nap.deadline(), Some(plus(first)));
            assert_eq!(timeout(5 * SECOND, &mut nap).await, Err(Elapsed));
            nap.reset(plus(second));
            assert_eq!(nap.deadline(), Some(plus(second)));
            (&mut nap).await;
            assert!(nap.is_elapsed());
            let taken = now();
            // And again, from its end.
            nap.reset(plus(30));
            assert!(!nap.is_elapsed());
            nap.await;
            taken
        });
        assert_eq!(taken.unwrap(), plus(second));
        assert_eq!(event_loop.time(), plus(30));
        assert_eq!(event_loop.metrics().timers, 0);
    }
}

#[test]
fn a_sleep_is_reset_while_its_task_waits_for_something_else_too() {
    let (event_loop, _clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    event_loop
        .spawn(async move {
            let mut nap = sleep(10 * SECOND);
            for _ in 0..3 {
                // Whoever is active puts the end off: an idle timeout.
                assert_eq!(timeout(5 * SECOND, &mut nap).await, Err(Elapsed));
                nap.reset(now().saturating_add(10 * SECOND));
            }
            nap.await;
            inside.add(seconds(now()));
        })
        .unwrap();
    event_loop.run_until_idle().unwrap();
    log.assert([25_u64]);
}

#[test]
fn a_sleep_that_is_reset_after_its_loop_was_closed_is_harmless() {
    let (event_loop, _clock) = virtual_loop();
    let mut nap = Box::pin(sleep(SECOND));
    let polled = event_loop.run_until_complete(async { timeout(Duration::ZERO, &mut nap).await });
    assert_eq!(polled.unwrap(), Err(Elapsed));
    event_loop.close().unwrap();
    nap.reset(at(1));
}

#[test]
fn a_deadline_for_several_is_the_same_for_all() {
    let (event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let deadline = now().saturating_add(10 * SECOND);
            assert_eq!(timeout_at(deadline, sleep(6 * SECOND)).await, Ok(()));
            assert_eq!(timeout_at(deadline, sleep(6 * SECOND)).await, Err(Elapsed));
            assert_eq!(now(), deadline);
            assert_eq!(timeout_at(deadline, async { 1 }).await, Ok(1), "a result that is there counts");
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
fn an_interval_can_be_handed_to_another_task() {
    let (event_loop, _clock) = virtual_loop();
    let second = event_loop.run_until_complete(async {
        let mut ticks = interval(SECOND);
        ticks.tick().await;
        assert!(timeout(SECOND / 2, ticks.tick()).await.is_err());
        spawn(async move { ticks.tick().await }).await.unwrap()
    });
    assert_eq!(second.unwrap(), at(1));
    run_one_pass(&event_loop);
    assert_eq!(event_loop.metrics(), Default::default());
    drop(EventLoop::try_current());
}
