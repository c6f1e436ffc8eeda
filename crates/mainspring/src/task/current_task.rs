//! The task whose step runs on this thread.
//!
//! A pointer in a thread-local, set around every step and every drop of a task's future. It does not count as a
//! reference: that would cost every step, and few steps need it.

use super::cell::{AnyTask, TaskHead};
use super::{TaskHandle, WaitReason};
use crate::lane::Lane;
use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    static CURRENT: Cell<Option<NonNull<TaskHead>>> = const { Cell::new(None) };
}

/// Runs a step of `task`, or a destructor.
pub(super) fn run_as_current<R>(task: &AnyTask, step: impl FnOnce() -> R) -> R {
    struct Restore(Option<NonNull<TaskHead>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    // The pointer is removed from the thread-local before this function returns or unwinds, while `task` is still
    // borrowed.
    let _restore = Restore(CURRENT.replace(Some(task.as_ptr())));
    step()
}

/// There is no current task until the result is dropped: a step runs the loop.
pub(crate) fn suspend() -> impl Drop + use<> {
    struct Restore(Option<NonNull<TaskHead>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            // The function that set this pointer is still further down on this stack.
            CURRENT.set(self.0);
        }
    }
    Restore(CURRENT.take())
}

/// The task whose step runs.
pub(super) fn current() -> Option<TaskHandle> {
    let pointer = CURRENT.get()?;
    // SAFETY: the pointer is that of a reference which `run_as_current`, further down on this stack, borrows while the
    // pointer is in the thread-local. So the task is alive, and this is its thread.
    Some(TaskHandle(unsafe { AnyTask::from_ptr(pointer) }))
}

/// The task whose step runs on this thread. `None` in a callback, in the future of
/// [`EventLoop::run_until_complete`](crate::EventLoop::run_until_complete) and [`run`](crate::run), and outside of
/// loops.
///
/// A destructor that runs because its task ended or was cancelled belongs to that task.
///
/// ```
/// # mainspring::run(async {
/// assert!(mainspring::current_task().is_none());
/// let task = mainspring::spawn_named("reader", async {
///     mainspring::current_task().map(|task| task.name())
/// });
/// assert_eq!(task.await.unwrap().as_deref(), Some("reader"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn current_task() -> Option<TaskHandle> {
    current()
}

/// The current task, if it is in the background lane.
pub(crate) fn current_background_task() -> Option<TaskHandle> {
    let is_background =
        with_current(|task| task.is_some_and(|task| task.header().lane() == Lane::Background));
    is_background.then(current).flatten()
}

/// The step of the current task waits. Records what it waits for.
pub(crate) fn record_wait(reason: Option<WaitReason>) {
    with_current(|task| {
        if let Some(task) = task {
            task.header().record_wait(reason);
        }
    });
}

/// Passes the current task to `f`, without a reference count.
pub(super) fn with_current<R>(f: impl FnOnce(Option<&AnyTask>) -> R) -> R {
    // SAFETY: as in `current`. `f` returns before any function further down on this stack does.
    let task = CURRENT.get().map(|pointer| unsafe { AnyTask::borrowed(pointer) });
    f(task.as_deref())
}
