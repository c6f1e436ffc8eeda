//! Many futures of one type, inside one task: [`gather`], [`try_gather`], [`race`], [`as_completed`].
//!
//! The futures are not tasks, so they may borrow, and dropping the combined future drops them. Each has its own waker
//! ([`WakeQueue`]), so a step polls only those that were woken.

use super::wake_queue::WakeQueue;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Futures that are not done, by index.
struct PendingFutures<F> {
    futures: Vec<Option<Pin<Box<F>>>>,
    queue: WakeQueue,
    pending: usize,
}

impl<F: Future> PendingFutures<F> {
    fn new(futures: impl IntoIterator<Item: IntoFuture<IntoFuture = F>>) -> Self {
        let futures: Vec<_> =
            futures.into_iter().map(|future| Some(Box::pin(future.into_future()))).collect();
        PendingFutures { queue: WakeQueue::new(futures.len()), pending: futures.len(), futures }
    }

    /// Begins a step of the task.
    fn begin_step(&mut self, task: &Waker) {
        self.queue.begin_step(task);
    }

    /// Polls woken futures until one is ready. `None` if no more are woken in this step.
    fn next_done(&mut self) -> Option<(usize, F::Output)> {
        while let Some((number, waker)) = self.queue.next() {
            let Some(slot) = self.futures.get_mut(number) else { continue };
            let Some(future) = slot else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                let done = slot.take();
                self.pending -= 1;
                drop(done);
                return Some((number, output));
            }
        }
        None
    }
}

/// Awaits all `futures` concurrently. Returns their outputs in the order of the futures.
///
/// asyncio's `gather`; with futures that return a `Result`, the one with `return_exceptions=True`. Nothing is
/// spawned: the futures are polled within the awaiting task, and may borrow from it. To run them as tasks, spawn them
/// first. If one panics, this panics.
///
/// Cancel safety: the futures and the outputs so far are dropped. Tasks among them continue.
///
/// ```
/// use mainspring::{gather, sleep};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let words = ["one", "two", "three"];
/// let lengths = gather(words.iter().map(|word| async {
///     sleep(Duration::from_millis(1)).await;
///     word.len()
/// }));
/// assert_eq!(lengths.await, [3, 3, 5]);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "join_all")]
pub async fn gather<I: IntoIterator<Item: IntoFuture>>(futures: I) -> Vec<<I::Item as IntoFuture>::Output> {
    match collect(futures, Ok::<_, Infallible>).await {
        Ok(outputs) => outputs,
        Err(never) => match never {},
    }
}

/// Awaits all `futures` concurrently until one fails. Returns their outputs in order, or the first error; the others
/// are then dropped.
///
/// asyncio's `gather` lets the others continue. See [`gather`].
///
/// Cancel safety: the futures and the outputs so far are dropped.
///
/// ```
/// use mainspring::try_gather;
///
/// # mainspring::run(async {
/// let numbers = try_gather(["1", "2"].map(|text| async move { text.parse::<i32>() })).await;
/// assert_eq!(numbers, Ok(vec![1, 2]));
/// let numbers = try_gather(["1", "two"].map(|text| async move { text.parse::<i32>() })).await;
/// assert!(numbers.is_err());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "try_join_all")]
pub async fn try_gather<I, T, E>(futures: I) -> Result<Vec<T>, E>
where
    I: IntoIterator<Item: IntoFuture<Output = Result<T, E>>>,
{
    collect(futures, |result| result).await
}

async fn collect<I, T, E>(
    futures: I,
    to_result: impl Fn(<I::Item as IntoFuture>::Output) -> Result<T, E>,
) -> Result<Vec<T>, E>
where
    I: IntoIterator<Item: IntoFuture>,
{
    let mut set = PendingFutures::new(futures);
    let mut outputs: Vec<_> = set.futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        set.begin_step(cx.waker());
        while let Some((number, output)) = set.next_done() {
            match (to_result(output), outputs.get_mut(number)) {
                (Err(error), _) => return Poll::Ready(Err(error)),
                (Ok(output), Some(slot)) => *slot = Some(output),
                (Ok(_), None) => {}
            }
        }
        if set.pending > 0 {
            return Poll::Pending;
        }
        Poll::Ready(Ok(std::mem::take(&mut outputs).into_iter().flatten().collect()))
    })
    .await
}

