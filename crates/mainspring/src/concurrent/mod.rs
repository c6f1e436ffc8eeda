//! `ConcurrentFuture`: a result that comes from another thread, as Python's `concurrent.futures.Future`. [`shared`] has
//! its state and the rules.

mod block_on_loop_thread;
mod cancel;
mod compose;
mod promise;
mod run_chained;
mod shared;

pub use cancel::CancelHandle;
pub use promise::Promise;

use crate::event_loop::{KeepAlive, running_core};
use crate::panics::Payload;
use crate::task::JoinError;
use crate::task::waits_for;
use shared::{ChainedClosure, LoopInbox, ResultStage, Shared, Waiting};
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The result of work on another thread or loop: a `T`, or an error `E`.
///
/// Await it on any loop, [`wait`](ConcurrentFuture::wait) for it on a thread without one, or compose it with
/// [`map`](ConcurrentFuture::map) and related methods. It is `Send` and `Sync` if `T` and `E` are `Send`. Dropping it
/// does not stop the work: [`cancel`](ConcurrentFuture::cancel) does.
///
/// Cancel safety: `&mut future` can be awaited and dropped; the result stays until it is taken.
///
/// ```
/// use mainspring::ConcurrentFuture;
///
/// let (promise, answer) = ConcurrentFuture::<i32>::pair();
/// std::thread::spawn(move || promise.set_result(6));
/// assert_eq!(answer.map(|number| number * 7).wait(), Ok(42));
///
/// let (promise, answer) = ConcurrentFuture::<i32>::pair();
/// drop(promise);
/// assert!(answer.wait().unwrap_err().is_cancelled());
/// ```
#[must_use = "the result comes when this is awaited"]
pub struct ConcurrentFuture<T, E = JoinError>(Arc<Shared<T, E>>);

/// The promise was dropped.
fn cancelled() -> JoinError {
    JoinError::cancelled(None)
}

pub(crate) fn panicked(payload: Payload) -> JoinError {
    JoinError::panicked(None, payload)
}

/// The producer is shut down.
pub(crate) fn refused() -> JoinError {
    JoinError::refused()
}

impl<T: 'static, E: From<JoinError> + 'static> ConcurrentFuture<T, E> {
    /// A future, and the promise that settles it from any thread.
    ///
    /// ```
    /// let (promise, answer) = mainspring::ConcurrentFuture::<_>::pair();
    /// promise.set_result("at once");
    /// assert!(answer.is_finished());
    /// assert_eq!(answer.wait(), Ok("at once"));
    /// ```
    pub fn pair() -> (Promise<T, E>, ConcurrentFuture<T, E>) {
        Self::pair_settled_by(None)
    }

    /// A pair whose promise belongs to a task or call of the loop with this inbox.
    pub(crate) fn pair_settled_by(
        settling_loop: Option<LoopInbox>,
    ) -> (Promise<T, E>, ConcurrentFuture<T, E>) {
        let future = Self::with_stage(ResultStage::Pending, settling_loop);
        (Promise(Some(Arc::clone(&future.0))), future)
    }

    /// A settled future.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// assert_eq!(ConcurrentFuture::ready(Ok::<_, JoinError>(1)).wait(), Ok(1));
    /// ```
    pub fn ready(result: Result<T, E>) -> Self {
        Self::with_stage(ResultStage::Settled(result), None)
    }

    fn with_stage(stage: ResultStage<T, E>, settling_loop: Option<LoopInbox>) -> Self {
        ConcurrentFuture(Arc::new(Shared::new(stage, settling_loop)))
    }

