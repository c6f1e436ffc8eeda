//! Task handles, names, done callbacks, the current task, `all_tasks`.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::{
    EventLoop, JoinError, Task, TaskBuilder, TaskHandle, current_task, spawn, spawn_named, yield_now,
};
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

fn spawn_pending(event_loop: &EventLoop) -> Task<()> {
    let task = event_loop.spawn(pending::<()>()).unwrap();
    run_one_iteration(event_loop);
    task
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_handle_cancels_its_task() {
    let event_loop = new_loop();
    let task = spawn_pending(&event_loop);
    let handle = task.handle();
    assert!(!handle.cancelled() && !handle.is_finished());
    assert!(handle.clone().cancel());
    assert!(!handle.cancel() && !task.cancel(), "already being cancelled");
    assert!(!handle.cancelled(), "not before its future is dropped");
    run_one_iteration(&event_loop);
    assert!(handle.cancelled() && task.cancelled() && handle.is_finished());
    assert!(run_on(&event_loop, task).unwrap_err().is_cancelled());
    assert!(handle.cancelled(), "still after the result was taken");
}

#[test]
fn a_handle_may_outlive_its_task_and_loop() {
    let event_loop = new_loop();
    let handle = spawn_pending(&event_loop).handle();
    drop(event_loop);
    assert!(handle.cancelled() && !handle.cancel());
    assert_eq!(handle.name(), "Task-1");
    handle.add_done_callback(|_| unreachable!("no loop to call it"));
}

#[test]
fn a_handle_shows_how_its_task_ended() {
    let event_loop = new_loop();
    let finished = event_loop.spawn(async {}).unwrap();
    let panicked = event_loop.spawn(async { panic!("expected") }).unwrap();
    run_one_iteration(&event_loop);
    let ends = [finished.handle(), panicked.handle()].map(|task| (task.cancelled(), task.panicked()));
    assert_eq!(ends, [(false, false), (false, true)]);
    let _: JoinError = run_on(&event_loop, panicked).unwrap_err();
}

#[test]
fn handles_of_the_same_task_are_equal() {
    let event_loop = new_loop();
    let (a, b) = (spawn_pending(&event_loop), spawn_pending(&event_loop));
    assert_eq!(a.handle(), a.handle());
    assert_ne!(a.handle(), b.handle());
    assert!(a.id() < b.id());
}

#[test]
fn names_can_be_set_and_appear_in_error_messages() {
    let event_loop = new_loop();
    let built = TaskBuilder::new().name("built").spawn_on(&event_loop, async { panic!("once") }).unwrap();
    let plain = event_loop.spawn(pending::<()>()).unwrap();
    assert_eq!((built.name().as_str(), plain.name().as_str()), ("built", "Task-2"));
    plain.handle().set_name("renamed");
    assert_eq!(plain.name(), "renamed");
    plain.cancel();
    let errors = run_on(&event_loop, async { (built.await.unwrap_err(), plain.await.unwrap_err()) });
    assert_eq!(errors.0.to_string(), "built panicked: once");
    assert_eq!(errors.1.to_string(), "renamed was cancelled");
}

#[test]
fn a_closed_loop_refuses_a_task_builder() {
    let event_loop = new_loop();
    event_loop.close().unwrap();
    let refused = TaskBuilder::new().spawn_on(&event_loop, async {});
    assert!(matches!(refused, Err(mainspring::Error::Closed)));
}

#[test]
fn a_panic_payload_can_be_taken() {
    let event_loop = new_loop();
    let error = run_on(&event_loop, event_loop.spawn(async { std::panic::panic_any(7_u8) }).unwrap());
    let error: JoinError = error.unwrap_err();
    assert_eq!(error.panic_text(), Some("a value of unknown type"));
    assert_eq!(error.into_panic().downcast_ref::<u8>(), Some(&7));
    let task = spawn_pending(&event_loop);
    task.cancel();
    let error = run_on(&event_loop, task).unwrap_err();
    let error = error.try_into_panic().unwrap_err();
    assert!(error.is_cancelled(), "other errors are returned unchanged");
}

#[test]
fn a_panic_payload_whose_destructor_panics_is_handled() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    // The payload of a panic in a payload's destructor is leaked on purpose.
    test_support::meant_from_here();
    let event_loop = new_loop();
    let task = event_loop.spawn(async { std::panic::panic_any(Bomb) }).unwrap();
    drop(run_on(&event_loop, task));
    let reports = collect_reports(&event_loop);
    drop(event_loop.spawn(async { std::panic::panic_any(Bomb) }).unwrap());
    run_one_iteration(&event_loop);
    assert_eq!(reports.entries().len(), 1);
}

