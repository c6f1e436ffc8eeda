//! `CatchUnwind`: the future of a task, with its panics caught.
//!
//! Whatever the future does when it is polled or dropped, its task's [`ResultSink`] gets exactly one result, after the
//! future is dropped. `async-task` itself would abort the process if a future panicked in its destructor.

use super::state::TaskState;
use super::{JoinError, current_task};
use crate::event_loop::{Core, wake_step};
use crate::host::{Canceller, Step, TaskMetadata};
use crate::lane::Priority;
use crate::panics::{catch, catch_payload};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Receives the result of a task's future.
pub(super) trait ResultSink {
    /// The output of the future.
    type Output;
    /// The output of the task.
    type Value: 'static;

    fn state(&self) -> &Rc<TaskState<Self::Value>>;

    /// Takes the result, once. Runs foreign code.
    fn settle(&self, result: Result<Self::Output, JoinError>);
}

/// The output of the task is that of its future.
impl<T: 'static> ResultSink for Rc<TaskState<T>> {
    type Output = T;
    type Value = T;

    fn state(&self) -> &Rc<TaskState<T>> {
        self
    }

    fn settle(&self, result: Result<T, JoinError>) {
        TaskState::settle(self, result);
    }
}

/// `repr(C)`: `sink`, which every step reads, comes before the future, which may be large, and next to the header of
/// the task cell.
#[repr(C)]
pub(super) struct CatchUnwind<F: Future, S: ResultSink<Output = F::Output>> {
    sink: S,
    /// Pinned with this struct: never moved, only dropped in place. `None` when it is done.
    future: Option<F>,
}

impl<F: Future, S: ResultSink<Output = F::Output>> CatchUnwind<F, S> {
    pub(super) fn new(future: F, sink: S) -> Self {
        CatchUnwind { sink, future: Some(future) }
    }

    fn project(self: Pin<&mut Self>) -> (Pin<&mut Option<F>>, &S) {
        // SAFETY: `future` is pinned whenever this struct is: nothing here moves it, the struct is `Unpin` only if
        // `F` is, and its `Drop` only uses it through this function. `sink` is not pinned, and only lent.
        unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &this.sink)
        }
    }

    /// Drops the future and passes the result to the sink. If the destructor panics, that panic is the result.
    fn settle(self: Pin<&mut Self>, result: Result<F::Output, JoinError>) {
        let (mut future, sink) = self.project();
        let task = sink.state();
        let dropped = catch_payload(|| current_task::run_as_current(task, || future.set(None)));
        let result = match dropped {
            Ok(()) => result,
            Err(payload) => {
                // The output is also a user value.
                let _ = catch(|| drop(result));
                Err(JoinError::panicked(Some(task.header.task_name()), payload))
            }
        };
        // Wakes a task, or drops an unwanted output: foreign code in both cases.
        if let Err(text) = catch(|| sink.settle(result)) {
            task.header.report(&text);
        }
        // Drops the context variables with the future, not with the last handle.
        if let Some(variables) = task.header.context.take()
            && let Err(text) = catch(|| drop(variables))
        {
            task.header.report(&text);
        }
    }
}

impl<F: Future, S: ResultSink<Output = F::Output>> Future for CatchUnwind<F, S> {
    type Output = ();

    // Inlined into the step of the task.
    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (future, sink) = self.as_mut().project();
        let task = sink.state();
        let polled = match future.as_pin_mut() {
            Some(future) => catch_payload(|| current_task::run_as_current(task, || future.poll(cx))),
            None => return Poll::Ready(()),
        };
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::panicked(Some(task.header.task_name()), payload)),
        };
        self.settle(result);
        Poll::Ready(())
    }
}

impl<F: Future, S: ResultSink<Output = F::Output>> Drop for CatchUnwind<F, S> {
    fn drop(&mut self) {
        if self.future.is_some() {
            let error = JoinError::cancelled(Some(self.sink.state().header.task_name()));
            // SAFETY: a value that is being dropped is not moved again.
            let this = unsafe { Pin::new_unchecked(self) };
            this.settle(Err(error));
        }
    }
}

/// Allocates the cell of a task: the future, the state of its wakers, and the metadata for scheduling.
pub(super) fn allocate_task<F, S>(
    core: &Core,
    priority: Priority,
    future: CatchUnwind<F, S>,
) -> (Step, Canceller)
where
    F: Future + 'static,
    S: ResultSink<Output = F::Output> + 'static,
{
    let metadata =
        TaskMetadata::new(Arc::clone(core.inbox()), future.sink.state().header.id().number(), priority);
    let builder = async_task::Builder::new().metadata(metadata);
    // SAFETY: the future stays on this thread. Each wake passes the step to `wake_step`. On this thread that pushes it
    // to the ready queue; on another thread, to the inbox, which is drained on this thread only. If the inbox of a
    // closed loop refuses the step, it is leaked: neither run nor dropped. The future and `wake_step` are `'static`,
    // and `wake_step` is a plain function that any thread may call. (`spawn_local` would check the thread at every
    // step.)
    unsafe { builder.spawn_unchecked(|_| future, wake_step) }
}
