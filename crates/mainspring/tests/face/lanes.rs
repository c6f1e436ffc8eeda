//! Lanes: what runs before what, and how long the background waits.

use crate::support::{Log, new_loop, run_one_pass, virtual_loop};
use mainspring::testing::VirtualClock;
use mainspring::time::now;
use mainspring::{Builder, EventLoop, Lane, TaskBuilder, after, sleep, spawn, timeout};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn calls_run_lane_by_lane_and_each_lane_in_order() {
    let event_loop = new_loop();
    let log = Log::new();
    let calls = [(Lane::Background, "x"), (Lane::Normal, "b"), (Lane::Io, "a"), (Lane::Normal, "c")];
    for (lane, name) in calls.into_iter().chain([(Lane::Background, "y")]) {
        event_loop.call_soon_in(lane, log.adder(name)).unwrap();
    }
    run_one_pass(&event_loop);
    log.assert(["a", "b", "c"]);
    run_one_pass(&event_loop);
    log.assert(["a", "b", "c", "x"]);
    event_loop.run_until_idle().unwrap();
    log.assert(["a", "b", "c", "x", "y"]);
}

#[test]
fn a_call_in_any_lane_can_be_cancelled() {
    let event_loop = new_loop();
    for lane in [Lane::Io, Lane::Normal, Lane::Background] {
        event_loop.call_soon_in(lane, || unreachable!()).unwrap().cancel();
    }
    event_loop.run_until_idle().unwrap();
}

#[test]
fn a_timer_that_is_due_waits_its_turn_in_its_lane() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let second = Duration::from_secs(1);
    // Due in the order of their times, and for the same time in the order they were made; then lane by lane.
    for (lane, delay, name) in [
        (Lane::Background, second, "y"),
        (Lane::Background, second / 2, "x"),
        (Lane::Normal, second, "c"),
        (Lane::Normal, second / 2, "b"),
        (Lane::Io, second, "a"),
    ] {
        event_loop.call_later_in(lane, delay, log.adder(name)).unwrap();
    }
    run_one_pass(&event_loop);
    log.assert([]);
    clock.advance(second);
    run_one_pass(&event_loop);
    log.assert(["a", "b", "c"]);
    // The background waits for a pass with nothing else.
    event_loop.call_soon(log.adder("d")).unwrap();
    run_one_pass(&event_loop);
    log.assert(["a", "b", "c", "d"]);
    event_loop.run_until_idle().unwrap();
    log.assert(["a", "b", "c", "d", "x", "y"]);
}

#[test]
fn a_timer_of_the_background_is_overdue_from_its_time_on() {
    let (event_loop, clock) = virtual_loop();
    event_loop.set_max_overdue(Some(Duration::from_secs(1)));
    let log = Log::new();
    let when = event_loop.time().saturating_add(HOUR);
    event_loop.call_at_in(Lane::Background, when, log.adder("overdue")).unwrap();
    clock.advance(HOUR);
    for (pass, passed) in [(1, 0), (2, 1000), (3, 1)] {
        clock.advance(Duration::from_millis(passed));
        event_loop.call_soon(log.adder("busy")).unwrap();
        run_one_pass(&event_loop);
        let expected = if pass == 3 { 4 } else { pass };
        assert_eq!(log.entries().len(), expected);
    }
    log.assert(["busy", "busy", "busy", "overdue"]);
}

#[test]
fn a_timer_in_any_lane_can_be_cancelled_before_its_time_and_while_it_waits_its_turn() {
    let (event_loop, clock) = virtual_loop();
    for lane in [Lane::Io, Lane::Normal, Lane::Background] {
        let early = event_loop.call_later_in(lane, HOUR, || unreachable!()).unwrap();
        early.cancel();
        assert!(early.cancelled());
    }
    let due = event_loop.call_later_in(Lane::Background, HOUR, || unreachable!()).unwrap();
    clock.advance(HOUR);
    event_loop.call_soon(|| ()).unwrap();
    run_one_pass(&event_loop);
    due.cancel();
    event_loop.run_until_idle().unwrap();
}

#[test]
fn a_task_of_the_background_that_sleeps_is_woken_into_the_background() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    event_loop
        .spawn_in(Lane::Background, async move {
            sleep(HOUR).await;
            inside.add("woken");
        })
        .unwrap();
    run_one_pass(&event_loop);
    clock.advance(HOUR);
    for _ in 0..10 {
        event_loop.call_soon(log.adder("busy")).unwrap();
        run_one_pass(&event_loop);
    }
    log.assert(["busy"; 10]);
    run_one_pass(&event_loop);
    assert_eq!(log.entries().last(), Some(&"woken"));
}