    /// Blocks this thread until there is a result or an error, and returns it.
    ///
    /// # Panics
    ///
    /// If the result, or a part of a composed future, must come from a loop that runs on this thread: that would
    /// block forever. Await it there.
    ///
    /// ```
    /// use mainspring::Runtime;
    ///
    /// let runtime = Runtime::start()?;
    /// assert_eq!(runtime.call(|| 6 * 7).wait(), Ok(42));
    ///
    /// let handle = runtime.handle();
    /// let stuck = runtime.call(move || handle.call(|| 6 * 7).wait());
    /// assert!(stuck.wait().unwrap_err().is_panic());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn wait(mut self) -> Result<T, E> {
        if !self.is_finished() {
            run_chained::run_queued();
        }
        if running_core().is_some() {
            return match block_on_loop_thread::block_on_loop_thread(&mut self) {
                Some(result) => result,
                None => {
                    panic!("wait() would block the loop that produces the result: await the result instead")
                }
            };
        }
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            if matches!(state.stage, ResultStage::Taken) {
                return Err(cancelled().into());
            }
            state = self.0.is_settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// [`wait`](ConcurrentFuture::wait) for at most `limit`, then returns the future. On the thread of the loop that
    /// settles it, this always waits for the whole limit.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (promise, answer) = mainspring::ConcurrentFuture::<i32>::pair();
    /// let answer = answer.wait_timeout(Duration::from_millis(1)).unwrap_err();
    /// promise.set_result(1);
    /// assert_eq!(answer.wait_timeout(Duration::from_millis(1)).unwrap(), Ok(1));
    /// ```
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<T, E>, Self> {
        // A limit beyond the clock's range is no limit.
        let Some(deadline) = Instant::now().checked_add(limit) else { return Ok(self.wait()) };
        if !self.is_finished() {
            run_chained::run_queued();
        }
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.take() {
                return Ok(result);
            }
            if matches!(state.stage, ResultStage::Taken) {
                return Ok(Err(cancelled().into()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(state);
                return Err(self);
            }
            let waited = self.0.is_settled.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Passes the result to `next`, on the thread that settles, or on this thread if the future is settled.
    fn chain(self, next: ChainedClosure<T, E>) {
        let mut state = self.0.lock();
        if let Some(result) = state.take() {
            drop(state);
            run_chained::run(move || next(result));
        } else if matches!(state.stage, ResultStage::Taken) {
            drop(state);
            run_chained::run(move || next(Err(cancelled().into())));
        } else {
            state.next = Some(next);
        }
    }
}

impl<T, E> ConcurrentFuture<T, E> {
    /// Whether there is, or was, a result.
    #[doc(alias = "done")]
    #[doc(alias = "is_done")]
    pub fn is_finished(&self) -> bool {
        self.0.lock().stage.is_finished()
    }

    /// Calls `callback` with the result before the result is taken: on the thread that settles, or on this thread if
    /// the future is settled. A panic goes to the exception handler of the loop of that thread, or to stderr.
    ///
    /// Returns `false`, without calling the callback, if the result was taken.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (promise, answer) = mainspring::ConcurrentFuture::<i32>::pair();
    /// let (sender, receiver) = mpsc::channel();
    /// assert!(answer.add_done_callback(move |result| sender.send(result.is_ok()).unwrap()));
    /// promise.set_result(42);
    /// assert!(receiver.recv().unwrap());
    /// assert_eq!(answer.wait(), Ok(42));
    /// ```
    pub fn add_done_callback(&self, callback: impl FnOnce(&Result<T, E>) + Send + 'static) -> bool
    where
        T: 'static,
        E: 'static,
    {
        let mut state = self.0.lock();
        match mem::replace(&mut state.stage, ResultStage::RunningCallbacks) {
            ResultStage::Taken => {
                state.stage = ResultStage::Taken;
                return false;
            }
            ResultStage::Settled(result) => {
                state.callbacks.push(Box::new(callback));
                drop(state);
                self.0.run_callbacks(result);
            }
            unsettled => {
                state.stage = unsettled;
                state.callbacks.push(Box::new(callback));
            }
        }
        true
    }
}

impl<T, E: From<JoinError>> Future for ConcurrentFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.0.take() {
            return Poll::Ready(result);
        }
        // Cloning and dropping a waker runs foreign code, so both happen outside of the lock.
        let waiting = Waiting {
            waker: cx.waker().clone(),
            keep_alive: KeepAlive::for_running_loop_unless(self.0.settling_loop.as_ref()),
        };
        let mut state = self.0.lock();
        if let Some(result) = state.take() {
            drop(state);
            return Poll::Ready(result);
        }
        if matches!(state.stage, ResultStage::Taken) {
            drop(state);
            return Poll::Ready(Err(cancelled().into()));
        }
        let former = state.waiting.replace(waiting);
        drop(state);
        drop(former);
        waits_for("ConcurrentFuture");
        Poll::Pending
    }
}

impl<T, E> Drop for ConcurrentFuture<T, E> {
    fn drop(&mut self) {
        // No task waits any more, so the loop need not be kept alive.
        let waiting = self.0.lock().waiting.take();
        drop(waiting);
    }
}

impl<T, E> fmt::Debug for ConcurrentFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentFuture").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
