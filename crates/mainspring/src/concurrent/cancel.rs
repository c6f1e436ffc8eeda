//! Cancellation of a `ConcurrentFuture`, and how it reaches the producer. [`AnyFuture::origin`] walks the same path to
//! find out where a result comes from.
//!
//! # Rules
//!
//! - The first result or cancellation ends the stage *Pending*. Later ones change nothing.
//! - Cancelling settles the future at once. Then its upstream futures are cancelled, one after the other and never
//!   nested. Closures that were chained to them are dropped.
//! - A future has a weak reference to its upstream. The promise of the upstream future keeps it alive; without a
//!   promise there is nothing to cancel.
//! - The owner of the promise checks [`Promise::is_cancelled`], or is woken ([`Promise::poll_cancelled`]). It drops its
//!   values on its own thread.

use super::shared::{ResultStage, Shared, is_running_here};
use super::{ConcurrentFuture, Promise, cancelled};
use crate::event_loop::{ExceptionContext, report_here};
use crate::panics::catch;
use crate::task::JoinError;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// The future that another is composed of.
pub(super) type Upstream = Weak<dyn AnyFuture + Send + Sync>;

/// A future with its result type erased, for the futures composed of it.
pub(super) trait AnyFuture {
    /// Cancels this future and all upstream. Returns `false` if it is settled.
    fn cancel(&self) -> bool;

    /// Cancels only this future, because a future composed of it is cancelled. Returns its upstream.
    fn cancel_this(&self) -> Option<Upstream>;

    fn is_finished(&self) -> bool;

    fn is_cancelled(&self) -> bool;

    /// The origin of its result. `watcher` is woken when that changes.
    fn origin(&self, watcher: &Waker) -> Origin;
}

/// The origin of a result.
pub(super) enum Origin {
    /// The loop of this thread.
    Here,
    /// The future that it is composed of.
    Upstream(Upstream),
    /// Anything else, or the future is settled.
    Elsewhere,
}

impl<T: 'static, E: From<JoinError> + 'static> AnyFuture for Shared<T, E> {
    fn cancel(&self) -> bool {
        let Some(mut upstream) = self.settle_cancelled(false) else { return false };
        while let Some(future) = upstream.and_then(|future| future.upgrade()) {
            upstream = future.cancel_this();
        }
        true
    }

    fn cancel_this(&self) -> Option<Upstream> {
        self.settle_cancelled(true).flatten()
    }

    fn is_finished(&self) -> bool {
        self.lock().stage.is_finished()
    }

    fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    fn origin(&self, watcher: &Waker) -> Origin {
        let is_here = self.settling_loop.as_ref().is_some_and(is_running_here);
        // Cloning and dropping a waker runs foreign code, so both happen outside of the lock.
        let watcher = watcher.clone();
        let mut state = self.lock();
        if state.stage.is_finished() {
            drop(state);
            return Origin::Elsewhere;
        }
        let former = state.watcher.replace(watcher);
        let upstream = state.upstream.clone();
        drop(state);
        drop(former);
        match upstream {
            _ if is_here => Origin::Here,
            Some(upstream) => Origin::Upstream(upstream),
            None => Origin::Elsewhere,
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> Shared<T, E> {
    /// Settles with "cancelled", unless the future is settled. Returns its upstream. With `drops_next`, the chained
    /// closure is dropped.
    fn settle_cancelled(&self, drops_next: bool) -> Option<Option<Upstream>> {
        let mut state = self.lock();
        if !matches!(state.stage, ResultStage::Pending) {
            return None;
        }
        state.stage = ResultStage::RunningCallbacks;
        state.is_cancelled = true;
        let upstream = state.upstream.take();
        let cancel_waker = state.cancel_waker.take();
        let unwanted = if drops_next { state.next.take() } else { None };
        drop(state);
        // The chained closure is user code.
        if let Err(text) = catch(|| drop(unwanted)) {
            report_here(&ExceptionContext::from_panic("A destructor panicked", text));
        }
        self.run_callbacks(Err(cancelled().into()));
        if let Some(cancel_waker) = cancel_waker {
            cancel_waker.wake();
        }
        Some(upstream)
    }
}

impl<T: 'static, E: From<JoinError> + 'static> ConcurrentFuture<T, E> {
    /// Cancels the future, from any thread: waiters get a cancelled error at once, and the producer is stopped. Returns
    /// `false` if the future is settled; the result can still be taken.
    ///
    /// - A task on a loop is cancelled: the loop's thread drops its future.
    /// - A call that has not begun, on a loop or in an executor, is not made: that thread drops the closure when its
    ///   turn comes. A call that has begun continues, and its result is dropped.
    /// - Of a composed future, all parts are cancelled, and closures that have not run are dropped.
    /// - A [`Promise`] that the program owns can check [`Promise::is_cancelled`], or await [`Promise::cancelled`].
    ///
    /// asyncio's `run_coroutine_threadsafe(...).cancel()`. To cancel while another task waits, use a
    /// [`cancel_handle`](ConcurrentFuture::cancel_handle).
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>).map(|()| "never");
    /// assert!(never.cancel());
    /// assert!(never.is_cancelled() && !never.cancel());
    /// assert!(never.wait().unwrap_err().is_cancelled());
    /// // The task is cancelled, and nothing keeps the loop alive.
    /// runtime.shutdown()?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        AnyFuture::cancel(&*self.0)
    }

    /// Whether it was cancelled: by [`cancel`](ConcurrentFuture::cancel), or because the promise was dropped. For a
    /// composed future this is `false` if only a part was cancelled; the error shows that.
    #[doc(alias = "cancelled")]
    pub fn is_cancelled(&self) -> bool {
        AnyFuture::is_cancelled(&*self.0)
    }

    /// A handle that cancels the future while another task waits for it.
    ///
    /// ```
    /// use mainspring::ConcurrentFuture;
    ///
    /// let (promise, answer) = ConcurrentFuture::<i32>::pair();
    /// let handle = answer.cancel_handle();
    /// let other = std::thread::spawn(move || answer.wait());
    /// assert!(handle.cancel());
    /// assert!(other.join().unwrap().unwrap_err().is_cancelled());
    /// promise.set_result(42); // discarded
    /// ```
    #[doc(alias = "abort_handle")]
    pub fn cancel_handle(&self) -> CancelHandle
    where
        T: Send,
        E: Send,
    {
        CancelHandle(self.upstream())
    }

    pub(super) fn upstream(&self) -> Upstream
    where
        T: Send,
        E: Send,
    {
        // In two steps: `downgrade` needs the concrete type, the return value is unsized.
        let weak: Weak<Shared<T, E>> = Arc::downgrade(&self.0);
        weak
    }
}

/// Cancels and queries a [`ConcurrentFuture`], without access to its result. Created by
/// [`ConcurrentFuture::cancel_handle`].
///
/// Clones refer to the same future. It is `Send` and `Sync`, and keeps nothing alive.
///
/// ```
/// let runtime = mainspring::Runtime::start()?;
/// let answer = runtime.call(|| 42);
/// let handle = answer.cancel_handle();
/// assert_eq!(answer.wait(), Ok(42));
/// assert!(handle.is_finished() && !handle.is_cancelled());
/// assert!(!handle.cancel(), "the result was there");
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "AbortHandle")]
pub struct CancelHandle(Upstream);

