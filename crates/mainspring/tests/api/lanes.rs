//! Lanes: I/O calls run first, then normal ones; background calls run when nothing else is ready or they are overdue.

use crate::support::{Log, new_loop, run_one_iteration, virtual_loop};
use mainspring::{Builder, Lane, TaskBuilder, sleep};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn calls_run_by_lane_and_in_order_within_a_lane() {
    let event_loop = new_loop();
    let log = Log::new();
    let calls = [(Lane::Background, "x"), (Lane::Normal, "b"), (Lane::Urgent, "a"), (Lane::Normal, "c")];
    for (lane, name) in calls.into_iter().chain([(Lane::Background, "y")]) {
        event_loop.call_soon_in(lane, log.adder(name)).unwrap();
    }
    run_one_iteration(&event_loop);
    log.assert(["a", "b", "c"]);
    run_one_iteration(&event_loop);
    log.assert(["a", "b", "c", "x"]);
    event_loop.run_until_idle().unwrap();
    log.assert(["a", "b", "c", "x", "y"]);
}

#[test]
fn a_call_in_any_lane_can_be_cancelled() {
    let event_loop = new_loop();
    for lane in [Lane::Urgent, Lane::Normal, Lane::Background] {
        event_loop.call_soon_in(lane, || unreachable!()).unwrap().cancel();
    }
    event_loop.run_until_idle().unwrap();
}

#[test]
fn a_due_timer_is_queued_in_its_lane() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let second = Duration::from_secs(1);
    // Timers become ready by deadline, equal deadlines in creation order; then they run by lane.
    for (lane, delay, name) in [
        (Lane::Background, second, "y"),
        (Lane::Background, second / 2, "x"),
        (Lane::Normal, second, "c"),
        (Lane::Normal, second / 2, "b"),
        (Lane::Urgent, second, "a"),
    ] {
        event_loop.call_later_in(lane, delay, log.adder(name)).unwrap();
    }
    run_one_iteration(&event_loop);
    log.assert([]);
    clock.advance(second);
    run_one_iteration(&event_loop);
    log.assert(["a", "b", "c"]);
    // Background calls wait for an iteration with nothing else to run.
    event_loop.call_soon(log.adder("d")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["a", "b", "c", "d"]);
    event_loop.run_until_idle().unwrap();
    log.assert(["a", "b", "c", "d", "x", "y"]);
}

#[test]
fn a_background_timer_becomes_overdue_counting_from_its_deadline() {
    let (event_loop, clock) = virtual_loop();
    event_loop.set_max_overdue(Some(Duration::from_secs(1)));
    let log = Log::new();
    let when = event_loop.time().saturating_add(HOUR);
    event_loop.call_at_in(Lane::Background, when, log.adder("overdue")).unwrap();
    clock.advance(HOUR);
    for (iteration, elapsed_millis) in [(1, 0), (2, 1000), (3, 1)] {
        clock.advance(Duration::from_millis(elapsed_millis));
        event_loop.call_soon(log.adder("busy")).unwrap();
        run_one_iteration(&event_loop);
        let expected = if iteration == 3 { 4 } else { iteration };
        assert_eq!(log.entries().len(), expected);
    }
    log.assert(["busy", "busy", "overdue", "busy"]);
}

#[test]
fn a_timer_in_any_lane_can_be_cancelled_before_and_after_it_is_due() {
    let (event_loop, clock) = virtual_loop();
    for lane in [Lane::Urgent, Lane::Normal, Lane::Background] {
        let early = event_loop.call_later_in(lane, HOUR, || unreachable!()).unwrap();
        early.cancel();
        assert!(early.cancelled());
    }
    let due = event_loop.call_later_in(Lane::Background, HOUR, || unreachable!()).unwrap();
    clock.advance(HOUR);
    event_loop.call_soon(|| ()).unwrap();
    run_one_iteration(&event_loop);
    due.cancel();
    event_loop.run_until_idle().unwrap();
}

#[test]
fn a_sleeping_background_task_is_woken_in_the_background_lane() {
    let (event_loop, clock) = virtual_loop();
    let log = Log::new();
    let inside = log.clone();
    event_loop
        .spawn_in(Lane::Background, async move {
            sleep(HOUR).await;
            inside.add("woken");
        })
        .unwrap();
    run_one_iteration(&event_loop);
    clock.advance(HOUR);
    for _ in 0..10 {
        event_loop.call_soon(log.adder("busy")).unwrap();
        run_one_iteration(&event_loop);
    }
    log.assert(["busy"; 10]);
    run_one_iteration(&event_loop);
    assert_eq!(log.entries().last(), Some(&"woken"));
}

#[test]
fn every_step_of_a_task_runs_in_its_lane_even_if_another_thread_wakes_it() {
    let event_loop = new_loop();
    let log = Log::new();
    let woken = event_loop.create_future::<()>();
    let (inside, wait) = (log.clone(), woken.clone());
    let (sender, receiver) = std::sync::mpsc::channel();
    event_loop
        .spawn_in(Lane::Background, async move {
            inside.add("started");
            wait.await.unwrap();
            inside.add("woken by the loop");
            let (promise, from_thread) = mainspring::ConcurrentFuture::<()>::pair();
            sender.send(promise).unwrap();
            from_thread.await.unwrap();
            inside.add("woken by a thread");
        })
        .unwrap();
    let busy = || event_loop.call_soon(log.adder("busy")).unwrap();
    busy();
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    log.assert(["busy", "started"]);
    woken.set_result(()).unwrap();
    busy();
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    log.assert(["busy", "started", "busy", "woken by the loop"]);
    let promise = receiver.recv().unwrap();
    std::thread::spawn(move || promise.set_result(())).join().unwrap();
    busy();
    run_one_iteration(&event_loop);
    assert_eq!(log.entries().last(), Some(&"busy"), "a wake-up through the inbox uses the task's lane");
    run_one_iteration(&event_loop);
    assert_eq!(log.entries().last(), Some(&"woken by a thread"));
}

#[test]
fn a_task_in_the_io_lane_runs_before_tasks_that_were_ready_earlier() {
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
    TaskBuilder::new().lane(Lane::Urgent).spawn_on(&event_loop, add("urgent")).unwrap();
    event_loop.run_until_idle().unwrap();
    log.assert(["urgent", "normal", "urgent", "normal"]);
}

#[test]
fn with_io_first_an_io_call_runs_in_the_current_iteration() {
    for io_first in [false, true] {
        let event_loop = Builder::new().io_first(io_first).build().unwrap();
        let log = Log::new();
        let (inner, inside) = (event_loop.clone(), log.clone());
        event_loop
            .call_soon(move || drop(inner.call_soon_in(Lane::Urgent, inside.adder("urgent")).unwrap()))
            .unwrap();
        event_loop.call_soon(log.adder("normal")).unwrap();
        event_loop.run_until_idle().unwrap();
        log.assert(if io_first { ["urgent", "normal"] } else { ["normal", "urgent"] });
    }
}
