//! `TaskHandle`: a task without its result.

use super::TaskId;
use super::cell::AnyTask;
use super::state::Phase;
use crate::event_loop::EventLoop;
use std::fmt;
use std::panic::Location;

/// A task without its result: to cancel it, to query it, or to get a callback when it is done.
///
/// Clones refer to the same task. It neither keeps the task running nor takes its result, and it stays on its thread
/// (`!Send`). tokio's `AbortHandle`.
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn(std::future::pending::<()>());
/// let handle = task.handle();
/// mainspring::spawn(async move { handle.cancel() });
/// assert!(task.await.unwrap_err().is_cancelled());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// Its methods:
///
/// ```
/// use std::{cell::RefCell, rc::Rc};
///
/// # mainspring::run(async {
/// let task = mainspring::spawn(async { panic!("out of luck") });
/// let handle = task.handle();
/// handle.set_name("gambler");
/// let ended = Rc::new(RefCell::new(String::new()));
/// let captured = Rc::clone(&ended);
/// handle.add_done_callback(move |task| *captured.borrow_mut() = task.name());
/// assert!(!handle.is_finished());
///
/// let error: mainspring::JoinError = task.await.map(|_: ()| ()).unwrap_err();
/// assert!(handle.is_finished() && handle.panicked() && !handle.cancelled());
/// assert_eq!(error.id(), Some(handle.id()));
/// mainspring::yield_now().await;
/// assert_eq!(*ended.borrow(), "gambler");
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "AbortHandle")]
pub struct TaskHandle(pub(super) AnyTask);

impl TaskHandle {
    /// Cancels the task. See [`Task::cancel`](crate::Task::cancel).
    pub fn cancel(&self) -> bool {
        self.0.cancel()
    }

    /// Whether the task is done: finished, panicked or cancelled.
    #[doc(alias = "done")]
    pub fn is_finished(&self) -> bool {
        self.0.header().is_done()
    }

    /// Whether the task is done and was cancelled.
    pub fn cancelled(&self) -> bool {
        self.0.header().phase() == Phase::Cancelled
    }

    /// Whether the task panicked.
    pub fn panicked(&self) -> bool {
        self.0.header().phase() == Phase::Panicked
    }

    /// The identifier of the task, unique on its loop.
    pub fn id(&self) -> TaskId {
        self.0.header().id()
    }

    /// The task's name: the one it was given, or `Task-1` and so on.
    pub fn name(&self) -> String {
        self.0.header().task_name().to_string()
    }

    /// Sets the task's name, for messages.
    pub fn set_name(&self, name: impl Into<String>) {
        self.0.header().set_name(name.into());
    }

    /// Where the task was spawned.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let task = mainspring::spawn(async {});
    /// assert_eq!(task.handle().spawned_at().file(), file!());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.0.header().spawned_at()
    }

    /// If the task is in the background lane, moves its next step to the normal lane.
    pub(crate) fn promote(&self) {
        let header = self.0.header();
        if let Some(core) = header.core() {
            header.promote(&core);
        }
    }

    /// Calls `callback` when the task is done. See [`Task::add_done_callback`](crate::Task::add_done_callback).
    pub fn add_done_callback(&self, callback: impl FnOnce(&TaskHandle) + 'static) {
        self.call_when_done(Box::new(callback));
    }
}

impl PartialEq for TaskHandle {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }
}

impl Eq for TaskHandle {}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut task = f.debug_struct("TaskHandle");
        self.0.header().debug_fields(&mut task);
        task.finish_non_exhaustive()
    }
}

impl EventLoop {
    /// The tasks of this loop that are not done, in the order of creation.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let tasks = ["a", "b"].map(|name| mainspring::spawn_named(name, async {}));
    /// let names: Vec<_> = event_loop.all_tasks().iter().map(|task| task.name()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// for task in tasks {
    ///     task.await.unwrap();
    /// }
    /// assert_eq!(event_loop.all_tasks(), []);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn all_tasks(&self) -> Vec<TaskHandle> {
        let mut tasks: Vec<_> = self.core().all_tasks().into_iter().map(TaskHandle).collect();
        tasks.sort_by_key(TaskHandle::id);
        tasks
    }
}