/// Awaits the first of `futures` that is ready, and drops the others. `None` if there are none.
///
/// If several are ready in the same step, the first in order wins.
///
/// Cancel safety: the futures are dropped.
///
/// ```
/// use mainspring::{race, sleep};
/// use std::time::Duration;
///
/// # let virtual_time = |builder: mainspring::Builder| builder.clock(mainspring::testing::VirtualClock::default());
/// # mainspring::Runner::new().configure(virtual_time).run(async {
/// let winner = race([50, 1, 70].map(|delay| async move {
///     sleep(Duration::from_millis(delay)).await;
///     delay
/// }));
/// assert_eq!(winner.await, Some(1));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "select_all")]
pub async fn race<I: IntoIterator<Item: IntoFuture>>(futures: I) -> Option<<I::Item as IntoFuture>::Output> {
    as_completed(futures).next().await
}

/// The outputs of `futures` in the order of completion. See [`AsCompleted`].
///
/// ```
/// use mainspring::{as_completed, sleep};
/// use std::time::Duration;
///
/// # let virtual_time = |builder: mainspring::Builder| builder.clock(mainspring::testing::VirtualClock::default());
/// # mainspring::Runner::new().configure(virtual_time).run(async {
/// let mut results = as_completed([3, 1, 2].map(|delay| async move {
///     sleep(Duration::from_millis(delay * 5)).await;
///     delay
/// }));
/// let mut order = Vec::new();
/// while let Some(delay) = results.next().await {
///     order.push(delay);
/// }
/// assert_eq!(order, [1, 2, 3]);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn as_completed<I: IntoIterator<Item: IntoFuture>>(
    futures: I,
) -> AsCompleted<<I::Item as IntoFuture>::IntoFuture> {
    AsCompleted { set: PendingFutures::new(futures) }
}

/// Yields the outputs of futures in the order of completion. Created by [`as_completed`].
///
/// The futures are polled while a task awaits [`next`](AsCompleted::next). Dropping this drops those that are not
/// done. It is also a `Stream`.
///
/// It is `Send` if its futures are.
///
/// ```
/// use mainspring::as_completed;
///
/// # mainspring::run(async {
/// let mut results = as_completed([1, 2].map(std::future::ready));
/// assert_eq!(results.len(), 2);
/// assert_eq!(results.next().await, Some(1));
/// assert_eq!(results.next().await, Some(2));
/// assert!(results.is_empty());
/// assert_eq!(results.next().await, None);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "the futures run when `next` is awaited"]
pub struct AsCompleted<F> {
    set: PendingFutures<F>,
}

impl<F: Future> AsCompleted<F> {
    /// The next output. `None` after the last.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn next(&mut self) -> Option<F::Output> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The number of outputs that are not returned yet.
    pub fn len(&self) -> usize {
        self.set.pending
    }

    /// Whether all outputs were returned.
    pub fn is_empty(&self) -> bool {
        self.set.pending == 0
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.set.pending == 0 {
            return Poll::Ready(None);
        }
        self.set.begin_step(cx.waker());
        match self.set.next_done() {
            Some((_, output)) => Poll::Ready(Some(output)),
            None => Poll::Pending,
        }
    }
}

impl<F: Future> futures_core::Stream for AsCompleted<F> {
    type Item = F::Output;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        AsCompleted::poll_next(&mut self, cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.set.pending, Some(self.set.pending))
    }
}

impl<F> fmt::Debug for AsCompleted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompleted").field("left", &self.set.pending).finish_non_exhaustive()
    }
}