#[test]
fn every_step_of_a_task_waits_in_its_lane_whoever_wakes_it() {
    let event_loop = new_loop();
    let log = Log::new();
    let woken = event_loop.create_future::<()>();
    let (inside, wait) = (log.clone(), woken.clone());
    let (tell, told) = std::sync::mpsc::channel();
    event_loop
        .spawn_in(Lane::Background, async move {
            inside.add("began");
            wait.await.unwrap();
            inside.add("woken here");
            let (promise, elsewhere) = mainspring::ConcurrentFuture::<()>::pair();
            tell.send(promise).unwrap();
            elsewhere.await.unwrap();
            inside.add("woken elsewhere");
        })
        .unwrap();
    let busy = || event_loop.call_soon(log.adder("busy")).unwrap();
    busy();
    run_one_pass(&event_loop);
    run_one_pass(&event_loop);
    log.assert(["busy", "began"]);
    woken.set_result(()).unwrap();
    busy();
    run_one_pass(&event_loop);
    run_one_pass(&event_loop);
    log.assert(["busy", "began", "busy", "woken here"]);
    let promise = told.recv().unwrap();
    std::thread::spawn(move || promise.set_result(())).join().unwrap();
    busy();
    run_one_pass(&event_loop);
    assert_eq!(log.entries().last(), Some(&"busy"), "the step came through the inbox to its lane");
    run_one_pass(&event_loop);
    assert_eq!(log.entries().last(), Some(&"woken elsewhere"));
}

#[test]
fn a_task_of_the_io_lane_goes_before_those_that_are_ready_longer() {
    let event_loop = new_loop();
    let log = Log::new();
    let add = |name| {
        let log = log.clone();
        async move {
            for _ in 0..2 {
                log.add(name);
                sleep(Duration::ZERO).await;
            }
        }
    };
    event_loop.spawn(add("normal")).unwrap();
    TaskBuilder::new().lane(Lane::Io).spawn_on(&event_loop, add("urgent")).unwrap();
    event_loop.run_until_idle().unwrap();
    log.assert(["urgent", "normal", "urgent", "normal"]);
}

#[test]
fn with_io_first_what_is_urgent_need_not_wait_for_the_pass_to_end() {
    for io_first in [false, true] {
        let event_loop = Builder::new().io_first(io_first).build().unwrap();
        let log = Log::new();
        let (inner, inside) = (event_loop.clone(), log.clone());
        event_loop
            .call_soon(move || drop(inner.call_soon_in(Lane::Io, inside.adder("urgent")).unwrap()))
            .unwrap();
        event_loop.call_soon(log.adder("normal")).unwrap();
        event_loop.run_until_idle().unwrap();
        log.assert(if io_first { ["urgent", "normal"] } else { ["normal", "urgent"] });
    }
}

#[test]
fn after_waits_for_its_time_and_then_for_a_pass_with_nothing_else() {
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
        run_one_pass(&event_loop);
    }
    log.assert([]);
    busy.cancel();
    let busy_until = event_loop.time();
    event_loop.run_until_idle().unwrap();
    log.assert([busy_until]);
    assert!(busy_until > start.saturating_add(HOUR));
}

#[test]
fn after_alone_is_on_time_and_nothing_is_never_early() {
    let (event_loop, _clock) = virtual_loop();
    let start = event_loop.time();
    event_loop.run_until_complete(after(HOUR)).unwrap();
    assert_eq!(event_loop.time(), start.saturating_add(HOUR));
    event_loop.run_until_complete(after(Duration::ZERO)).unwrap();
    assert_eq!(event_loop.time(), start.saturating_add(HOUR));
}

#[test]
fn after_is_over_when_it_has_waited_for_max_overdue_on_a_busy_loop() {
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
    // A minute passes in each pass: when its time has come, when it has waited for too long, when it is told, ...
    let waited = waited.unwrap();
    assert!((65..=69).contains(&waited), "{waited} minutes");
    busy.cancel();
}

