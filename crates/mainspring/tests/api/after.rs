//! `after`: waits for a delay, and then for an iteration with nothing else to run.

use crate::support::{Log, run_one_iteration, virtual_loop};
use mainspring::testing::VirtualClock;
use mainspring::time::now;
use mainspring::{Builder, EventLoop, after, sleep, spawn, timeout};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn after_waits_for_its_deadline_and_then_for_an_idle_iteration() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    let start = event_loop.time();
    event_loop
        .spawn(async move {
            after(HOUR).await;
            inside.add(EventLoop::current().time());
        })
        .unwrap();
    let busy = event_loop
        .spawn(async move {
            loop {
                clock.advance(HOUR / 2);
                sleep(Duration::ZERO).await;
            }
        })
        .unwrap();
    for _ in 0..20 {
        run_one_iteration(&event_loop);
    }
    log.assert([]);
    busy.cancel();
    let busy_until = event_loop.time();
    event_loop.run_until_idle().unwrap();
    log.assert([busy_until]);
    assert!(busy_until > start.saturating_add(HOUR));
}

#[test]
fn after_is_on_time_on_an_idle_loop() {
    let (event_loop, _clock) = virtual_loop();
    let start = event_loop.time();
    event_loop.run_until_complete(after(HOUR)).unwrap();
    assert_eq!(event_loop.time(), start.saturating_add(HOUR));
    event_loop.run_until_complete(after(Duration::ZERO)).unwrap();
    assert_eq!(event_loop.time(), start.saturating_add(HOUR));
}

#[test]
fn after_completes_on_a_busy_loop_when_it_is_overdue() {
    let clock = VirtualClock::default();
    let minute = Duration::from_secs(60);
    let event_loop = Builder::new().clock(clock.clone()).max_overdue(5 * minute).build().unwrap();
    let busy = event_loop
        .spawn(async move {
            loop {
                clock.advance(minute);
                sleep(Duration::ZERO).await;
            }
        })
        .unwrap();
    let waited = event_loop.run_until_complete(async {
        let start = now();
        after(HOUR).await;
        now().saturating_duration_since(start).as_secs() / 60
    });
    // Each iteration takes a minute: the deadline, the overdue limit and the wake-up may each be noticed one later.
    let waited = waited.unwrap();
    assert!((65..=69).contains(&waited), "{waited} minutes");
    busy.cancel();
}

#[test]
fn cancelling_after_leaves_nothing_in_any_state() {
    let (event_loop, clock) = virtual_loop();
    for iterations in 0..5 {
        let task = event_loop.spawn(after(HOUR)).unwrap();
        run_one_iteration(&event_loop);
        clock.advance(HOUR);
        let busy = event_loop.spawn(async {
            loop {
                sleep(Duration::ZERO).await;
            }
        });
        for _ in 0..iterations {
            run_one_iteration(&event_loop);
        }
        task.cancel();
        busy.unwrap().cancel();
        event_loop.run_until_idle().unwrap();
        assert_eq!(event_loop.metrics(), Default::default());
    }
    let held = event_loop.spawn(after(HOUR)).unwrap();
    run_one_iteration(&event_loop);
    event_loop.close().unwrap();
    assert!(held.is_finished());
}

#[test]
fn polling_after_again_does_not_complete_it_early() {
    let (event_loop, _clock) = virtual_loop();
    let result = event_loop.run_until_complete(async {
        let busy = spawn(async {
            loop {
                sleep(Duration::ZERO).await;
            }
        });
        let mut waiting = after(Duration::from_nanos(1));
        for _ in 0..5 {
            assert!(timeout(Duration::ZERO, &mut waiting).await.is_err());
        }
        busy.cancel();
        waiting.await;
    });
    result.unwrap();
}
