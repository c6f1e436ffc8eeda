//! The task factory: a hook that is called for each new task and can wrap its future.

use super::cell::TaskRef;
use super::{TaskFuture, TaskHandle};
use crate::event_loop::EventLoop;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

type FactoryFn = dyn Fn(&TaskHandle, TaskFuture) -> TaskFuture;

/// The factory of a loop.
#[derive(Default)]
pub(crate) struct FactorySlot(RefCell<Option<Factory>>);

#[derive(Clone)]
pub(super) struct Factory(Rc<FactoryFn>);

impl FactorySlot {
    #[inline]
    pub(super) fn get(&self) -> Option<Factory> {
        self.0.borrow().clone()
    }

    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn set(&self, factory: Option<Factory>) {
        let former = self.0.replace(factory);
        drop(former);
    }
}

impl Factory {
    /// Calls the factory with `future`. Returns the future that the task runs.
    pub(super) fn wrap<T: 'static, O: 'static>(
        &self,
        task: &TaskRef<T>,
        future: impl Future<Output = O> + 'static,
    ) -> FactoryFuture<O> {
        let handle = TaskHandle(task.any().clone());
        let output = Rc::new(Cell::new(None));
        let result = Rc::clone(&output);
        let inner: TaskFuture = Box::pin(async move {
            let output = future.await;
            result.set(Some(output));
        });
        FactoryFuture { future: (self.0)(&handle, inner), output, task: handle }
    }
}

/// The future that a factory returned.
pub(super) struct FactoryFuture<O> {
    future: TaskFuture,
    /// Where the inner future stores its output.
    output: Rc<Cell<Option<O>>>,
    task: TaskHandle,
}

impl<O> Future for FactoryFuture<O> {
    type Output = O;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        if self.future.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        match self.output.take() {
            Some(output) => Poll::Ready(output),
            // The factory's future has ended before the inner one, so there is no output.
            None => {
                self.task.cancel();
                Poll::Pending
            }
        }
    }
}

impl EventLoop {
    /// Calls `factory` for each new task before its first step. The task runs the future that it returns: the one it
    /// was given, or one that wraps it. asyncio's `set_task_factory`, as far as Rust allows.
    ///
    /// The future that the factory is given runs the task's own and has no output: the result does not pass through the
    /// factory. If the factory's future ends before the inner future, the task is cancelled. If the factory panics, the
    /// call that starts the task panics, and the task does not exist.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let (started, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    /// let counts = (Rc::clone(&started), Rc::clone(&ended));
    /// event_loop.set_task_factory(move |task, future| {
    ///     counts.0.set(counts.0.get() + 1);
    ///     let ended = Rc::clone(&counts.1);
    ///     task.add_done_callback(move |_| ended.set(ended.get() + 1));
    ///     future
    /// });
    /// let task = event_loop.spawn(async { 6 * 7 })?;
    /// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
    /// assert_eq!((started.get(), ended.get()), (1, 1));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_task_factory(&self, factory: impl Fn(&TaskHandle, TaskFuture) -> TaskFuture + 'static) {
        self.core().task_factory.set(Some(Factory(Rc::new(factory))));
    }

    /// Removes the task factory.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let started = Rc::new(Cell::new(0));
    /// let count = Rc::clone(&started);
    /// event_loop.set_task_factory(move |_, future| {
    ///     count.set(count.get() + 1);
    ///     future
    /// });
    /// event_loop.spawn(async {})?;
    /// event_loop.reset_task_factory();
    /// event_loop.spawn(async {})?;
    /// assert_eq!(started.get(), 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reset_task_factory(&self) {
        self.core().task_factory.set(None);
    }
}