#[test]
fn after_that_is_given_up_leaves_nothing_in_any_state() {
    let (event_loop, clock) = virtual_loop();
    for passes in 0..5 {
        let task = event_loop.spawn(after(HOUR)).unwrap();
        run_one_pass(&event_loop);
        clock.advance(HOUR);
        let busy = event_loop.spawn(async {
            loop {
                sleep(Duration::ZERO).await;
            }
        });
        for _ in 0..passes {
            run_one_pass(&event_loop);
        }
        task.cancel();
        busy.unwrap().cancel();
        event_loop.run_until_idle().unwrap();
        assert_eq!(event_loop.metrics(), Default::default());
    }
    let held = event_loop.spawn(after(HOUR)).unwrap();
    run_one_pass(&event_loop);
    event_loop.close().unwrap();
    assert!(held.is_finished());
}

#[test]
fn after_that_is_polled_for_other_reasons_still_waits_for_its_turn() {
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

/// A call of a random program: where it waits, how long it runs, and what it schedules.
#[derive(Clone, Debug)]
struct Item {
    lane: Lane,
    nanos: u64,
    children: Vec<Item>,
}

fn item() -> impl Strategy<Value = Item> {
    let lane = prop_oneof![Just(Lane::Io), Just(Lane::Normal), Just(Lane::Background)];
    let leaf = (lane.clone(), 0..40_u64).prop_map(|(lane, nanos)| Item { lane, nanos, children: Vec::new() });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (lane.clone(), 0..40_u64, prop::collection::vec(inner, 0..4))
            .prop_map(|(lane, nanos, children)| Item { lane, nanos, children })
    })
}

/// The order in which the naive loop runs them, by their numbers, with the time at which each began.
fn naive(program: &[Item], io_first: bool, max_overdue: Option<u64>) -> Vec<(usize, u64)> {
    let mut lanes: [VecDeque<(u64, usize, Item)>; 3] = Default::default();
    let (mut now, mut made, mut ran) = (0, 0, Vec::new());
    let mut push = |lanes: &mut [VecDeque<_>; 3], now, items: &[Item]| {
        for item in items {
            lanes[item.lane as usize].push_back((now, made, item.clone()));
            made += 1;
        }
    };
    push(&mut lanes, now, program);
    while lanes.iter().any(|lane| !lane.is_empty()) {
        while let Some(limit) = max_overdue
            && lanes[2].front().is_some_and(|(since, ..)| now - since > limit)
        {
            let overdue = lanes[2].pop_front();
            lanes[1].extend(overdue);
        }
        let (mut io, mut normal) = (lanes[0].len(), lanes[1].len());
        let mut background = usize::from(io + normal == 0);
        let mut ran_normal = false;
        loop {
            if io_first && ran_normal && normal > 0 {
                (io, ran_normal) = (lanes[0].len(), false);
            }
            let (lane, left) = if io > 0 {
                (0, &mut io)
            } else if normal > 0 {
                ran_normal = true;
                (1, &mut normal)
            } else if background > 0 {
                (2, &mut background)
            } else {
                break;
            };
            *left -= 1;
            let Some((_, number, item)) = lanes[lane].pop_front() else { break };
            ran.push((number, now));
            now += item.nanos;
            push(&mut lanes, now, &item.children);
        }
    }
    ran
}

/// Schedules `items` on the loop, each numbered as it is scheduled.
fn schedule(world: &Rc<World>, items: Vec<Item>) {
    for item in items {
        let number = world.made.replace(world.made.get() + 1);
        let inner = Rc::clone(world);
        let call = move || {
            inner.ran.add((number, inner.event_loop.time().as_nanos()));
            inner.clock.advance(Duration::from_nanos(item.nanos));
            schedule(&inner, item.children);
        };
        world.event_loop.call_soon_in(item.lane, call).unwrap();
    }
}

struct World {
    event_loop: EventLoop,
    clock: VirtualClock,
    made: std::cell::Cell<usize>,
    ran: Log<(usize, u64)>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_runs_in_the_order_of_the_naive_loop(
        program in prop::collection::vec(item(), 0..6),
        io_first: bool,
        max_overdue in prop::option::of(0..60_u64),
    ) {
        let clock = VirtualClock::default();
        let event_loop = Builder::new().clock(clock.clone()).io_first(io_first).build().unwrap();
        event_loop.set_max_overdue(max_overdue.map(Duration::from_nanos));
        let world = Rc::new(World { event_loop, clock, made: Default::default(), ran: Log::new() });
        schedule(&world, program.clone());
        world.event_loop.run_until_idle().unwrap();
        prop_assert_eq!(world.ran.entries(), naive(&program, io_first, max_overdue));
    }
}
