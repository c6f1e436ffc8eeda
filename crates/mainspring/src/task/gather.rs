//! Many futures of one kind at once, inside the task that awaits them: [`gather`] and its kin, [`as_completed`].
//!
//! The futures are no tasks of their own, so they may borrow, and dropping the whole drops them. Each has its own waker
//! ([`WakeQueue`]): a step polls those that were woken, however many there are.

use super::wake_queue::WakeQueue;
use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Futures that are not done, by number.
struct Set<F> {
    futures: Vec<Option<Pin<Box<F>>>>,
    queue: WakeQueue,
    left: usize,
}

impl<F: Future> Set<F> {
    fn new(futures: impl IntoIterator<Item: IntoFuture<IntoFuture = F>>) -> Self {
        let futures: Vec<_> =
            futures.into_iter().map(|future| Some(Box::pin(future.into_future()))).collect();
        Set { queue: WakeQueue::new(futures.len()), left: futures.len(), futures }
    }

    /// Begins a step of the task.
    fn begin_step(&mut self, task: &Waker) {
        self.queue.begin_step(task);
    }

    /// Polls what was woken up to the next one that is done. `None` when there is nothing more in this step.
    fn next_done(&mut self) -> Option<(usize, F::Output)> {
        while let Some((number, waker)) = self.queue.next() {
            let Some(place) = self.futures.get_mut(number) else { continue };
            let Some(future) = place else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                let done = place.take();
                self.left -= 1;
                drop(done);
                return Some((number, output));
            }
        }
        None
    }
}

/// Awaits all `futures`, side by side, and gives what they give, in the order of the futures.
///
/// asyncio's `gather`; with futures that give a `Result`, the one with `return_exceptions=True`. Nothing is
/// started: the futures take their steps within the task that awaits, and may borrow from it. Those that
/// are to be tasks of their own can be spawned first. A panic in one of them is a panic here.
///
/// Cancel safety: giving up drops the futures, with the results that were there. Tasks among them run on.
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

/// Awaits all `futures`, side by side, until one fails: gives what they give, in their order, or the first
/// error, and drops the rest.
///
/// asyncio's `gather` goes on with the rest, unwatched; Rust's way is to end them. See [`gather`].
///
/// Cancel safety: giving up drops the futures, with the results that were there.
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
    judge: impl Fn(<I::Item as IntoFuture>::Output) -> Result<T, E>,
) -> Result<Vec<T>, E>
where
    I: IntoIterator<Item: IntoFuture>,
{
    let mut set = Set::new(futures);
    let mut outputs: Vec<_> = set.futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        set.begin_step(cx.waker());
        while let Some((number, output)) = set.next_done() {
            match (judge(output), outputs.get_mut(number)) {
                (Err(error), _) => return Poll::Ready(Err(error)),
                (Ok(output), Some(place)) => *place = Some(output),
                (Ok(_), None) => {}
            }
        }
        if set.left > 0 {
            return Poll::Pending;
        }
        Poll::Ready(Ok(std::mem::take(&mut outputs).into_iter().flatten().collect()))
    })
    .await
}

/// Awaits the first of `futures` to be done, gives what it gives, and drops the others. `None` if there are none.
///
/// Of those that are done in the same step the first in order wins.
///
/// Cancel safety: giving up drops the futures.
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

/// The results of `futures` as they come. See [`AsCompleted`].
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
    AsCompleted { set: Set::new(futures) }
}

/// Futures that give their results in the order in which they are done. Made by [`as_completed`].
///
/// The futures take their steps while somebody awaits [`next`](AsCompleted::next), inside that task. Dropping
/// this drops those that are not done. It is also a `Stream`.
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
    set: Set<F>,
}

impl<F: Future> AsCompleted<F> {
    /// The next result. `None` when all have been given.
    ///
    /// Cancel safety: nothing is lost by giving it up.
    pub async fn next(&mut self) -> Option<F::Output> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// How many results are still to come.
    pub fn len(&self) -> usize {
        self.set.left
    }

    /// Whether all results have been given.
    pub fn is_empty(&self) -> bool {
        self.set.left == 0
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.set.left == 0 {
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
        (self.set.left, Some(self.set.left))
    }
}

impl<F> fmt::Debug for AsCompleted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompleted").field("left", &self.set.left).finish_non_exhaustive()
    }
}
