//! The task factory: a hook that sees each new task, and may wrap its future.

use super::state::{AnyTask, TaskState};
use super::{TaskFuture, TaskHandle};
use crate::event_loop::EventLoop;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

type Make = dyn Fn(&TaskHandle, TaskFuture) -> TaskFuture;

/// Where a loop has its factory.
#[derive(Default)]
pub(crate) struct FactorySlot(RefCell<Option<Factory>>);

#[derive(Clone)]
pub(super) struct Factory(Rc<Make>);

impl FactorySlot {
    #[inline]
    pub(super) fn get(&self) -> Option<Factory> {
        self.0.borrow().clone()
    }

    fn set(&self, factory: Option<Factory>) {
        let former = self.0.replace(factory);
        drop(former);
    }
}

impl Factory {
    /// Has the factory make what the task `state` is to run in place of `future`.
    pub(super) fn make<T: 'static, O: 'static>(
        &self,
        state: &Rc<TaskState<T>>,
        future: impl Future<Output = O> + 'static,
    ) -> Made<O> {
        let handle = TaskHandle(Rc::clone(state) as Rc<dyn AnyTask>);
        let output = Rc::new(Cell::new(None));
        let result = Rc::clone(&output);
        let plain: TaskFuture = Box::pin(async move {
            let output = future.await;
            result.set(Some(output));
        });
        Made { future: (self.0)(&handle, plain), output, task: handle }
    }
}

/// What a factory made of a future.
pub(super) struct Made<O> {
    future: TaskFuture,
    /// Where the future inside leaves what it gives.
    output: Rc<Cell<Option<O>>>,
    task: TaskHandle,
}

impl<O> Future for Made<O> {
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        if self.future.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        match self.output.take() {
            Some(output) => Poll::Ready(output),
            // The factory's future has ended without the one inside, so there is nothing to give.
            None => {
                self.task.cancel();
                Poll::Pending
            }
        }
    }
}

impl EventLoop {
    /// Has `factory` see each new task before its first step. What it returns runs as the task: the future it was
    /// given, or one around it. asyncio's `set_task_factory`, as far as it goes in Rust.
    ///
    /// The future it is given runs the task's own and gives nothing; the task's result does not pass through the
    /// factory. If the factory's future ends without having run that one to its end, the task is cancelled. A
    /// panic of the factory comes out of the call that was to start the task, which then does not exist.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let (begun, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    /// let counts = (Rc::clone(&begun), Rc::clone(&ended));
    /// event_loop.set_task_factory(move |task, future| {
    ///     counts.0.set(counts.0.get() + 1);
    ///     let ended = Rc::clone(&counts.1);
    ///     task.add_done_callback(move |_| ended.set(ended.get() + 1));
    ///     future
    /// });
    /// let task = event_loop.spawn(async { 6 * 7 })?;
    /// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
    /// assert_eq!((begun.get(), ended.get()), (1, 1));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_task_factory(&self, factory: impl Fn(&TaskHandle, TaskFuture) -> TaskFuture + 'static) {
        self.core().task_factory.set(Some(Factory(Rc::new(factory))));
    }

    /// Starts tasks as a new loop does.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let begun = Rc::new(Cell::new(0));
    /// let count = Rc::clone(&begun);
    /// event_loop.set_task_factory(move |_, future| {
    ///     count.set(count.get() + 1);
    ///     future
    /// });
    /// event_loop.spawn(async {})?;
    /// event_loop.reset_task_factory();
    /// event_loop.spawn(async {})?;
    /// assert_eq!(begun.get(), 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reset_task_factory(&self) {
        self.core().task_factory.set(None);
    }
}
