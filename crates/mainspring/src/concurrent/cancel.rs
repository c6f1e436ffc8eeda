//! Cancelling: how a future is given up, and how that reaches what was to settle it. By the same way a thread finds out
//! what it waits for ([`Link::look`]).
//!
//! # Rules
//!
//! - Whoever ends the stage *Pending* first wins: a result, or a cancellation. Whoever comes later changes nothing.
//! - Who cancels settles the future here and now. Then those upstream, of which it was composed, are cancelled as well,
//!   one after the other and never one inside the other; what was chained to them is dropped and not called.
//! - A future knows what it was composed of by a weak reference: the promise of that one keeps it alive, and if there is
//!   none any more there is nothing to cancel.
//! - What keeps the promise finds out by [`Promise::is_cancelled`], or is woken if it asked
//!   ([`Promise::poll_cancelled`]). It lets go of what it has on its own thread.

use super::{ConcurrentFuture, Promise, Shared, Stage, cancelled, runs_here};
use crate::event_loop::{ExceptionContext, report_here};
use crate::panics::catch;
use crate::task::JoinError;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// What a future is composed of.
pub(super) type Upstream = Weak<dyn Link + Send + Sync>;

/// A future of any result, as those see it that are composed of it.
pub(super) trait Link {
    /// Cancels this one and those upstream. `false` if it is settled.
    fn cancel(&self) -> bool;

    /// Cancels this one alone, for one that was composed of it and is cancelled: gives what is upstream of this one.
    fn cancel_link(&self) -> Option<Upstream>;

    fn is_finished(&self) -> bool;

    fn is_cancelled(&self) -> bool;

    /// Where its result is to come from. `watcher` is called when that changes.
    fn look(&self, watcher: &Waker) -> Origin;
}

/// Where a result is to come from.
pub(super) enum Origin {
    /// From the loop of this thread.
    Here,
    /// From something else, of which it is composed.
    Upstream(Upstream),
    /// From somebody else, or it is there.
    Elsewhere,
}

impl<T: 'static, E: From<JoinError> + 'static> Link for Shared<T, E> {
    fn cancel(&self) -> bool {
        let Some(mut upstream) = self.settle_cancelled(false) else { return false };
        while let Some(link) = upstream.and_then(|link| link.upgrade()) {
            upstream = link.cancel_link();
        }
        true
    }

    fn cancel_link(&self) -> Option<Upstream> {
        self.settle_cancelled(true).flatten()
    }

    fn is_finished(&self) -> bool {
        self.lock().stage.is_finished()
    }

    fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    fn look(&self, watcher: &Waker) -> Origin {
        let is_here = self.home.as_ref().is_some_and(runs_here);
        // Cloning and dropping a waker is foreign code: both outside of the lock.
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
    /// Settles with "cancelled", if it is not settled; gives what is upstream then. With `forgets_next`, whoever is to
    /// have the result does not want it any more.
    fn settle_cancelled(&self, forgets_next: bool) -> Option<Option<Upstream>> {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Pending) {
            return None;
        }
        state.stage = Stage::Told;
        state.is_cancelled = true;
        let upstream = state.upstream.take();
        let keeper = state.keeper.take();
        let unwanted = if forgets_next { state.next.take() } else { None };
        drop(state);
        // The closures in it are the program's.
        if let Err(text) = catch(|| drop(unwanted)) {
            report_here(&ExceptionContext::of_panic("A destructor panicked", text));
        }
        self.tell(Err(cancelled().into()));
        if let Some(keeper) = keeper {
            keeper.wake();
        }
        Some(upstream)
    }
}

