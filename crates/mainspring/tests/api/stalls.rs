//! Stalls: calls that block the loop are reported while they do.

use crate::support::{collect_reports, new_loop, run_on};
use mainspring::{EventLoop, Stall, TaskBuilder, spawn, spawn_named};
use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(5);
/// A report that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reports of a loop.
#[derive(Clone)]
struct Reports(Rc<Receiver<Stall>>);

impl Reports {
    fn of(event_loop: &EventLoop) -> Self {
        let (sender, receiver) = channel();
        event_loop.watch_stalls(LIMIT, move |stall| drop(sender.send(stall.clone()))).unwrap();
        Reports(Rc::new(receiver))
    }

    /// Blocks until the loop is reported to be blocked. Reports of other calls, on a slow machine, are skipped.
    fn block(&self) -> Stall {
        loop {
            let stall = self.next();
            if stall.total.is_none() {
                return stall;
            }
        }
    }

    fn next(&self) -> Stall {
        self.0.recv_timeout(PATIENCE).unwrap()
    }
}

#[test]
fn a_task_is_reported_while_it_blocks_and_when_it_has_returned() {
    let event_loop = new_loop();
    let reports = Reports::of(&event_loop);
    let blocking = reports.clone();
    let here = Location::caller();
    let task = TaskBuilder::new().name("culprit").spawn_on(&event_loop, async move { blocking.block() });
    let stall = run_on(&event_loop, task.unwrap()).unwrap();
    assert_eq!(stall.task_name.as_deref(), Some("culprit"));
    let location = stall.spawned_at.unwrap();
    assert_eq!((location.file(), location.line()), (here.file(), here.line() + 1));
    assert!(stall.elapsed >= LIMIT);
    let ended = reports.next();
    assert_eq!((&ended.task_name, ended.elapsed), (&stall.task_name, stall.elapsed));
    assert!(ended.total.unwrap() >= stall.elapsed);
    let [begun, ended] = [stall, ended].map(|stall| stall.to_string());
    assert!(begun.contains("has been blocked for") && begun.contains("a step of culprit, spawned at"));
    assert!(ended.contains("was blocked for"), "{ended}");
    assert!(event_loop.counters().stalls >= 1);
}

#[test]
fn calls_and_the_main_future_are_reported_without_a_task() {
    let event_loop = new_loop();
    let reports = Reports::of(&event_loop);
    let (blocking, seen) = (reports.clone(), Rc::new(Cell::new(None)));
    let found = Rc::clone(&seen);
    event_loop.call_soon(move || found.set(Some(blocking.block()))).unwrap();
    event_loop.run_until_idle().unwrap();
    let stall = seen.take().unwrap();
    assert_eq!((stall.call, &stall.task_name), ("a callback", &None));
    assert!(stall.to_string().ends_with("by a callback"), "{stall}");
    let main = event_loop.run_until_complete(async { reports.block() }).unwrap();
    assert_eq!(main.call, "the main future");
}

#[test]
fn tasks_from_before_the_watch_and_new_names_are_known() {
    let event_loop = new_loop();
    let names = run_on(&event_loop, async {
        let gate = Rc::new(mainspring::sync::Event::new());
        let early = {
            let gate = Rc::clone(&gate);
            spawn_named("early", async move {
                gate.wait().await;
                mainspring::current_task().unwrap().set_name("renamed");
            })
        };
        mainspring::yield_now().await;
        let reports = Reports::of(&EventLoop::current());
        let (first, second) = (reports.clone(), reports.clone());
        let late = spawn(async move {
            mainspring::current_task().unwrap().set_name("late");
            first.block().task_name
        });
        let late = late.await.unwrap();
        gate.set();
        early.await.unwrap();
        let last = spawn_named("last", async move { second.block().task_name });
        [late, last.await.unwrap()]
    });
    assert_eq!(names.map(|name| name.unwrap()), ["late", "last"]);
}

#[test]
fn a_panic_of_the_report_goes_to_the_exception_handler() {
    let event_loop = new_loop();
    let failures = collect_reports(&event_loop);
    let (sender, receiver) = channel();
    event_loop
        .watch_stalls(LIMIT, move |stall| {
            let _ = sender.send(stall.total.is_some());
            panic!("out of luck");
        })
        .unwrap();
    event_loop.call_soon(move || while receiver.recv_timeout(PATIENCE).unwrap() {}).unwrap();
    let _alive = event_loop.remote().keep_alive();
    while failures.entries().is_empty() {
        event_loop.run_once().unwrap();
    }
    assert!(failures.entries()[0].starts_with("The report of a stall panicked: panic: out of luck"));
}

#[test]
fn the_watch_ends_with_the_loop_or_earlier() {
    for closes in [true, false] {
        let event_loop = new_loop();
        let (sender, receiver) = channel::<()>();
        event_loop.watch_stalls(LIMIT, move |_| sender.send(()).unwrap_or_default()).unwrap();
        if closes {
            event_loop.close().unwrap();
            assert!(event_loop.watch_stalls(LIMIT, |_| ()).is_err());
        } else {
            event_loop.unwatch_stalls();
        }
        // The thread drops the closure with its sender.
        while receiver.recv_timeout(PATIENCE) == Ok(()) {}
        assert!(receiver.recv().is_err());
    }
}

#[test]
fn the_origin_of_a_task_is_known_however_it_was_spawned() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let here = Location::caller().line();
        let plain = spawn(async {});
        let built = TaskBuilder::new().spawn(async {});
        let mut set = mainspring::JoinSet::new();
        let member = set.spawn(async {});
        let lines = [plain.handle(), built.handle(), member].map(|task| task.spawned_at().line() - here);
        assert_eq!(lines, [1, 2, 4]);
        let group = mainspring::TaskGroup::scope(|group| async move {
            let child = group.spawn(async { Ok::<_, std::io::Error>(()) });
            Ok(child.handle().spawned_at().line() - here)
        });
        assert_eq!(group.await.unwrap(), 8);
        let all = EventLoop::current().all_tasks();
        assert!(all.iter().all(|task| task.spawned_at().file() == file!()));
        plain.await.unwrap();
        built.await.unwrap();
    });
}
