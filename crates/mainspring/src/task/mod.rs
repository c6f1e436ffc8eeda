//! Tasks: futures that the loop runs.
//!
//! A task is one future in one allocation of `async-task`, which also makes its wakers. A step of it is a call
//! like any other: woken on the loop's thread it goes to the end of what is ready, woken from another thread
//! through the inbox.
//!
//! # Rules
//!
//! - The future is polled and dropped on the loop's thread only, and nothing it panics with comes out of it
//!   ([`Guarded`]).
//! - The core holds what cancels each task that is not done, the user's [`Task`] only the [`State`] that the
//!   result goes to. So dropping a `Task` lets the task run on, and closing the loop ends all of them.
//! - A task that panicked and whose result nobody took is reported to the exception handler.

mod guarded;
mod join_error;

pub use join_error::JoinError;

use crate::event_loop::{Core, ExceptionContext, wake_call};
use crate::host::{Call, Inbound};
use guarded::Guarded;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A future that runs on the loop, and the way to its result. See [`spawn`].
///
/// Dropping it lets the task run on, as in asyncio. Awaiting it gives the result, once.
pub struct Task<T> {
    state: Rc<State<T>>,
}

/// What a task and its handle share.
struct State<T> {
    core: Weak<Core>,
    number: u64,
    name: RefCell<Option<String>>,
    /// Where the core has what cancels the task.
    slot: Cell<Option<usize>>,
    progress: RefCell<Progress<T>>,
    /// Nobody is going to ask for the result.
    is_detached: Cell<bool>,
}

enum Progress<T> {
    Running(Option<Waker>),
    Finished(Result<T, JoinError>),
    Taken,
}

/// Runs `future` as a task on the loop that runs on this thread: it takes its first step in the next pass.
///
/// # Panics
///
/// If no loop runs on this thread. [`EventLoop::spawn`](crate::EventLoop::spawn) needs none to run.
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn(async { 6 * 7 });
/// assert_eq!(task.await, Ok(42));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: IntoFuture<IntoFuture: 'static, Output: 'static>,
{
    Task::start(crate::EventLoop::current().core(), future.into_future())
}

impl<T: 'static> Task<T> {
    /// Starts a task on a loop that is open.
    pub(crate) fn start(core: &Rc<Core>, future: impl Future<Output = T> + 'static) -> Self {
        let number = core.tasks_made.get() + 1;
        core.tasks_made.set(number);
        let state = Rc::new(State {
            core: Rc::downgrade(core),
            number,
            name: RefCell::new(None),
            slot: Cell::new(None),
            progress: RefCell::new(Progress::Running(None)),
            is_detached: Cell::new(false),
        });
        core.live_futures.set(core.live_futures.get() + 1);
        let guarded = Guarded::new(future, Rc::clone(&state));
        let inbox = Arc::clone(core.inbox());
        let schedule = move |step| {
            // A closed loop has no use for it: the future is dropped with the step, or was before.
            let _ = wake_call(&inbox, Inbound::Task(step));
        };
        let (step, task) = async_task::spawn_local(guarded, schedule);
        state.slot.set(Some(core.keep_task(number, task)));
        core.engine.call_soon(Call::Task(step));
        Task { state }
    }
}

impl<T> Task<T> {
    /// Ends the task where it stands: its future is dropped in the next pass, and awaiting it gives
    /// [`JoinError::Cancelled`]. `false` if it is done already, or is being cancelled.
    pub fn cancel(&self) -> bool {
        let Some(slot) = self.state.slot.take() else { return false };
        let Some(core) = self.state.core.upgrade() else { return false };
        // Dropping it cancels.
        core.take_task(slot, self.state.number).map(drop).is_some()
    }

    /// Whether the task is done: finished, panicked or cancelled.
    pub fn is_finished(&self) -> bool {
        !matches!(*self.state.progress.borrow(), Progress::Running(_))
    }

    /// The task's name: `Task-1` and so on, or what [`Task::set_name`] gave.
    pub fn name(&self) -> String {
        self.state.name()
    }

    /// Names the task, for messages.
    pub fn set_name(&self, name: impl Into<String>) {
        let name = name.into();
        *self.state.name.borrow_mut() = Some(name);
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let mut progress = self.state.progress.borrow_mut();
        if let Progress::Running(waiting) = &mut *progress {
            let former = waiting.replace(waker);
            drop(progress);
            drop(former);
            return Poll::Pending;
        }
        let taken = std::mem::replace(&mut *progress, Progress::Taken);
        drop(progress);
        match taken {
            Progress::Finished(result) => Poll::Ready(result),
            // Polled again after it was ready, which no `await` does.
            _ => Poll::Pending,
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.state.is_detached.set(true);
        let progress = std::mem::replace(&mut *self.state.progress.borrow_mut(), Progress::Taken);
        match progress {
            Progress::Running(waiting) => {
                *self.state.progress.borrow_mut() = Progress::Running(None);
                drop(waiting);
            }
            Progress::Finished(Err(JoinError::Panicked(text))) => self.state.report(text),
            other => drop(other),
        }
    }
}

impl<T> State<T> {
    fn name(&self) -> String {
        self.name.borrow().clone().unwrap_or_else(|| format!("Task-{}", self.number))
    }

    /// Sets the result, once; called by the future's wrapper when the future is gone.
    fn settle(&self, result: Result<T, JoinError>) {
        if let Some(core) = self.core.upgrade() {
            core.live_futures.set(core.live_futures.get().saturating_sub(1));
            let slot = self.slot.take();
            if let Some(task) = slot.and_then(|slot| core.take_task(slot, self.number)) {
                task.detach();
            }
        }
        if self.is_detached.get() {
            match result {
                Err(JoinError::Panicked(text)) => self.report(text),
                unwanted => drop(unwanted),
            }
            return;
        }
        let former = self.progress.replace(Progress::Finished(result));
        if let Progress::Running(Some(waker)) = former {
            waker.wake();
        }
    }

    fn report(&self, text: String) {
        if let Some(core) = self.core.upgrade() {
            let message = format!("{} panicked, and nobody asked for its result", self.name());
            core.call_exception_handler(&ExceptionContext::of_panic(&message, text));
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("name", &self.name())
            .field("finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