impl<T: 'static, E: From<JoinError> + 'static> ConcurrentFuture<T, E> {
    /// Gives it up, from any thread: whoever waits for the result is told "cancelled" at once, and what was to produce it
    /// is stopped. `false` if the result is there already: it stays, and is to be had as ever.
    ///
    /// - A task that runs on a loop is cancelled: its future is dropped by the loop's thread.
    /// - A call that has not begun, on a loop or in an executor, is not made; the thread that was to make it drops the
    ///   closure when its turn comes. One that has begun runs on, and what it gives is dropped.
    /// - Of a composed future all that it is composed of is cancelled, and closures that have not run are dropped.
    /// - A [`Promise`] that the program keeps itself may ask: [`Promise::is_cancelled`], [`Promise::cancelled`].
    ///
    /// asyncio's `run_coroutine_threadsafe(...).cancel()`. Who waits cannot cancel as well: a
    /// [`cancel_handle`](ConcurrentFuture::cancel_handle) is for somebody else.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>).map(|()| "never");
    /// assert!(never.cancel());
    /// assert!(never.is_cancelled() && !never.cancel());
    /// assert!(never.wait().unwrap_err().is_cancelled());
    /// // The task is gone, and nothing keeps the loop.
    /// runtime.shutdown()?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self) -> bool {
        Link::cancel(&*self.0)
    }

    /// Whether it was cancelled, by [`cancel`](ConcurrentFuture::cancel) or because nobody kept the promise any more. Of
    /// a composed future, whether this one was; what it is composed of may have been, and says so in the error.
    #[doc(alias = "cancelled")]
    pub fn is_cancelled(&self) -> bool {
        Link::is_cancelled(&*self.0)
    }

    /// What cancels it while somebody else waits for it.
    ///
    /// ```
    /// use mainspring::ConcurrentFuture;
    ///
    /// let (promise, answer) = ConcurrentFuture::<i32>::pair();
    /// let handle = answer.cancel_handle();
    /// let other = std::thread::spawn(move || answer.wait());
    /// assert!(handle.cancel());
    /// assert!(other.join().unwrap().unwrap_err().is_cancelled());
    /// promise.set_result(42); // nobody wants it
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
        // In two steps, for the first is to be of the type that is there.
        let weak: Weak<Shared<T, E>> = Arc::downgrade(&self.0);
        weak
    }
}

/// A [`ConcurrentFuture`] without its result: to cancel it, and to ask how it stands. Made by
/// [`ConcurrentFuture::cancel_handle`].
///
/// A clone is for the same future. It is `Send` and `Sync`, and keeps nothing alive.
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
    /// [`ConcurrentFuture::cancel`]. `false` too if the future is gone, with its promise.
    pub fn cancel(&self) -> bool {
        self.0.upgrade().is_some_and(|future| future.cancel())
    }

    /// Whether the result is there, or was.
    #[doc(alias = "is_done")]
    pub fn is_finished(&self) -> bool {
        self.0.upgrade().is_none_or(|future| future.is_finished())
    }

    /// [`ConcurrentFuture::is_cancelled`]. `false` if the future is gone, with its promise: nobody knows any more.
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
    /// Whether the future was cancelled: what it is given now, nobody gets.
    ///
    /// ```
    /// let (promise, answer) = mainspring::ConcurrentFuture::<i32>::pair();
    /// assert!(!promise.is_cancelled());
    /// answer.cancel();
    /// assert!(promise.is_cancelled());
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| Link::is_cancelled(&**shared))
    }

    /// Waits until the future is cancelled. That it is dropped does not count.
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

    /// Finds out whether the future was cancelled; if it was not, the task of `cx` is woken when it is.
    pub(crate) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shared) = &self.0 else { return Poll::Pending };
        let state = shared.lock();
        if state.is_cancelled {
            return Poll::Ready(());
        }
        if state.keeper.as_ref().is_some_and(|keeper| keeper.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        drop(state);
        // Cloning and dropping a waker is foreign code: both outside of the lock.
        let keeper = cx.waker().clone();
        let mut state = shared.lock();
        if state.is_cancelled {
            drop(state);
            return Poll::Ready(());
        }
        let former = state.keeper.replace(keeper);
        drop(state);
        drop(former);
        Poll::Pending
    }

    /// Has the cancellation of this future reach `source`, whose result it waits for. `false` if it came before.
    pub(super) fn follow(&self, source: Upstream) -> bool {
        let Some(shared) = &self.0 else { return false };
        let mut state = shared.lock();
        if !matches!(state.stage, Stage::Pending) {
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
