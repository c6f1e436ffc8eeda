//! `JoinSet`: tasks whose results are taken in the order of completion.
//!
//! # Rules
//!
//! - A task is in the set from spawning until its result is taken. Its index is recorded once, when its future is
//!   dropped. So a set that is not polled keeps results, but no futures of finished tasks.
//! - The tasks share the record ([`Finished`]). Detached tasks keep the old record, so their entries do not reach the
//!   set.

use super::cell::{ResultSink, TaskRef};
use super::spawn::start_task;
use super::{JoinError, Task, TaskHandle};
use crate::event_loop::EventLoop;
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tasks of one type whose results are taken in the order of completion, such as the connections of a server. Tasks
/// can be added at any time. tokio's `JoinSet`.
///
/// A task that fails does not affect the others: its result is an error. In a [`TaskGroup`](crate::TaskGroup) tasks
/// fail together.
///
/// Dropping the set cancels its tasks; their futures are dropped in the next iteration of the loop. It is also a
/// `Stream`, and stays on its thread (`!Send`).
///
/// ```
/// use mainspring::net::{TcpListener, TcpStream};
/// use mainspring::{Either, JoinSet, select};
///
/// # mainspring::run(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// # let client = TcpStream::connect(listener.local_addr()).await?;
/// # client.write_all(b"the client").await?;
/// # client.shutdown();
/// let mut connections = JoinSet::new();
/// let served = loop {
///     // A set that is empty has nothing to wait for.
///     let ended = async {
///         match connections.join_next().await {
///             Some(ended) => ended,
///             None => std::future::pending().await,
///         }
///     };
///     match select(listener.accept(), ended).await {
///         Either::First(accepted) => {
///             let (stream, _) = accepted?;
///             connections.spawn(async move { stream.read_to_end().await });
///         }
///         Either::Second(ended) => break ended.unwrap()?,
///     }
/// };
/// assert_eq!(served, b"the client");
/// connections.shutdown().await;
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping a set cancels its tasks"]
pub struct JoinSet<T> {
    tasks: Slab<Task<T>>,
    finished: Rc<Finished>,
}

/// The indexes of tasks that are done and not taken, in the order of completion, and the task that waits for one.
#[derive(Default)]
struct Finished {
    indexes: RefCell<VecDeque<usize>>,
    waker: Cell<Option<Waker>>,
}