impl CancelHandle {
    /// [`ConcurrentFuture::cancel`]. Also returns `false` if the future and its promise were dropped.
    pub fn cancel(&self) -> bool {
        self.0.upgrade().is_some_and(|future| future.cancel())
    }

    /// Whether there is, or was, a result.
    #[doc(alias = "is_done")]
    pub fn is_finished(&self) -> bool {
        self.0.upgrade().is_none_or(|future| future.is_finished())
    }

    /// [`ConcurrentFuture::is_cancelled`]. `false` if the future and its promise were dropped.
    pub fn is_cancelled(&self) -> bool {
        self.0.upgrade().is_some_and(|future| future.is_cancelled())
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

impl<T: 'static, E: From<JoinError> + 'static> Promise<T, E> {
    /// Whether the future was cancelled: a result would be dropped.
    ///
    /// ```
    /// let (promise, answer) = mainspring::ConcurrentFuture::<i32>::pair();
    /// assert!(!promise.is_cancelled());
    /// answer.cancel();
    /// assert!(promise.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| AnyFuture::is_cancelled(&**shared))
    }

    /// Waits until the future is cancelled. Dropping the future does not count.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, spawn};
    ///
    /// # mainspring::run(async {
    /// let (mut promise, answer) = ConcurrentFuture::<i32>::pair();
    /// let work = spawn(async move { promise.cancelled().await });
    /// answer.cancel();
    /// assert_eq!(work.await, Ok(()));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn cancelled(&mut self) {
        poll_fn(|cx| self.poll_cancelled(cx)).await;
    }

    /// Whether the future was cancelled. If not, the task of `cx` is woken when it is.
    pub(crate) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = &self.0 else { return Poll::Pending };
        let state = shared.lock();
        if state.is_cancelled {
            return Poll::Ready(());
        }
        if state.cancel_waker.as_ref().is_some_and(|cancel_waker| cancel_waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(state);
        // Cloning and dropping a waker runs foreign code, so both happen outside of the lock.
        let cancel_waker = cx.waker().clone();
        let mut state = shared.lock();
        if state.is_cancelled {
            drop(state);
            return Poll::Ready(());
        }
        let former = state.cancel_waker.replace(cancel_waker);
        drop(state);
        drop(former);
        Poll::Pending
    }

    /// Makes a cancellation of this future reach `source`, its upstream. Returns `false` if it is cancelled already.
    pub(super) fn set_upstream(&self, source: Upstream) -> bool {
        let Some(shared) = &self.0 else { return false };
        let mut state = shared.lock();
        if !matches!(state.stage, ResultStage::Pending) {
            return false;
        }
        state.upstream = Some(source);
        let watcher = state.watcher.take();
        drop(state);
        if let Some(watcher) = watcher {
            watcher.wake();
        }
        true
    }
}
