//! `TaskGroup`: tasks that end together.
//!
//! # Rules
//!
//! - *Open* until a child or the body has failed, and the scope has handled it. That is in the next iteration, as in
//!   asyncio, so that failures of one iteration are reported together. Then *aborting*: all children are cancelled, the
//!   body is dropped, and new tasks are refused. *Ended* when the scope has ended or was dropped.
//! - A child is in the list from before its first step until its future is dropped. The scope ends when the list is
//!   empty and the body is dropped, so nothing of a group runs after its scope.
//! - The error of a child goes to the group only: its [`Task`] is cancelled.

mod error;
mod scope;

pub use error::{ChildError, GroupError};

use super::cell::{ResultSink, TaskRef};
use super::spawn::start_task;
use super::{JoinError, Task, TaskHandle};
use crate::event_loop::{Core, EventLoop, ExceptionContext};
use crate::panics::{catch, catch_payload};
use scope::{EndOnDrop, Scope};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Waker;

/// Tasks that end together. Created by [`TaskGroup::scope`], as by `async with` in asyncio.
///
/// Clones are the same group, so that children can add more tasks. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::TaskGroup;
/// use std::convert::Infallible;
///
/// # mainspring::run(async {
/// let total = TaskGroup::scope(|group: TaskGroup<Infallible>| async move {
///     assert!(group.is_empty());
///     let tasks = [1, 2, 3].map(|number| group.spawn_ok(async move { number * 10 }));
///     assert_eq!(group.len(), 3);
///     let mut total = 0;
///     for task in tasks {
///         total += task.await.unwrap_or(0);
///     }
///     Ok(total)
/// });
/// assert_eq!(total.await.unwrap(), 60);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TaskGroup<E> {
    group: Rc<Group<E>>,
}

struct Group<E> {
    core: Weak<Core>,
    stage: Cell<GroupStage>,
    children: RefCell<Slab<TaskHandle>>,
    errors: RefCell<Vec<ChildError<E>>>,
    /// The task that awaits the scope.
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupStage {
    Open,
    Aborting,
    Ended,
}

impl<E: 'static> TaskGroup<E> {
    /// Runs `body` with a new group until the body and all tasks of the group have ended. Returns the body's output,
    /// or all failures.
    ///
    /// If a task of the group or the body fails (returns an `Err`, or panics), the body and all other tasks are
    /// cancelled, and new tasks are refused. A cancelled task is not a failure.
    ///
    /// # Panics
    ///
    /// If it is polled outside of a mainspring loop.
    ///
    /// Cancel safety: all tasks of the group are cancelled. Their futures are dropped in the next iteration of the
    /// loop. Failures so far are lost, except panics, which go to the exception handler.
    ///
    /// ```
    /// use mainspring::TaskGroup;
    /// use std::num::ParseIntError;
    ///
    /// # mainspring::run(async {
    /// let sum = TaskGroup::scope(|group| async move {
    ///     let one = group.spawn(async { "1".parse::<i32>() });
    ///     let two = group.spawn(async { "2".parse::<i32>() });
    ///     Ok::<_, ParseIntError>(one.await.unwrap_or(0) + two.await.unwrap_or(0))
    /// });
    /// assert_eq!(sum.await.unwrap(), 3);
    ///
    /// let failed = TaskGroup::scope(|group| async move {
    ///     group.spawn(async { "three".parse::<i32>() });
    ///     group.spawn(std::future::pending::<Result<(), _>>());
    ///     Ok(())
    /// });
    /// let error = failed.await.unwrap_err();
    /// assert_eq!(error.errors().len(), 1);
    /// assert_eq!(error.to_string(), "Task-3 failed: invalid digit found in string");
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn scope<R, F>(body: impl FnOnce(TaskGroup<E>) -> F) -> Result<R, GroupError<E>>
    where
        F: IntoFuture<Output = Result<R, E>>,
    {
        let group = Rc::new(Group {
            core: Rc::downgrade(EventLoop::current().core()),
            stage: Cell::new(GroupStage::Open),
            children: RefCell::default(),
            errors: RefCell::default(),
            waker: Cell::new(None),
        });
        // Ends the group when this future is dropped or done.
        let end = EndOnDrop::new(&group);
        let handle = TaskGroup { group: Rc::clone(&group) };
        let result = {
            let future = group.catch(|| body(handle).into_future());
            let body = pin!(future);
            let mut scope = Scope::new(&group, body);
            poll_fn(move |cx| scope.poll(cx)).await
        };
        let errors = group.errors.take();
        drop(end);
        match result {
            Some(result) if errors.is_empty() => Ok(result),
            _ => Err(GroupError::new(errors)),
        }
    }

