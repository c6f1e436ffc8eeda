//! [`yield_now`] and [`shield`].

use super::{Task, spawn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Lets all other ready calls run once. asyncio's `sleep(0)`.
///
/// Cancel safety: nothing is lost.
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn(async {});
/// mainspring::yield_now().await;
/// assert!(task.is_finished());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn yield_now() -> impl Future<Output = ()> {
    YieldNow { has_yielded: false }
}

struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs `future` as a task, so that it continues if the wait for it is cancelled.
///
/// It is [`spawn`] under asyncio's name. A task needs no shield: `timeout(limit, &mut task)` stops waiting and keeps
/// the task.
///
/// # Panics
///
/// As [`spawn`].
///
/// ```
/// use mainspring::{shield, sleep, timeout};
/// use std::cell::Cell;
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// # let virtual_time = |builder: mainspring::Builder| builder.clock(mainspring::testing::VirtualClock::default());
/// # mainspring::Runner::new().configure(virtual_time).run(async {
/// let saved = Rc::new(Cell::new(false));
/// let flag = Rc::clone(&saved);
/// let save = async move {
///     sleep(Duration::from_millis(2)).await;
///     flag.set(true);
/// };
/// assert!(timeout(Duration::from_millis(1), shield(save)).await.is_err());
/// sleep(Duration::from_millis(5)).await;
/// assert!(saved.get());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn shield<F>(future: F) -> Task<F::Output>
where
    F: IntoFuture<IntoFuture: 'static, Output: 'static>,
{
    spawn(future)
}
