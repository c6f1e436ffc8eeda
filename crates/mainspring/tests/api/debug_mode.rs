//! Debug mode: slow calls and task steps are reported, with the task's name and the location that scheduled them.

use crate::support::{Log, collect_reports, virtual_loop};
use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop, TaskBuilder, sleep, spawn_named};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const SLOW: Duration = Duration::from_millis(150);

fn debug_loop() -> (EventLoop, VirtualClock, Log<String>) {
    let clock = VirtualClock::default();
    let event_loop = Builder::new().clock(clock.clone()).debug(true).build().unwrap();
    let reports = collect_reports(&event_loop);
    (event_loop, clock, reports)
}

/// Checks that there is one report with this beginning and end; between them is the column.
#[track_caller]
fn assert_report(reports: &Log<String>, begin: &str, end: &str) {
    let entries = reports.entries();
    let [report] = entries.as_slice() else { panic!("{entries:?}") };
    assert!(report.starts_with(begin), "{report}");
    assert!(report.ends_with(end), "{report}");
}

#[test]
fn a_slow_call_is_reported_with_the_location_that_scheduled_it() {
    let (event_loop, clock, reports) = debug_loop();
    let slow = clock.clone();
    let line = line!() + 1;
    event_loop.call_soon(move || slow.advance(SLOW)).unwrap();
    event_loop.call_soon(move || clock.advance(Duration::from_millis(99))).unwrap();
    event_loop.run_until_idle().unwrap();
    let location = format!("{}:{line}:", file!());
    assert_report(&reports, &format!("Executing a call scheduled at {location}"), "took 0.150 seconds");
}

#[test]
fn a_slow_timer_callback_is_reported_with_its_location() {
    let (event_loop, clock, reports) = debug_loop();
    let line = line!() + 1;
    event_loop.call_later(SLOW, move || clock.advance(SLOW)).unwrap();
    event_loop.run_until_idle().unwrap();
    let location = format!("{}:{line}:", file!());
    assert_report(&reports, &format!("Executing a call scheduled at {location}"), "took 0.150 seconds");
}

#[test]
fn a_slow_task_step_is_reported_with_the_tasks_name_and_location() {
    let (event_loop, clock, reports) = debug_loop();
    let line = line!() + 5;
    let run = event_loop.run_until_complete(async {
        let name = "replaced below";
        #[rustfmt::skip]
        let task =
            spawn_named(name, async move {
                sleep(SLOW).await;
                clock.advance(SLOW);
                sleep(SLOW).await;
            });
        task.set_name("slow task");
        task.await.unwrap();
    });
    run.unwrap();
    let begin = format!("Executing a step of slow task, started at {}:{line}:", file!());
    assert_report(&reports, &begin, ", took 0.150 seconds");
}

#[test]
fn every_spawn_function_records_the_callers_location() {
    let (event_loop, clock, reports) = debug_loop();
    let slow = |clock: &VirtualClock| {
        let clock = clock.clone();
        async move { clock.advance(SLOW) }
    };
    event_loop.spawn(slow(&clock)).unwrap();
    event_loop.spawn_in(mainspring::Lane::Urgent, slow(&clock)).unwrap();
    TaskBuilder::new().spawn_on(&event_loop, slow(&clock)).unwrap();
    let inner = slow(&clock);
    event_loop.run_until_complete(async { mainspring::spawn(inner).await.unwrap() }).unwrap();
    let entries = reports.entries();
    assert_eq!(entries.len(), 4);
    for entry in entries {
        assert!(entry.contains(file!()), "{entry}");
    }
}

#[test]
fn the_main_future_and_reader_callbacks_are_timed() {
    let (event_loop, clock, reports) = debug_loop();
    let slow = clock.clone();
    event_loop.run_until_complete(async { slow.advance(SLOW) }).unwrap();
    assert_report(&reports, "Executing a step of the main future", "took 0.150 seconds");
    let (event_loop, clock, reports) = debug_loop();
    let (local, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"!").unwrap();
    let inner = event_loop.clone();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&local);
    event_loop
        .add_reader(&local, move || {
            clock.advance(SLOW);
            inner.remove_reader(&fd).unwrap();
        })
        .unwrap();
    event_loop.run_until_idle().unwrap();
    assert_report(&reports, "Executing the callback of a descriptor or a signal", "took 0.150 seconds");
}

#[test]
fn panics_are_reported_in_debug_mode() {
    let (event_loop, _clock, reports) = debug_loop();
    event_loop.call_soon(|| panic!("a call")).unwrap();
    drop(event_loop.spawn(async { panic!("a task") }).unwrap());
    event_loop.run_until_idle().unwrap();
    assert_eq!(reports.entries().len(), 2);
}

#[test]
fn nothing_is_reported_without_debug_mode() {
    let (event_loop, clock) = virtual_loop();
    event_loop.set_debug(false);
    let reports = collect_reports(&event_loop);
    let (call_clock, task_clock) = (clock.clone(), clock.clone());
    event_loop.call_soon(move || call_clock.advance(SLOW)).unwrap();
    event_loop.spawn(async move { task_clock.advance(SLOW) }).unwrap();
    event_loop.run_until_idle().unwrap();
    reports.assert([]);
    assert!(!format!("{:?}", event_loop.call_soon(|| ()).unwrap()).contains(file!()));
}

#[test]
fn debug_mode_and_slow_callback_duration_can_change_while_the_loop_runs() {
    let (event_loop, clock) = virtual_loop();
    event_loop.set_debug(false);
    assert_eq!(event_loop.slow_callback_duration(), Duration::from_millis(100));
    event_loop.set_slow_callback_duration(SLOW * 2);
    let reports = collect_reports(&event_loop);
    let inner = event_loop.clone();
    event_loop
        .run_until_complete(async {
            inner.set_debug(true);
            assert!(inner.is_debug());
            sleep(Duration::ZERO).await;
            let (short, long) = (clock.clone(), clock.clone());
            inner.call_soon(move || short.advance(SLOW)).unwrap();
            inner.call_soon(move || long.advance(SLOW * 2)).unwrap();
            sleep(Duration::ZERO).await;
            inner.set_debug(false);
            inner.call_soon(move || clock.advance(SLOW * 3)).unwrap();
            sleep(Duration::ZERO).await;
        })
        .unwrap();
    assert_report(&reports, "Executing a call scheduled at", "took 0.300 seconds");
}

#[test]
fn debug_output_of_a_handle_shows_its_location() {
    let (event_loop, _clock, _reports) = debug_loop();
    let handle = event_loop.call_soon(|| ()).unwrap();
    assert!(format!("{handle:?}").contains(file!()));
}