impl<T: 'static> JoinSet<T> {
    /// A set without tasks.
    pub fn new() -> Self {
        JoinSet { tasks: Slab::new(), finished: Rc::default() }
    }

    /// Runs `future` as a task of the set, on the current loop. The handle can cancel and name it.
    ///
    /// # Panics
    ///
    /// If no loop runs on this thread.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// tasks.spawn(async { 6 * 7 });
    /// tasks.spawn(std::future::pending()).cancel();
    /// let mut results = vec![tasks.join_next().await, tasks.join_next().await];
    /// results.sort_by_key(|result| matches!(result, Some(Err(_))));
    /// assert_eq!(results[0], Some(Ok(42)));
    /// assert!(results[1].as_ref().unwrap().as_ref().unwrap_err().is_cancelled());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "spawn_local")]
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> TaskHandle
    where
        F: IntoFuture<IntoFuture: 'static, Output = T>,
    {
        let event_loop = EventLoop::current();
        // The following may panic; the task is then not in the set.
        let index = self.tasks.vacant_key();
        let sink = MemberSink { finished: Rc::clone(&self.finished), index, _marker: PhantomData };
        let task = start_task(event_loop.core(), |_| sink, future.into_future());
        let handle = task.handle();
        self.tasks.insert(task);
        handle
    }

    /// The result of the next task that is done. `None` if the set is empty.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// assert!(tasks.join_next().await.is_none());
    /// tasks.spawn(async { "done" });
    /// assert_eq!(tasks.join_next().await, Some(Ok("done")));
    /// assert!(tasks.join_next().await.is_none());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// The result of a task that is done. `None` if no task is.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// tasks.spawn(async { "done" });
    /// assert!(tasks.try_join_next().is_none(), "it has not begun");
    /// mainspring::yield_now().await;
    /// assert_eq!(tasks.try_join_next(), Some(Ok("done")));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.take_finished().map(take_result)
    }

    /// The poll function of [`join_next`](JoinSet::join_next). The task that polled last is woken.
    ///
    /// ```
    /// use std::future::poll_fn;
    ///
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// tasks.spawn(async { "done" });
    /// assert_eq!(poll_fn(|cx| tasks.poll_join_next(cx)).await, Some(Ok("done")));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_finished(cx).map(|task| task.map(take_result))
    }

    /// Cancels all tasks of the set. They stay in it until their results are taken.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// tasks.spawn(std::future::pending::<()>());
    /// tasks.cancel_all();
    /// assert!(tasks.join_next().await.unwrap().unwrap_err().is_cancelled());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "abort_all")]
    pub fn cancel_all(&self) {
        // Oldest first, regardless of the index.
        let mut tasks: Vec<_> = self.tasks.iter().map(|(_, task)| task).collect();
        tasks.sort_by_key(|task| task.id());
        for task in tasks {
            task.cancel();
        }
    }

    /// Cancels all tasks of the set and waits until they are done. Their results are dropped; panics are reported to
    /// the exception handler.
    ///
    /// Cancel safety: the remaining tasks stay in the set, cancelled.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// let task = tasks.spawn(std::future::pending::<()>());
    /// tasks.shutdown().await;
    /// assert!(task.cancelled() && tasks.is_empty());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn shutdown(&mut self) {
        self.cancel_all();
        while let Some(task) = poll_fn(|cx| self.poll_finished(cx)).await {
            // Dropped with its result: a task reports a panic that was not taken.
            drop(task);
        }
    }

    /// Removes all tasks from the set and lets them continue.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// let task = tasks.spawn(std::future::pending::<()>());
    /// tasks.detach_all();
    /// drop(tasks);
    /// mainspring::yield_now().await;
    /// assert!(!task.is_finished());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn detach_all(&mut self) {
        self.finished = Rc::default();
        let tasks = std::mem::take(&mut self.tasks);
        drop(tasks);
    }
}

impl<T> JoinSet<T> {
    fn poll_finished(&mut self, cx: &mut Context<'_>) -> Poll<Option<Task<T>>> {
        // Foreign code, so it comes before the check.
        let waker = cx.waker().clone();
        if let Some(task) = self.take_finished() {
            return Poll::Ready(Some(task));
        }
        if self.tasks.is_empty() {
            return Poll::Ready(None);
        }
        let former = self.finished.waker.replace(Some(waker));
        drop(former);
        Poll::Pending
    }

    fn take_finished(&mut self) -> Option<Task<T>> {
        let index = self.finished.indexes.borrow_mut().pop_front()?;
        self.tasks.try_remove(index)
    }

    /// The number of tasks in the set: running ones, and those whose results were not taken.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut tasks = mainspring::JoinSet::new();
    /// tasks.spawn(async {});
    /// mainspring::yield_now().await;
    /// assert_eq!(tasks.len(), 1, "it is done, and its result still there");
    /// tasks.join_next().await;
    /// assert!(tasks.is_empty());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether the set has no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

/// The result of a task that is done and was not taken.
fn take_result<T>(mut task: Task<T>) -> Result<T, JoinError> {
    match Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(JoinError::cancelled(None)),
    }
}

/// Passes the result of a task to the task, and its index to the set.
struct MemberSink<T> {
    finished: Rc<Finished>,
    index: usize,
    _marker: PhantomData<T>,
}

impl<T: 'static> ResultSink for MemberSink<T> {
    type Output = T;
    type Value = T;

    fn settle(&self, task: &TaskRef<T>, result: Result<T, JoinError>) {
        task.settle(result);
        self.finished.indexes.borrow_mut().push_back(self.index);
        if let Some(waker) = self.finished.waker.take() {
            task.header.catch(|| waker.wake());
        }
    }
}

impl<T: 'static> futures_core::Stream for JoinSet<T> {
    type Item = Result<T, JoinError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_join_next(cx)
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        for (_, task) in &self.tasks {
            task.cancel();
        }
    }
}

impl<T: 'static> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}