#[test]
fn join_errors_are_send_and_sync() {
    fn is_send_and_sync<T: Send + Sync + std::error::Error + 'static>() {}
    is_send_and_sync::<JoinError>();
}

#[test]
fn done_callbacks_run_in_order_in_the_iteration_after_the_task_ended() {
    let event_loop = new_loop();
    let log = Log::<String>::new();
    let watch = |task: TaskHandle| {
        for word in ["first", "second"] {
            let log = log.clone();
            task.add_done_callback(move |task| {
                assert!(task.is_finished());
                log.add(format!("{word} {} {}", task.name(), task.cancelled()));
            });
        }
    };
    let cancelled = spawn_pending(&event_loop);
    cancelled.set_name("cancelled");
    let panics = TaskBuilder::new().name("panics").spawn_on(&event_loop, async { panic!("seen") }).unwrap();
    watch(cancelled.handle());
    watch(panics.handle());
    cancelled.cancel();
    run_one_iteration(&event_loop);
    log.assert([]);
    run_one_iteration(&event_loop);
    log.assert(
        ["first panics false", "second panics false", "first cancelled true", "second cancelled true"]
            .map(str::to_owned),
    );
    let late = log.clone();
    cancelled.add_done_callback(move |_| late.add("late"));
    assert_eq!(log.entries().len(), 4, "never called synchronously");
    run_one_iteration(&event_loop);
    assert_eq!(log.entries().len(), 5);
    drop(run_on(&event_loop, panics));
}

#[test]
fn a_done_callback_may_cancel_spawn_add_callbacks_and_panic() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let log = Log::new();
    let task = event_loop.spawn(async { "result" }).unwrap();
    let other = spawn_pending(&event_loop);
    let (own, target, inside) = (task.handle(), other.handle(), log.clone());
    task.add_done_callback(move |task| {
        assert!(!own.cancel() && !task.cancel(), "the task is done");
        target.cancel();
        let last = inside.clone();
        task.add_done_callback(move |_| last.add("added by callback"));
        spawn(async move { inside.add("spawned") });
        panic!("callback");
    });
    run_one_iteration(&event_loop);
    reports.assert(["A callback panicked: panic: callback".to_owned()]);
    run_one_iteration(&event_loop);
    log.assert(["added by callback", "spawned"]);
    assert!(other.cancelled());
    assert_eq!(run_on(&event_loop, task), Ok("result"));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_done_callback_lost_because_the_loop_closed_is_reported() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let task = spawn_pending(&event_loop);
    task.add_done_callback(|_| unreachable!());
    event_loop.close().unwrap();
    reports.assert(["Task-1 was done after its loop was closed: its callback is not called".to_owned()]);
}

#[test]
fn current_task_is_set_during_steps_and_destructors() {
    let event_loop = new_loop();
    let log = Log::<Option<String>>::new();
    let log_current = |log: &Log<Option<String>>| log.add(current_task().map(|task| task.name()));
    log_current(&log);
    let inside = log.clone();
    let task = TaskBuilder::new()
        .name("worker")
        .spawn_on(&event_loop, async move {
            let dropped = inside.clone();
            let _on_drop = OnDrop(move || log_current(&dropped));
            log_current(&inside);
            yield_now().await;
            log_current(&inside);
            pending::<()>().await;
        })
        .unwrap();
    run_one_iteration(&event_loop);
    let callback = log.clone();
    event_loop.call_soon(move || log_current(&callback)).unwrap();
    run_one_iteration(&event_loop);
    task.cancel();
    run_one_iteration(&event_loop);
    let worker = || Some("worker".to_owned());
    // The callback was scheduled after the second step.
    log.assert([None, worker(), worker(), None, worker()]);
    run_on(&event_loop, async { assert_eq!(current_task(), None) });
}

#[test]
fn current_task_is_none_after_a_panic() {
    let event_loop = new_loop();
    let task = event_loop.spawn(async { panic!("in a step") }).unwrap();
    run_one_iteration(&event_loop);
    assert_eq!(current_task(), None);
    drop(run_on(&event_loop, task));
}

#[test]
fn a_handle_from_current_task_may_outlive_the_task() {
    let event_loop = new_loop();
    let kept = Rc::new(RefCell::new(None));
    let found = Rc::clone(&kept);
    let task = event_loop.spawn(async move { *found.borrow_mut() = current_task() }).unwrap();
    let id = task.id();
    run_on(&event_loop, task).unwrap();
    drop(event_loop);
    let handle = kept.take().unwrap();
    assert_eq!(handle.id(), id);
    assert!(handle.is_finished());
}

