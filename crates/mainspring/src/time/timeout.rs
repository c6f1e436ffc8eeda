//! Timeouts.

use super::{Sleep, sleep, sleep_until};
use crate::clock::Time;
use crate::handle::Once;
use crate::host::Call;
use crate::lane::Lane;
use crate::task::current_background_task;
use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// [`timeout`] expired. Converts to an [`io::Error`](std::io::Error) of the kind
/// [`TimedOut`](std::io::ErrorKind::TimedOut).
///
/// ```
/// use mainspring::{Elapsed, timeout};
/// use std::io;
/// use std::time::Duration;
///
/// async fn answer() -> io::Result<i32> {
///     Ok(timeout(Duration::from_millis(1), std::future::pending()).await?)
/// }
///
/// let error = mainspring::run(answer())?.unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Awaits `future` for at most `limit`, then drops it. The future is polled at least once: a result that is ready
/// counts even with a zero limit.
///
/// In a task in [`Lane::Background`](crate::Lane::Background), the step in which the limit expires is in the normal
/// lane. So a busy loop does not delay it.
///
/// Cancel safety: that of the future. Pass `&mut future` to keep it after the timeout.
///
/// # Panics
///
/// As [`sleep`].
///
/// ```
/// use mainspring::{Elapsed, timeout};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let never = std::future::pending::<()>();
///     assert_eq!(timeout(Duration::from_millis(1), never).await, Err(Elapsed));
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "wait_for")]
pub async fn timeout<F: IntoFuture>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    with_deadline(sleep(limit), future.into_future()).await
}

/// Awaits `future` until the loop's clock reaches `deadline`. See [`timeout`].
///
/// Cancel safety: that of the future.
///
/// # Panics
///
/// As [`sleep`].
///
/// ```
/// use mainspring::{Elapsed, sleep, time::now, timeout_at};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let deadline = now().saturating_add(Duration::from_millis(5));
/// assert_eq!(timeout_at(deadline, async { 6 * 7 }).await, Ok(42));
/// assert_eq!(timeout_at(deadline, sleep(Duration::from_secs(3600))).await, Err(Elapsed));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "wait_for")]
pub async fn timeout_at<F: IntoFuture>(deadline: Time, future: F) -> Result<F::Output, Elapsed> {
    with_deadline(sleep_until(deadline), future.into_future()).await
}

async fn with_deadline<F: Future>(mut sleep: Sleep, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        // A result that is ready counts, however late.
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        if sleep.is_due() {
            return Poll::Ready(Err(Elapsed));
        }
        sleep.poll_deadline(cx).map(|()| Err(Elapsed))
    })
    .await
}

impl Sleep {
    /// Polls it as the limit of a wait: it wakes a background task in the normal lane.
    #[track_caller]
    pub(crate) fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_timer(cx, deadline_call)
    }
}

/// The call of a timer that limits a wait of the current task.
fn deadline_call(waker: Waker) -> Call {
    let Some(task) = current_background_task() else { return Call::Wake(waker) };
    let wake = move || {
        task.promote();
        waker.wake();
    };
    Call::Handle(Lane::Normal, Once::shared(wake))
}
