//! A few futures of different types: [`join`], [`try_join`], [`select`].
//!
//! Each step polls all of them with the waker of the task: for a few futures that is cheaper than separate wakers.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Awaits a tuple of two to eight futures concurrently. Returns the tuple of their outputs.
///
/// [`gather`](crate::gather) is for many futures of one type.
///
/// Cancel safety: the futures and the outputs so far are dropped.
///
/// ```
/// # mainspring::run(async {
/// let both = mainspring::join((async { 1 }, async { "two" }));
/// assert_eq!(both.await, (1, "two"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn join<J: Join>(futures: J) -> impl Future<Output = J::Output> {
    futures.join()
}

/// Awaits a tuple of two to eight futures concurrently until one fails. Returns the tuple of their outputs, or the
/// first error; the others are then dropped.
///
/// Cancel safety: the futures and the outputs so far are dropped.
///
/// ```
/// # mainspring::run(async {
/// let both = mainspring::try_join((async { "1".parse::<i32>() }, async { Ok(2.5) }));
/// assert_eq!(both.await, Ok((1, 2.5)));
/// let both = mainspring::try_join((async { "one".parse::<i32>() }, std::future::pending::<Result<(), _>>()));
/// assert!(both.await.is_err());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn try_join<E, J: TryJoin<E>>(futures: J) -> impl Future<Output = Result<J::Output, E>> {
    futures.try_join()
}

/// Awaits the first of two futures that is ready, and drops the other. If both are ready, the first one counts.
///
/// Pass `&mut future` to keep one of them. [`race`](crate::race) is for many futures of one type.
///
/// Cancel safety: the futures are dropped.
///
/// ```
/// use mainspring::{Either, select, sleep};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let work = async { "done" };
/// match select(work, sleep(Duration::from_secs(1))).await {
///     Either::First(word) => assert_eq!(word, "done"),
///     Either::Second(()) => unreachable!("the time is up"),
/// }
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn select<A: IntoFuture, B: IntoFuture>(first: A, second: B) -> Either<A::Output, B::Output> {
    let mut first = pin!(first.into_future());
    let mut second = pin!(second.into_future());
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::First(output));
        }
        second.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

/// The result of [`select`].
///
/// ```
/// use mainspring::{Either, select};
///
/// # mainspring::run(async {
/// let first = select(async { 1 }, async { "two" }).await;
/// assert_eq!(first, Either::First(1));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Either<A, B> {
    /// The first future was ready.
    First(A),
    /// The second future was ready.
    Second(B),
}

/// A tuple of futures, for [`join`].
///
/// ```
/// use mainspring::Join;
///
/// # mainspring::run(async {
/// let all = (async { 1 }, async { "two" }, async { 3.0 }).join();
/// assert_eq!(all.await, (1, "two", 3.0));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub trait Join {
    /// The tuple of their outputs.
    type Output;

    /// See [`join`].
    fn join(self) -> impl Future<Output = Self::Output>;
}

/// A tuple of futures that may fail, for [`try_join`].
///
/// ```
/// use mainspring::TryJoin;
///
/// # mainspring::run(async {
/// let both = (async { "1".parse::<u8>() }, async { "256".parse::<u8>() }).try_join();
/// assert!(both.await.is_err());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub trait TryJoin<E> {
    /// The tuple of their outputs.
    type Output;

    /// See [`try_join`].
    fn try_join(self) -> impl Future<Output = Result<Self::Output, E>>;
}

macro_rules! joins {
    ($($future:ident $output:ident $value:ident),+) => {
        impl<$($future: IntoFuture),+> Join for ($($future,)+) {
            type Output = ($($future::Output,)+);

            async fn join(self) -> Self::Output {
                let ($($value,)+) = self;
                $(let mut $value = (pin!($value.into_future()), None);)+
                poll_fn(|cx| {
                    $(
                        if $value.1.is_none()
                            && let Poll::Ready(output) = $value.0.as_mut().poll(cx)
                        {
                            $value.1 = Some(output);
                        }
                    )+
                    if $($value.1.is_some())&&+
                        && let ($(Some($value),)+) = ($($value.1.take(),)+)
                    {
                        return Poll::Ready(($($value,)+));
                    }
                    Poll::Pending
                })
                .await
            }
        }

        impl<Error, $($future, $output),+> TryJoin<Error> for ($($future,)+)
        where
            $($future: IntoFuture<Output = Result<$output, Error>>),+
        {
            type Output = ($($output,)+);

            async fn try_join(self) -> Result<Self::Output, Error> {
                let ($($value,)+) = self;
                $(let mut $value = (pin!($value.into_future()), None);)+
                poll_fn(|cx| {
                    $(
                        if $value.1.is_none()
                            && let Poll::Ready(output) = $value.0.as_mut().poll(cx)
                        {
                            match output {
                                Ok(output) => $value.1 = Some(output),
                                Err(error) => return Poll::Ready(Err(error)),
                            }
                        }
                    )+
                    if $($value.1.is_some())&&+
                        && let ($(Some($value),)+) = ($($value.1.take(),)+)
                    {
                        return Poll::Ready(Ok(($($value,)+)));
                    }
                    Poll::Pending
                })
                .await
            }
        }
    };
}

joins!(A OutputA a, B OutputB b);
joins!(A OutputA a, B OutputB b, C OutputC c);
joins!(A OutputA a, B OutputB b, C OutputC c, D OutputD d);
joins!(A OutputA a, B OutputB b, C OutputC c, D OutputD d, E OutputE e);
joins!(A OutputA a, B OutputB b, C OutputC c, D OutputD d, E OutputE e, F OutputF f);
joins!(A OutputA a, B OutputB b, C OutputC c, D OutputD d, E OutputE e, F OutputF f, G OutputG g);
joins!(A OutputA a, B OutputB b, C OutputC c, D OutputD d, E OutputE e, F OutputF f, G OutputG g, H OutputH h);
