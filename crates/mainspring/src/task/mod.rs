//! Tasks: futures that the loop runs.
//!
//! A task is one allocation ([`cell`]): its future, its result, and the state of its wakers ([`waker`]). Each step is a
//! call like any other: a wake on the loop's thread adds it to the ready queue, a wake on another thread to the inbox.
//!
//! # Rules
//!
//! - The future is polled and dropped on the loop's thread only, and its panics are caught.
//! - The core lists all tasks that are not done, and keeps them. The user's [`Task`] only references the result. So
//!   dropping a `Task` detaches it, and closing the loop ends all tasks.
//! - A panic whose result is never taken is reported to the exception handler.

#[allow(unsafe_code, reason = "one allocation per task, with references of several types")]
mod cell;
#[allow(unsafe_code, reason = "allocates and frees memory")]
mod cell_pool;
pub mod context;
#[allow(unsafe_code, reason = "an uncounted pointer to the current task")]
mod current_task;
mod factory;
mod gather;
mod group;
mod join;
mod join_error;
mod join_set;
mod shield;
mod spawn;
mod state;
mod task_handle;
mod wait;
mod wait_reason;
mod wake_queue;
#[allow(unsafe_code, reason = "raw wakers")]
mod waker;
mod waker_state;

pub use current_task::current_task;
pub use gather::{AsCompleted, as_completed, gather, race, try_gather};
pub use group::{ChildError, GroupError, TaskGroup};
pub use join::{Either, Join, TryJoin, join, select, try_join};
pub use join_error::JoinError;
pub use join_set::JoinSet;
pub use shield::{shield, yield_now};
pub use spawn::{TaskBuilder, spawn, spawn_named};
pub use state::TaskId;
pub use task_handle::TaskHandle;
pub use wait::{ReturnWhen, try_wait, wait, wait_for};

pub(crate) use cell::{AnyTask, Step};
pub(crate) use cell_pool::CellPool;
pub(crate) use current_task::{current_background_task, record_wait, suspend as suspend_current_task};
pub(crate) use factory::FactorySlot;
pub(crate) use state::TaskName;
pub(crate) use wait_reason::{WaitReason, named, waits_for};
pub(crate) use waker::WokenTask;

use cell::TaskRef;
use state::{Phase, Progress};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of a task, for a task factory: see [`EventLoop::set_task_factory`](crate::EventLoop::set_task_factory).
///
/// It stays on its thread (`!Send`), as every task does.
///
/// ```
/// use mainspring::{EventLoop, TaskFuture};
///
/// let event_loop = EventLoop::new()?;
/// event_loop.set_task_factory(|task, future| -> TaskFuture {
///     let name = task.name();
///     Box::pin(async move {
///         future.await;
///         println!("{name} has run to its end");
///     })
/// });
/// let task = event_loop.spawn(async { 6 * 7 })?;
/// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// A future that runs on the loop, and access to its result. See [`spawn`].
///
/// Dropping it detaches the task, as in asyncio. Awaiting it returns the result, once. `&mut task` can be awaited as
/// well, to stop waiting and keep the task. It stays on its thread (`!Send`).
///
/// Cancel safety: nothing is lost while the `Task` is kept.
///
/// ```
/// use mainspring::{sleep, spawn, timeout};
/// use std::time::Duration;
///
/// # let virtual_time = |builder: mainspring::Builder| builder.clock(mainspring::testing::VirtualClock::default());
/// # mainspring::Runner::new().configure(virtual_time).run(async {
/// let mut task = spawn(async {
///     sleep(Duration::from_millis(5)).await;
///     "done"
/// });
/// task.set_name("sleeper");
/// assert_eq!((task.name().as_str(), task.id().to_string().as_str()), ("sleeper", "1"));
/// assert!(timeout(Duration::from_millis(1), &mut task).await.is_err());
/// assert!(!task.is_finished());
/// assert_eq!(task.await, Ok("done"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Task<T> {
    state: TaskRef<T>,
}

