//! Tasks: futures that the loop runs.
//!
//! A task is one future in one allocation of `async-task`, which also makes its wakers. A step of it is a call
//! like any other: woken on the loop's thread it goes to the end of what is ready, woken from another thread
//! through the inbox.
//!
//! # Rules
//!
//! - The future is polled and dropped on the loop's thread only, and nothing it panics with comes out of it
//!   ([`guarded`]).
//! - The core lists each task that is not done, and each of those holds what cancels it ([`state`]). The user's
//!   [`Task`] only has the state that the result goes to. So dropping a `Task` lets the task run on, and closing
//!   the loop ends all of them.
//! - A task that panicked and whose result nobody took is reported to the exception handler.

#[allow(unsafe_code, reason = "pin projection; a task cell whose steps stay on their thread")]
mod catch_unwind;
pub mod context;
#[allow(unsafe_code, reason = "a pointer to the current task that does not count")]
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
mod wake_queue;

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

pub(crate) use factory::FactorySlot;
pub(crate) use state::{AnyTask, TaskName};

use state::{Phase, Progress, TaskState};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What runs as a task, for a task factory: see [`EventLoop::set_task_factory`](crate::EventLoop::set_task_factory).
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

/// A future that runs on the loop, and the way to its result. See [`spawn`].
///
/// Dropping it lets the task run on, as in asyncio. Awaiting it gives the result, once; `&mut task` can be awaited
/// too, by those who may want to give up waiting and keep the task. It stays on its thread (`!Send`).
///
/// Cancel safety: giving up waiting loses nothing, as long as the `Task` is kept.
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
    state: Rc<TaskState<T>>,
}

impl<T> Task<T> {
    /// Ends the task where it stands: its future is dropped in the next pass, with everything in it, and awaiting the
    /// task gives a [`JoinError`] that says so. `false` if it is done already, or is being cancelled.
    ///
    /// A task may cancel itself: it ends at its next `await`.
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
        self.state.meta.cancel()
    }

    /// Whether the task was cancelled, and is done.
    pub fn cancelled(&self) -> bool {
        self.state.meta.phase() == Phase::Cancelled
    }

    /// Whether the task is done: finished, panicked or cancelled.
    #[doc(alias = "done")]
    pub fn is_finished(&self) -> bool {
        self.state.meta.is_done()
    }

    /// Which task of its loop it is.
    pub fn id(&self) -> TaskId {
        self.state.meta.id()
    }

    /// The task's name: `Task-1` and so on, or what it was given.
    pub fn name(&self) -> String {
        self.state.meta.task_name().to_string()
    }

    /// Names the task, for messages.
    pub fn set_name(&self, name: impl Into<String>) {
        self.state.meta.set_name(name.into());
    }
}

impl<T: 'static> Task<T> {
    /// The task without its result: for those who are to cancel it, or to hear of its end.
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
        TaskHandle(Rc::clone(&self.state) as Rc<dyn AnyTask>)
    }

    /// Has `callback` called in the pass after the one in which the task is done; in the next one if it is already.
    /// It is told which task that was, however that ended.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let ended = Rc::new(RefCell::new(Vec::new()));
    /// let inside = Rc::clone(&ended);
    /// let task = mainspring::spawn_named("worker", async {});
    /// task.add_done_callback(move |task| inside.borrow_mut().push(task.name()));
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
            Progress::Running(Some(waiting)) if waiting.will_wake(cx.waker()) => return Poll::Pending,
            Progress::Running(_) => {}
            Progress::Finished(_) | Progress::Taken => return Poll::Ready(()),
        }
        // Cloning is foreign code, after which things may stand otherwise.
        let waker = cx.waker().clone();
        let former = match &mut *self.state.progress.borrow_mut() {
            Progress::Running(waiting) => waiting.replace(waker),
            Progress::Finished(_) | Progress::Taken => return Poll::Ready(()),
        };
        drop(former);
        Poll::Pending
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.state.meta.is_detached.set(true);
        let progress = std::mem::replace(&mut *self.state.progress.borrow_mut(), Progress::Taken);
        match progress {
            Progress::Running(waiting) => {
                *self.state.progress.borrow_mut() = Progress::Running(None);
                drop(waiting);
            }
            Progress::Finished(Err(error)) if error.is_panic() => {
                self.state.meta.report(error.panic_text().unwrap_or_default());
            }
            other => drop(other),
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("name", &self.name())
            .field("phase", &self.state.meta.phase())
            .finish_non_exhaustive()
    }
}
