//! Priorities: tasks and callbacks inherit the lane of the code that creates them. Cancellation and timeouts of
//! background tasks do not wait.

mod background_waits;
mod inheritance;
mod prompt_endings;

use crate::support::{Log, collect_reports, new_loop, run_one_iteration};
use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop, Lane, background, normal, urgent};
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs `f` in a lane.
fn in_lane<R>(lane: Lane, f: impl FnOnce() -> R) -> R {
    match lane {
        Lane::Urgent => urgent(f),
        Lane::Normal => normal(f),
        Lane::Background => background(HOUR, f),
    }
}

/// Runs iterations that are never idle, each of which takes 100 ms.
fn run_busy_iterations(event_loop: &EventLoop, clock: &VirtualClock, count: usize) {
    for _ in 0..count {
        let clock = clock.clone();
        normal(|| event_loop.call_soon(move || clock.advance(SECOND / 10))).unwrap();
        run_one_iteration(event_loop);
    }
}

#[test]
fn debug_output_has_the_lane_unless_it_is_normal() {
    let event_loop = new_loop();
    let outputs = |lane| {
        in_lane(lane, || {
            let task = event_loop.spawn(async {}).unwrap();
            [
                format!("{:?}", event_loop.call_soon(|| ()).unwrap()),
                format!("{:?}", event_loop.call_later(Duration::ZERO, || ()).unwrap()),
                format!("{:?}", event_loop.call_after(Duration::ZERO, || ()).unwrap()),
                format!("{:?}", task.handle()),
                format!("{task:?}"),
            ]
        })
    };
    for output in outputs(Lane::Background) {
        assert!(output.contains("lane: Background"), "{output}");
    }
    for (index, output) in outputs(Lane::Urgent).iter().enumerate() {
        assert!(output.contains(if index == 2 { "lane: Background" } else { "lane: Urgent" }), "{output}");
    }
    for (index, output) in outputs(Lane::Normal).iter().enumerate() {
        assert_eq!(output.contains("lane"), index == 2, "{output}");
    }
    event_loop.run_until_idle().unwrap();
}

#[test]
fn debug_mode_reports_the_lane_of_slow_calls() {
    let clock = VirtualClock::default();
    let event_loop = Builder::new().clock(clock.clone()).debug(true).build().unwrap();
    let reports = collect_reports(&event_loop);
    let slow = || {
        let clock = clock.clone();
        move || clock.advance(SECOND)
    };
    urgent(|| event_loop.call_soon(slow())).unwrap();
    let step = slow();
    event_loop.spawn_in(Lane::Background, async move { step() }).unwrap();
    event_loop.run_until_idle().unwrap();
    let reports = reports.entries();
    assert!(reports[0].starts_with("Executing a call (urgent lane) scheduled at "), "{}", reports[0]);
    let begin = "Executing a step of Task-1 (background lane), started at ";
    assert!(reports[1].starts_with(begin), "{}", reports[1]);
}

#[test]
fn with_io_first_the_loop_polls_between_normal_calls() {
    for io_first in [false, true] {
        let event_loop = Builder::new().io_first(io_first).build().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let log = Log::new();
        let (reads, remover, fd) = (log.clone(), event_loop.clone(), Rc::new(reader));
        let watched = Rc::clone(&fd);
        let on_readable = move || {
            reads.add("reader");
            remover.remove_reader(&*watched).unwrap();
        };
        event_loop.add_reader(&*fd, on_readable).unwrap();
        let inside = log.clone();
        event_loop
            .call_soon(move || {
                inside.add("writer");
                writer.write_all(b"x").unwrap();
            })
            .unwrap();
        event_loop.call_soon(log.adder("b")).unwrap();
        event_loop.call_soon(log.adder("c")).unwrap();
        run_one_iteration(&event_loop);
        run_one_iteration(&event_loop);
        let expected = if io_first { ["writer", "reader", "b", "c"] } else { ["writer", "b", "c", "reader"] };
        log.assert(expected);
    }
}