impl<T> Task<T> {
    /// Cancels the task: its future is dropped in the next iteration, and awaiting the task returns a cancelled
    /// [`JoinError`]. Returns `false` if the task is done, or was cancelled before.
    ///
    /// A task can cancel itself: it ends at its next `await`.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let task = mainspring::spawn(std::future::pending::<()>());
    /// assert!(task.cancel());
    /// assert!(!task.cancel(), "once is enough");
    /// mainspring::yield_now().await;
    /// assert!(task.cancelled());
    /// assert!(task.await.unwrap_err().is_cancelled());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        self.state.any().cancel()
    }

    /// Whether the task is done and was cancelled.
    pub fn cancelled(&self) -> bool {
        self.state.header.phase() == Phase::Cancelled
    }

    /// Whether the task is done: finished, panicked or cancelled.
    #[doc(alias = "done")]
    pub fn is_finished(&self) -> bool {
        self.state.header.is_done()
    }

    /// The identifier of the task, unique on its loop.
    pub fn id(&self) -> TaskId {
        self.state.header.id()
    }

    /// The task's name: the one it was given, or `Task-1` and so on.
    pub fn name(&self) -> String {
        self.state.header.task_name().to_string()
    }

    /// Sets the task's name, for messages.
    pub fn set_name(&self, name: impl Into<String>) {
        self.state.header.set_name(name.into());
    }
}

impl<T: 'static> Task<T> {
    /// The task without its result: to cancel it, or to get a callback when it is done.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let task = mainspring::spawn(std::future::pending::<()>());
    /// let handle = task.handle();
    /// drop(task);
    /// assert!(!handle.is_finished(), "it runs on");
    /// assert!(handle.cancel());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "abort_handle")]
    pub fn handle(&self) -> TaskHandle {
        TaskHandle(self.state.any().clone())
    }

    /// Calls `callback` in the iteration after the task is done, or in the next one if it is done already. It is called
    /// however the task ended.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let ended = Rc::new(RefCell::new(Vec::new()));
    /// let captured = Rc::clone(&ended);
    /// let task = mainspring::spawn_named("worker", async {});
    /// task.add_done_callback(move |task| captured.borrow_mut().push(task.name()));
    /// task.await.unwrap();
    /// mainspring::yield_now().await;
    /// assert_eq!(*ended.borrow(), ["worker"]);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_done_callback(&self, callback: impl FnOnce(&TaskHandle) + 'static) {
        self.handle().add_done_callback(callback);
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.poll_done(cx).is_pending() {
            return Poll::Pending;
        }
        match self.state.progress.replace(Progress::Taken) {
            Progress::Finished(result) => Poll::Ready(result),
            // Polled again after it was ready, which no `await` does.
            _ => Poll::Pending,
        }
    }
}

impl<T> Task<T> {
    /// Waits for the result without taking it.
    fn poll_done(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &*self.state.progress.borrow() {
            Progress::Running(Some(waiting)) if waiting.will_wake(cx.waker()) => {
                WaitReason::Task(self.id()).set();
                return Poll::Pending;
            }
            Progress::Running(_) => {}
            Progress::Finished(_) | Progress::Taken => return Poll::Ready(()),
        }
        // Cloning runs foreign code: check again afterwards.
        let waker = cx.waker().clone();
        let former = match &mut *self.state.progress.borrow_mut() {
            Progress::Running(waiting) => waiting.replace(waker),
            Progress::Finished(_) | Progress::Taken => return Poll::Ready(()),
        };
        drop(former);
        WaitReason::Task(self.id()).set();
        Poll::Pending
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.state.header.is_detached.set(true);
        let progress = std::mem::replace(&mut *self.state.progress.borrow_mut(), Progress::Taken);
        match progress {
            Progress::Running(waiting) => {
                *self.state.progress.borrow_mut() = Progress::Running(None);
                drop(waiting);
            }
            Progress::Finished(Err(error)) if error.is_panic() => {
                self.state.header.report(error.panic_text().unwrap_or_default());
            }
            other => drop(other),
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut task = f.debug_struct("Task");
        self.state.header.debug_fields(&mut task);
        task.finish_non_exhaustive()
    }
}
