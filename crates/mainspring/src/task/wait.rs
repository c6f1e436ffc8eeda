//! `wait`: some of many tasks are done, which? And `wait_for`, which is about one.

use super::state::Progress;
use super::wake_queue::WakeQueue;
use super::{JoinError, Task};
use crate::time::{Elapsed, sleep, timeout};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// When [`wait`] and [`try_wait`] have waited enough.
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
    /// One task is done, however it ended.
    FirstCompleted,
    /// One task has failed, or all are done. A panic is a failure, and for [`try_wait`] an `Err` is; to be cancelled is
    /// none.
    FirstException,
    /// All tasks are done.
    AllCompleted,
}

/// Waits for tasks, for no longer than `limit`, and sorts them into those that are done and those that are not,
/// both in their order. asyncio's `wait`.
///
/// The tasks are not cancelled, neither at the end of the time nor when the wait is given up. Awaiting one that is
/// done gives its result at once.
///
/// Cancel safety: giving up drops the `Task`s, which run on, but whose results are lost.
///
/// # Panics
///
/// With a limit, when it is polled where no mainspring loop runs.
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

/// [`wait`] for tasks that give a `Result`: an `Err` counts as an exception.
///
/// Cancel safety: as for [`wait`].
///
/// # Panics
///
/// Like [`wait`].
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

/// Does the waiting. `is_failure` runs no foreign code.
async fn wait_until<T>(
    tasks: impl IntoIterator<Item = Task<T>>,
    return_when: ReturnWhen,
    limit: Option<Duration>,
    is_failure: impl Fn(Result<&T, &JoinError>) -> bool,
) -> (Vec<Task<T>>, Vec<Task<T>>) {
    let tasks: Vec<_> = tasks.into_iter().collect();
    let mut queue = WakeQueue::new(tasks.len());
    let mut left = tasks.len();
    let mut time_is_up = pin!(limit.map(sleep));
    poll_fn(|cx| {
        queue.begin_step(cx.waker());
        let mut has_enough = false;
        // To the end, also when one was enough: all that are done are to be among the done.
        while let Some((number, waker)) = queue.next() {
            let Some(task) = tasks.get(number) else { continue };
            if task.poll_done(&mut Context::from_waker(waker)).is_ready() {
                left -= 1;
                has_enough |= match (return_when, &*task.state.progress.borrow()) {
                    (ReturnWhen::FirstCompleted, _) => true,
                    (ReturnWhen::FirstException, Progress::Finished(result)) => is_failure(result.as_ref()),
                    // A result that somebody has taken is no news.
                    _ => false,
                };
            }
        }
        if has_enough || left == 0 {
            return Poll::Ready(());
        }
        time_is_up.as_mut().as_pin_mut().map_or(Poll::Pending, |time| time.poll(cx))
    })
    .await;
    tasks.into_iter().partition(Task::is_finished)
}

/// [`timeout`], with asyncio's name and order of arguments; without a limit it waits for ever.
///
/// # Panics
///
/// With a limit, when it is polled where no mainspring loop runs.
///
/// Cancel safety: giving up drops the future.
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