    /// Runs `future` as a task of the group. Its error goes to the group; the [`Task`] is then cancelled.
    ///
    /// A group that is ending, after a failure or the end of its scope, refuses tasks: the future is dropped at once,
    /// and the task is [refused](JoinError::is_refused).
    ///
    /// ```
    /// use mainspring::TaskGroup;
    ///
    /// # mainspring::run(async {
    /// // Children may have children.
    /// let result = TaskGroup::scope(|group| async move {
    ///     let group_clone = group.clone();
    ///     let parent = group.spawn(async move {
    ///         let child = group_clone.spawn(async { Ok("a grandchild") });
    ///         Ok(child.await.unwrap_or("nobody"))
    ///     });
    ///     Ok::<_, std::io::Error>(parent.await.unwrap_or("nobody"))
    /// });
    /// assert_eq!(result.await.unwrap(), "a grandchild");
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "create_task")]
    #[track_caller]
    pub fn spawn<T, F>(&self, future: F) -> Task<T>
    where
        T: 'static,
        F: IntoFuture<IntoFuture: 'static, Output = Result<T, E>>,
    {
        let future = future.into_future();
        let core = self.group.core.upgrade();
        let is_open = self.group.stage.get() == GroupStage::Open;
        let Some(core) = core.as_ref().filter(|core| is_open && core.check_open().is_ok()) else {
            drop(future);
            return Task { state: TaskRef::refused(core.as_ref()) };
        };
        let sink = |task: &TaskRef<T>| {
            let index = self.group.children.borrow_mut().insert(TaskHandle(task.any().clone()));
            let group = Rc::clone(&self.group);
            ChildSink { group, index: Cell::new(Some(index)), _marker: PhantomData }
        };
        start_task(core, sink, future)
    }

    /// [`TaskGroup::spawn`] for futures that cannot fail.
    ///
    /// ```
    /// use mainspring::TaskGroup;
    /// use std::convert::Infallible;
    ///
    /// # mainspring::run(async {
    /// let result = TaskGroup::scope(|group| async move {
    ///     let answer = group.spawn_ok(async { 6 * 7 });
    ///     Ok::<_, Infallible>(answer.await.unwrap_or_default())
    /// });
    /// assert_eq!(result.await.unwrap(), 42);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn spawn_ok<F>(&self, future: F) -> Task<F::Output>
    where
        F: IntoFuture<IntoFuture: 'static, Output: 'static>,
    {
        let future = future.into_future();
        self.spawn(async move { Ok(future.await) })
    }

    /// Cancels the current tasks of the group. That is not a failure: the body continues, and can add more.
    ///
    /// ```
    /// use mainspring::TaskGroup;
    /// use std::convert::Infallible;
    /// use std::future::pending;
    ///
    /// # mainspring::run(async {
    /// let result = TaskGroup::scope(|group| async move {
    ///     group.spawn_ok(pending::<()>());
    ///     group.cancel_children();
    ///     Ok::<_, Infallible>("over")
    /// });
    /// assert_eq!(result.await.unwrap(), "over");
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn cancel_children(&self) {
        self.group.cancel_children();
    }

    /// The number of tasks of the group that are not done.
    pub fn len(&self) -> usize {
        self.group.children.borrow().len()
    }

    /// Whether all tasks of the group are done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<E: 'static> Group<E> {
    /// Records a failure; the scope then ends the group. After the scope, a panic is reported.
    fn fail(&self, error: ChildError<E>) {
        if self.stage.get() == GroupStage::Ended {
            return self.discard_error(error);
        }
        self.errors.borrow_mut().push(error);
    }

    fn has_failed(&self) -> bool {
        !self.errors.borrow().is_empty()
    }

    /// Runs a part of the body. A panic is a failure of the group.
    fn catch<T>(&self, part: impl FnOnce() -> T) -> Option<T> {
        let fail = |payload| self.fail(ChildError::Panicked(JoinError::panicked(None, payload)));
        catch_payload(part).map_err(fail).ok()
    }

    fn cancel_children(&self) {
        let mut children: Vec<_> = self.children.borrow().iter().map(|(_, child)| child.clone()).collect();
        // In the order of creation, regardless of the index.
        children.sort_by_key(TaskHandle::id);
        for child in children {
            child.cancel();
        }
    }

    fn remove(&self, index: usize) {
        let child = self.children.borrow_mut().try_remove(index);
        drop(child);
    }

    /// Wakes the scope if it has something to do.
    fn wake_if_due(&self) {
        let is_due = self.has_failed() || self.children.borrow().is_empty();
        if is_due && let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Drops a failure that no caller receives. A panic is reported.
    fn discard_error(&self, error: ChildError<E>) {
        if let ChildError::Panicked(error) = &error
            && let Some(core) = self.core.upgrade()
        {
            let text = error.panic_text().unwrap_or_default().to_owned();
            let message = "A task of a group that was dropped panicked";
            core.call_exception_handler(&ExceptionContext::from_panic(message, text));
        }
        // A user value. Its drop is caught, because a panic may be in progress.
        if let Err(text) = catch(|| drop(error))
            && let Some(core) = self.core.upgrade()
        {
            core.call_exception_handler(&ExceptionContext::from_panic("A destructor panicked", text));
        }
    }
}

