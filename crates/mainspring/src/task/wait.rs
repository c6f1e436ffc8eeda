//! `wait` and `wait_for`, as asyncio's.

use super::state::Progress;
use super::wake_queue::WakeQueue;
use super::{JoinError, Task};
use crate::time::{Elapsed, sleep, timeout};
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

/// When [`wait`] and [`try_wait`] return.
///
/// ```
/// use mainspring::{ReturnWhen, spawn, wait};
/// use std::future::pending;
///
/// # mainspring::run(async {
/// let tasks = || [spawn(async {}), spawn(async { panic!("out of luck") }), spawn(pending())];
/// let (done, _) = wait(tasks(), ReturnWhen::FirstException, None).await;
/// assert_eq!(done.len(), 2);
///
/// let tasks = tasks().into_iter().take(2);
/// let (done, _) = wait(tasks, ReturnWhen::AllCompleted, None).await;
/// assert_eq!(done.len(), 2);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnWhen {
    /// When one task is done, however it ended.
    FirstCompleted,
    /// When one task has failed, or all are done. A panic is a failure; for [`try_wait`] so is an `Err`. A cancellation
    /// is not.
    FirstException,
    /// When all tasks are done.
    AllCompleted,
}

/// Waits for tasks, for at most `limit`. Returns those that are done and those that are not, both in order. asyncio's
/// `wait`.
///
/// The tasks are not cancelled, neither at the limit nor if the wait is dropped. Awaiting a task that is done returns
/// its result at once.
///
/// Cancel safety: the `Task`s are dropped, so they are detached and their results are lost.
///
/// # Panics
///
/// With a limit, if it is polled outside of a mainspring loop.
///
/// ```
/// use mainspring::{ReturnWhen, sleep, spawn, wait};
/// use std::time::Duration;
///
/// # let virtual_time = |builder: mainspring::Builder| builder.clock(mainspring::testing::VirtualClock::default());
/// # mainspring::Runner::new().configure(virtual_time).run(async {
/// let tasks = [100, 1, 200].map(|delay| {
///     spawn(async move {
///         sleep(Duration::from_millis(delay)).await;
///         delay
///     })
/// });
/// let (done, pending) = wait(tasks, ReturnWhen::FirstCompleted, None).await;
/// assert_eq!((done.len(), pending.len()), (1, 2));
/// for task in done {
///     assert_eq!(task.await, Ok(1));
/// }
/// for task in pending {
///     task.cancel();
/// }
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn wait<T>(
    tasks: impl IntoIterator<Item = Task<T>>,
    return_when: ReturnWhen,
    limit: Option<Duration>,
) -> (Vec<Task<T>>, Vec<Task<T>>) {
    wait_until(tasks, return_when, limit, |result| result.is_err_and(JoinError::is_panic)).await
}

/// [`wait`] for tasks that return a `Result`: an `Err` counts as an exception.
///
/// Cancel safety: as [`wait`].
///
/// # Panics
///
/// As [`wait`].
///
/// ```
/// use mainspring::{ReturnWhen, spawn, try_wait};
/// use std::future::pending;
///
/// # mainspring::run(async {
/// let tasks = [spawn(async { Err("no bread") }), spawn(async { Ok(()) }), spawn(pending())];
/// let (done, pending) = try_wait(tasks, ReturnWhen::FirstException, None).await;
/// assert_eq!((done.len(), pending.len()), (2, 1));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn try_wait<T, E>(
    tasks: impl IntoIterator<Item = Task<Result<T, E>>>,
    return_when: ReturnWhen,
    limit: Option<Duration>,
) -> (Vec<Task<Result<T, E>>>, Vec<Task<Result<T, E>>>) {
    let is_failure =
        |result: Result<&Result<T, E>, &JoinError>| result.map_or_else(JoinError::is_panic, Result::is_err);
    wait_until(tasks, return_when, limit, is_failure).await
}

/// Waits. `is_failure` runs no foreign code.
async fn wait_until<T>(
    tasks: impl IntoIterator<Item = Task<T>>,
    return_when: ReturnWhen,
    limit: Option<Duration>,
    is_failure: impl Fn(Result<&T, &JoinError>) -> bool,
) -> (Vec<Task<T>>, Vec<Task<T>>) {
    let tasks: Vec<_> = tasks.into_iter().collect();
    let mut queue = WakeQueue::new(tasks.len());
    let mut pending = tasks.len();
    let mut deadline = limit.map(sleep);
    poll_fn(|cx| {
        queue.begin_step(cx.waker());
        let mut has_enough = false;
        // All tasks are checked, even if one is enough, so that all that are done are returned as done.
        while let Some((number, waker)) = queue.next() {
            let Some(task) = tasks.get(number) else { continue };
            if task.poll_done(&mut Context::from_waker(waker)).is_ready() {
                pending -= 1;
                has_enough |= match (return_when, &*task.state.progress.borrow()) {
                    (ReturnWhen::FirstCompleted, _) => true,
                    (ReturnWhen::FirstException, Progress::Finished(result)) => is_failure(result.as_ref()),
                    // A result that was taken does not count.
                    _ => false,
                };
            }
        }
        if has_enough || pending == 0 {
            return Poll::Ready(());
        }
        deadline.as_mut().map_or(Poll::Pending, |time| time.poll_deadline(cx))
    })
    .await;
    tasks.into_iter().partition(Task::is_finished)
}

/// [`timeout`] with asyncio's name and argument order. Without a limit it waits forever.
///
/// # Panics
///
/// With a limit, if it is polled outside of a mainspring loop.
///
/// Cancel safety: the future is dropped.
///
/// ```
/// use mainspring::wait_for;
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// assert_eq!(wait_for(async { 6 * 7 }, Some(Duration::from_secs(1))).await, Ok(42));
/// assert_eq!(wait_for(async { 6 * 7 }, None).await, Ok(42));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn wait_for<F: IntoFuture>(future: F, limit: Option<Duration>) -> Result<F::Output, Elapsed> {
    match limit {
        Some(limit) => timeout(limit, future).await,
        None => Ok(future.await),
    }
}
