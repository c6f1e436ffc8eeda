//! What tasks and callbacks inherit.

use super::{HOUR, SECOND, in_lane, run_busy_iterations};
use crate::support::{Log, collect_reports, new_loop, run_one_iteration, virtual_loop};
use mainspring::{
    EventLoop, JoinSet, Lane, TaskBuilder, TaskGroup, background, current_lane, normal, spawn, spawn_named,
    urgent,
};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

type Action = Rc<dyn Fn()>;
type Creator = (&'static str, fn(Action));

/// The functions that create a task or callback, which runs the action.
const CREATORS: [Creator; 9] = [
    ("spawn", |action| drop(spawn(async move { action() }))),
    ("spawn_named", |action| drop(spawn_named("named", async move { action() }))),
    ("TaskBuilder", |action| drop(TaskBuilder::new().spawn(async move { action() }))),
    ("EventLoop::spawn", |action| drop(EventLoop::current().spawn(async move { action() }).unwrap())),
    ("JoinSet", |action| {
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { action() });
        tasks.detach_all();
    }),
    ("TaskGroup", |action| {
        drop(spawn(TaskGroup::scope(|group| async move {
            group.spawn_ok(async move { action() });
            Ok::<_, Infallible>(())
        })));
    }),
    ("call_soon", |action| drop(EventLoop::current().call_soon(move || action()).unwrap())),
    ("call_later", |action| {
        drop(EventLoop::current().call_later(Duration::from_millis(1), move || action()).unwrap());
    }),
    ("call_at", |action| {
        let event_loop = EventLoop::current();
        drop(event_loop.call_at(event_loop.time(), move || action()).unwrap());
    }),
];

#[test]
fn everything_that_is_created_in_a_lane_inherits_it_and_passes_it_on() {
    for lane in [Lane::Urgent, Lane::Normal, Lane::Background] {
        for (outer_name, outer) in CREATORS {
            for (inner_name, inner) in CREATORS {
                let (event_loop, _clock) = virtual_loop();
                let log = Log::<Lane>::new();
                let (first, second) = (log.clone(), log.clone());
                let record: Action = Rc::new(move || second.add(current_lane()));
                let nested: Action = Rc::new(move || {
                    first.add(current_lane());
                    inner(Rc::clone(&record));
                });
                event_loop.run_until_complete(async { in_lane(lane, || outer(nested)) }).unwrap();
                event_loop.run_until_idle().unwrap();
                assert_eq!(log.entries(), [lane, lane], "{outer_name}, {inner_name}");
                assert_eq!(current_lane(), Lane::Normal);
            }
        }
    }
}

#[test]
fn everything_that_is_created_in_the_background_lane_inherits_its_limit() {
    for (outer_name, outer) in CREATORS {
        for (inner_name, inner) in CREATORS {
            let (event_loop, clock) = virtual_loop();
            let log = Log::<()>::new();
            let record: Action = Rc::new({
                let log = log.clone();
                move || log.add(())
            });
            let nested: Action = Rc::new(move || inner(Rc::clone(&record)));
            event_loop.run_until_complete(async { background(SECOND, || outer(nested)) }).unwrap();
            // At most three steps each wait for the limit. Without one they would wait forever.
            run_busy_iterations(&event_loop, &clock, 10);
            assert_eq!(log.entries(), [], "{outer_name}, {inner_name}");
            run_busy_iterations(&event_loop, &clock, 50);
            assert_eq!(log.entries(), [()], "{outer_name}, {inner_name}");
            event_loop.run_until_idle().unwrap();
        }
    }
}

#[test]
fn an_explicit_lane_takes_precedence() {
    let event_loop = new_loop();
    let log = Log::new();
    let record = || {
        let log = log.clone();
        move || log.add(current_lane())
    };
    let step = || {
        let record = record();
        async move { record() }
    };
    background(HOUR, || {
        event_loop.call_soon_in(Lane::Urgent, record()).unwrap();
        event_loop.spawn_in(Lane::Urgent, step()).unwrap();
        TaskBuilder::new().lane(Lane::Normal).spawn_on(&event_loop, step()).unwrap();
        event_loop.call_later_in(Lane::Normal, Duration::ZERO, record()).unwrap();
        event_loop.call_at_in(Lane::Normal, event_loop.time(), record()).unwrap();
        normal(|| event_loop.call_soon(record()).unwrap());
    });
    run_one_iteration(&event_loop);
    log.assert([Lane::Urgent, Lane::Urgent, Lane::Normal, Lane::Normal, Lane::Normal, Lane::Normal]);
}

#[test]
fn an_explicit_background_lane_inherits_the_limit_in_that_lane_only() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let create = |name: &'static str| {
        event_loop.call_soon_in(Lane::Background, log.adder(name)).unwrap();
        event_loop.call_after(Duration::ZERO, log.adder(name)).unwrap();
        let inside = log.clone();
        event_loop.spawn_in(Lane::Background, async move { inside.add(name) }).unwrap();
    };
    background(SECOND, || create("limit"));
    urgent(|| create("no limit"));
    create("no limit");
    run_busy_iterations(&event_loop, &clock, 30);
    log.assert(["limit"; 3]);
    event_loop.run_until_idle().unwrap();
    assert_eq!(log.entries().len(), 9);
}

#[test]
fn a_task_builder_sets_the_limit_of_a_background_task() {
    let (event_loop, clock) = virtual_loop();
    let limited = TaskBuilder::new().max_overdue(SECOND);
    let task = limited.lane(Lane::Background).spawn_on(&event_loop, async {}).unwrap();
    let inherited =
        background(HOUR, || TaskBuilder::new().max_overdue(SECOND).spawn_on(&event_loop, async {}));
    let inherited = inherited.unwrap();
    let ignored = TaskBuilder::new().max_overdue(HOUR).spawn_on(&event_loop, async {}).unwrap();
    run_busy_iterations(&event_loop, &clock, 10);
    assert!(!task.is_finished() && !inherited.is_finished() && ignored.is_finished());
    run_busy_iterations(&event_loop, &clock, 4);
    assert!(task.is_finished() && inherited.is_finished());
}

#[test]
fn a_panic_restores_the_lane() {
    let (event_loop, _clock) = virtual_loop();
    let _reports = collect_reports(&event_loop);
    let lanes = urgent(|| {
        let unwound = catch_unwind(AssertUnwindSafe(|| background(HOUR, || panic!("for the test"))));
        assert!(unwound.is_err());
        current_lane()
    });
    assert_eq!((lanes, current_lane()), (Lane::Urgent, Lane::Normal));
    background(HOUR, || {
        event_loop.call_soon(|| panic!("for the test")).unwrap();
        drop(event_loop.spawn(async { panic!("for the test") }).unwrap());
    });
    let log = Log::new();
    let record = log.clone();
    event_loop.call_later(SECOND, move || record.add(current_lane())).unwrap();
    event_loop.run_until_idle().unwrap();
    log.assert([Lane::Normal]);
}

#[test]
fn a_loop_that_runs_inside_a_lane_starts_in_the_normal_one() {
    let event_loop = new_loop();
    let before = event_loop.spawn(async { current_lane() }).unwrap();
    let lanes = background(HOUR, || {
        let lanes = event_loop.run_until_complete(async { (current_lane(), before.await.unwrap()) }).unwrap();
        (lanes, current_lane())
    });
    assert_eq!(lanes, ((Lane::Normal, Lane::Normal), Lane::Background));
}