/// Passes the output of a child to its task, and its failure to the group.
struct ChildSink<T, E: 'static> {
    group: Rc<Group<E>>,
    /// `None` after it was removed from the group.
    index: Cell<Option<usize>>,
    _marker: PhantomData<T>,
}

impl<T: 'static, E: 'static> ResultSink for ChildSink<T, E> {
    type Output = Result<T, E>;
    type Value = T;

    fn settle(&self, task: &TaskRef<T>, result: Result<Result<T, E>, JoinError>) {
        let name = || task.header.task_name();
        let result = match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                self.group.fail(ChildError::Failed { task: Some(name().to_string()), error });
                Err(JoinError::cancelled(Some(name())))
            }
            Err(error) if error.is_panic() => {
                self.group.fail(ChildError::Panicked(error));
                Err(JoinError::cancelled(Some(name())))
            }
            Err(error) => Err(error),
        };
        self.remove_from_group();
        task.settle(result);
        task.header.catch(|| self.group.wake_if_due());
    }
}

impl<T, E: 'static> ChildSink<T, E> {
    fn remove_from_group(&self) {
        if let Some(index) = self.index.take() {
            self.group.remove(index);
        }
    }
}

/// Also removes a child that was never started because the task factory panicked.
impl<T, E: 'static> Drop for ChildSink<T, E> {
    fn drop(&mut self) {
        if self.index.get().is_some() {
            self.remove_from_group();
            self.group.wake_if_due();
        }
    }
}

impl<E> Clone for TaskGroup<E> {
    fn clone(&self) -> Self {
        TaskGroup { group: Rc::clone(&self.group) }
    }
}

impl<E> fmt::Debug for TaskGroup<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("stage", &self.group.stage.get())
            .field("tasks", &self.group.children.borrow().len())
            .finish_non_exhaustive()
    }
}