#[test]
fn all_tasks_lists_unfinished_tasks_in_spawn_order() {
    let event_loop = new_loop();
    assert_eq!(event_loop.all_tasks(), []);
    let tasks: Vec<_> = (0..4).map(|_| event_loop.spawn(pending::<()>()).unwrap()).collect();
    run_one_iteration(&event_loop);
    tasks[1].cancel();
    assert_eq!(event_loop.all_tasks().len(), 4, "its future is not dropped yet");
    run_one_iteration(&event_loop);
    // The new task reuses the slot of the second; the order is still the spawn order.
    let late = event_loop.spawn(pending::<()>()).unwrap();
    let expected = [&tasks[0], &tasks[2], &tasks[3], &late].map(Task::handle);
    assert_eq!(event_loop.all_tasks(), expected);
    event_loop.close().unwrap();
    assert_eq!(event_loop.all_tasks(), []);
}

#[test]
fn a_destructor_may_cancel_and_spawn() {
    let event_loop = new_loop();
    let log = Log::new();
    let other = spawn_pending(&event_loop);
    let (target, inside) = (other.handle(), log.clone());
    let task = event_loop
        .spawn(async move {
            let _guard = OnDrop(move || {
                target.cancel();
                current_task().unwrap().cancel();
                let log = inside.clone();
                drop(spawn_named("child", async move { log.add("child") }));
            });
            pending::<()>().await;
        })
        .unwrap();
    run_one_iteration(&event_loop);
    task.cancel();
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    assert!(other.cancelled() && task.cancelled());
    log.assert(["child"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn cancelling_a_done_task_from_its_awaiters_waker_has_no_effect() {
    struct CancelsWhenWoken(std::sync::mpsc::Sender<()>);
    impl std::task::Wake for CancelsWhenWoken {
        fn wake(self: std::sync::Arc<Self>) {
            TASK.with_borrow(|task| assert!(!task.as_ref().unwrap().cancel(), "the task is done"));
            self.0.send(()).unwrap();
        }
    }
    thread_local! {
        static TASK: RefCell<Option<TaskHandle>> = const { RefCell::new(None) };
    }
    let event_loop = new_loop();
    let mut task = event_loop.spawn(async { 1 }).unwrap();
    TASK.set(Some(task.handle()));
    let (sender, woken) = std::sync::mpsc::channel();
    let waker = std::sync::Arc::new(CancelsWhenWoken(sender)).into();
    let polled = Future::poll(std::pin::Pin::new(&mut task), &mut std::task::Context::from_waker(&waker));
    assert!(polled.is_pending());
    run_one_iteration(&event_loop);
    woken.try_recv().unwrap();
    assert_eq!(run_on(&event_loop, task), Ok(1));
    TASK.take();
}

#[test]
fn cancelling_an_await_by_reference_keeps_the_result() {
    let event_loop = new_loop();
    let open = Rc::new(Cell::new(false));
    let gate = Rc::clone(&open);
    let result = run_on(&event_loop, async move {
        let mut task = spawn(async move {
            while !gate.get() {
                yield_now().await;
            }
            "kept"
        });
        assert!(mainspring::timeout(std::time::Duration::ZERO, &mut task).await.is_err());
        open.set(true);
        task.await
    });
    assert_eq!(result, Ok("kept"));
}

#[test]
fn a_task_that_ends_while_its_awaiters_waker_is_cloned_is_ready() {
    use std::task::{RawWaker, RawWakerVTable, Waker};
    thread_local! {
        static LOOP: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
    }
    fn raw() -> RawWaker {
        const TABLE: RawWakerVTable = RawWakerVTable::new(|_| clone_and_close_loop(), |_| (), |_| (), |_| ());
        RawWaker::new(std::ptr::null(), &TABLE)
    }
    fn clone_and_close_loop() -> RawWaker {
        if let Some(event_loop) = LOOP.take() {
            event_loop.close().unwrap();
        }
        raw()
    }
    let event_loop = new_loop();
    let mut task = spawn_pending(&event_loop);
    LOOP.set(Some(event_loop));
    // SAFETY: the data pointer is null and no function of the vtable uses it.
    let waker = unsafe { Waker::from_raw(raw()) };
    let polled = Future::poll(std::pin::Pin::new(&mut task), &mut std::task::Context::from_waker(&waker));
    assert!(matches!(polled, std::task::Poll::Ready(Err(error)) if error.is_cancelled()));
}
