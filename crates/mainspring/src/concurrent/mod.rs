//! `ConcurrentFuture`: a result that comes from another thread, as Python's `concurrent.futures.Future`.
//!
//! # The stages
//!
//! *Pending* until its [`Promise`] is kept or dropped, or it is cancelled ([`cancel`]). *Told* while the done callbacks look at the result, which is
//! out of the state meanwhile. Then it is *settled*, or goes straight to what was chained to it. *Taken* when somebody
//! has it. A result is in one place at any time, and each step to the next stage is made under the lock.
//!
//! Foreign code (callbacks, wakers, destructors) never runs under the lock. What is chained runs from a queue of the
//! thread that settles ([`relay`]): a chain of any length needs the stack of one link.

mod block_on_loop_thread;
mod cancel;
mod compose;
mod run_chained;

pub use cancel::CancelHandle;

use crate::event_loop::{ExceptionContext, KeepAlive, report_here, running_core};
use crate::host::Inbound;
use crate::panics::{Payload, catch, catch_payload};
use crate::task::JoinError;
use mainspring_engine::loom_shim::{Condvar, Mutex, MutexGuard};
use mainspring_engine::wakeup::Inbox;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What runs elsewhere, in the executor or on another thread's loop, and will give a `T`, or fail with an `E`.
///
/// Await it on any loop, [`wait`](ConcurrentFuture::wait) for it on a thread without one, or compose it: see
/// [`map`](ConcurrentFuture::map) and its kin. It is `Send` and `Sync` if `T` and `E` are `Send`. Dropping it does not
/// stop what runs: [`cancel`](ConcurrentFuture::cancel) does.
///
/// Cancel safety: awaiting `&mut future` and giving up loses nothing; the result stays until it is taken.
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

/// The other end of a [`ConcurrentFuture`]: gives it its result. Made by [`ConcurrentFuture::pair`].
///
/// Dropped unkept, it gives a [`JoinError`] that says "cancelled", so nobody waits in vain.
///
/// It is `Send` and `Sync` if `T` and `E` are `Send`.
///
/// ```
/// let (promise, answer) = mainspring::ConcurrentFuture::<&str>::pair();
/// std::thread::spawn(move || promise.set_result("from another thread"));
/// assert_eq!(mainspring::run(answer)?, Ok("from another thread"));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping a promise cancels its future"]
pub struct Promise<T: 'static, E: From<JoinError> + 'static = JoinError>(Option<Arc<Shared<T, E>>>);

struct Shared<T, E> {
    state: Mutex<SharedState<T, E>>,
    is_settled: Condvar,
    /// The loop that settles it, if one does: that one need not be told to wait for it.
    home: Option<TaskMetadata>,
}

type TaskMetadata = Arc<Inbox<Inbound>>;

/// Whether the loop runs on this thread, and so in a callback of its own.
fn runs_here(home: &TaskMetadata) -> bool {
    running_core().is_some_and(|core| Arc::ptr_eq(home, core.inbox()))
}

struct SharedState<T, E> {
    stage: Stage<T, E>,
    callbacks: Vec<DoneCallback<T, E>>,
    waiting: Option<Waiting>,
    /// Takes the result in place of everybody else.
    next: Option<Next<T, E>>,
    /// What is cancelled with it.
    upstream: Option<cancel::Upstream>,
    /// Who keeps the promise, and wants to know that the future is cancelled.
    keeper: Option<Waker>,
    /// A thread that waits for what is composed of it, and wants to know that it has another upstream.
    watcher: Option<Waker>,
    is_cancelled: bool,
}

/// See the module's text.
enum Stage<T, E> {
    Pending,
    Told,
    Settled(Result<T, E>),
    Taken,
}

impl<T, E> Stage<T, E> {
    fn is_finished(&self) -> bool {
        matches!(self, Stage::Settled(_) | Stage::Taken)
    }
}

/// A task that waits. Its loop is not idle as long as it does.
struct Waiting {
    waker: Waker,
    keep_alive: Option<KeepAlive>,
}

/// Nobody keeps the promise any more.
fn cancelled() -> JoinError {
    JoinError::cancelled(None)
}

pub(crate) fn panicked(payload: Payload) -> JoinError {
    JoinError::panicked(None, payload)
}

/// What was to keep the promise takes nothing more.
pub(crate) fn refused() -> JoinError {
    JoinError::refused()
}

type DoneCallback<T, E> = Box<dyn FnOnce(&Result<T, E>) + Send>;
type Next<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

impl<T, E> Shared<T, E> {
    fn lock(&self) -> MutexGuard<'_, SharedState<T, E>> {
        // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result, if it is there.
    fn take(&self) -> Option<Result<T, E>> {
        self.lock().take()
    }
}

impl<T, E> SharedState<T, E> {
    fn take(&mut self) -> Option<Result<T, E>> {
        match mem::replace(&mut self.stage, Stage::Taken) {
            Stage::Settled(result) => Some(result),
            other => {
                self.stage = other;
                None
            }
        }
    }
}

impl<T: 'static, E: 'static> Shared<T, E> {
    /// Settles, unless it is cancelled: then nobody wants the result.
    fn settle(&self, result: Result<T, E>, is_cancelled: bool) {
        let mut state = self.lock();
        if !matches!(state.stage, Stage::Pending) {
            drop(state);
            return drop(result);
        }
        state.stage = Stage::Told;
        state.is_cancelled = is_cancelled;
        let (upstream, keeper) = (state.upstream.take(), state.keeper.take());
        drop(state);
        drop((upstream, keeper));
        self.tell(result);
    }

    /// Shows the result to the callbacks, also to those that come meanwhile, and hands it on.
    fn tell(&self, result: Result<T, E>) {
        loop {
            let mut state = self.lock();
            let callbacks = mem::take(&mut state.callbacks);
            if callbacks.is_empty() {
                return self.hand_on(state, result);
            }
            drop(state);
            for callback in callbacks {
                if let Err(text) = catch(|| callback(&result)) {
                    report_here(&ExceptionContext::of_panic("A done callback panicked", text));
                }
            }
        }
    }

    fn hand_on(&self, mut state: MutexGuard<'_, SharedState<T, E>>, result: Result<T, E>) {
        let waiting = state.waiting.take();
        if let Some(next) = state.next.take() {
            state.stage = Stage::Taken;
            drop(state);
            drop(waiting);
            run_chained::run(move || next(result));
            return;
        }
        state.stage = Stage::Settled(result);
        drop(state);
        self.is_settled.notify_all();
        if let Some(Waiting { waker, keep_alive }) = waiting {
            waker.wake();
            // Only now: what was woken is on its way to the loop.
            drop(keep_alive);
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> Promise<T, E> {
    /// Gives the future its result.
    ///
    /// Its callbacks and what is composed of it run here, on this thread.
    pub fn set_result(self, result: T) {
        self.settle(Ok(result));
    }

    /// Gives the future an error in place of a result.
    ///
    /// ```
    /// use mainspring::ConcurrentFuture;
    /// use std::io;
    ///
    /// let (promise, answer) = ConcurrentFuture::<i32, io::Error>::pair();
    /// promise.set_error(io::ErrorKind::TimedOut.into());
    /// assert_eq!(answer.wait().unwrap_err().kind(), io::ErrorKind::TimedOut);
    /// ```
    pub fn set_error(self, error: E) {
        self.settle(Err(error));
    }

    /// Settles with what `run` gives, or with its panic. If the future is cancelled, `run` is dropped in place of that.
    pub(crate) fn settle_with(self, run: impl FnOnce() -> Result<T, E>) {
        if self.is_cancelled() {
            return drop(run);
        }
        let result = catch_payload(run).unwrap_or_else(|payload| Err(panicked(payload).into()));
        self.settle(result);
    }

    pub(crate) fn settle(mut self, result: Result<T, E>) {
        if let Some(shared) = self.0.take() {
            shared.settle(result, false);
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> Drop for Promise<T, E> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.settle(Err(cancelled().into()), true);
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> fmt::Debug for Promise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
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
        Self::pair_of(None)
    }

    /// A pair whose promise is kept by a task or call of the loop with this inbox.
    pub(crate) fn pair_of(home: Option<TaskMetadata>) -> (Promise<T, E>, ConcurrentFuture<T, E>) {
        let future = Self::at(Stage::Pending, home);
        (Promise(Some(Arc::clone(&future.0))), future)
    }

    /// A future that has its result already.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// assert_eq!(ConcurrentFuture::ready(Ok::<_, JoinError>(1)).wait(), Ok(1));
    /// ```
    pub fn ready(result: Result<T, E>) -> Self {
        Self::at(Stage::Settled(result), None)
    }

    fn at(stage: Stage<T, E>, home: Option<TaskMetadata>) -> Self {
        let state = SharedState {
            stage,
            callbacks: Vec::new(),
            waiting: None,
            next: None,
            upstream: None,
            keeper: None,
            watcher: None,
            is_cancelled: false,
        };
        ConcurrentFuture(Arc::new(Shared { state: Mutex::new(state), is_settled: Condvar::new(), home }))
    }

    /// Blocks this thread until the result is there, and gives it, or the error in its place.
    ///
    /// # Panics
    ///
    /// If the loop that is to produce the result, or something that this one is composed of, runs on this thread, and has not
    /// done so: that would be for ever. Await it there.
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
            run_chained::run_waiting();
        }
        if running_core().is_some() {
            return match block_on_loop_thread::block_on_loop_thread(&mut self) {
                Some(result) => result,
                None => panic!(
                    "this thread runs the loop that is to produce the result: await it in place of wait()"
                ),
            };
        }
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.take() {
                return result;
            }
            if matches!(state.stage, Stage::Taken) {
                return Err(cancelled().into());
            }
            state = self.0.is_settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`wait`](ConcurrentFuture::wait), but for no longer than `limit`: then the future comes back. On the thread of the
    /// loop that would settle it, that is all of `limit`, and in vain.
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
        // A limit that is beyond the clock is none.
        let Some(deadline) = Instant::now().checked_add(limit) else { return Ok(self.wait()) };
        if !self.is_finished() {
            run_chained::run_waiting();
        }
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.take() {
                return Ok(result);
            }
            if matches!(state.stage, Stage::Taken) {
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

    /// Hands the result to `next`, on the thread that settles; here, if the result is there.
    fn chain(self, next: Next<T, E>) {
        let mut state = self.0.lock();
        if let Some(result) = state.take() {
            drop(state);
            run_chained::run(move || next(result));
        } else if matches!(state.stage, Stage::Taken) {
            drop(state);
            run_chained::run(move || next(Err(cancelled().into())));
        } else {
            state.next = Some(next);
        }
    }
}

impl<T, E> ConcurrentFuture<T, E> {
    /// Whether the result is there, or was.
    #[doc(alias = "done")]
    #[doc(alias = "is_done")]
    pub fn is_finished(&self) -> bool {
        self.0.lock().stage.is_finished()
    }

    /// Shows the result to `callback` when it is there, before anybody gets it: on the thread that settles, or here if
    /// it is there already. A panic in it goes to the exception handler of the loop that runs on that thread, or to stderr.
    ///
    /// `false`, and the callback is not called, if somebody has taken the result.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let (promise, answer) = mainspring::ConcurrentFuture::<i32>::pair();
    /// let (tell, told) = mpsc::channel();
    /// assert!(answer.add_done_callback(move |result| tell.send(result.is_ok()).unwrap()));
    /// promise.set_result(42);
    /// assert!(told.recv().unwrap());
    /// assert_eq!(answer.wait(), Ok(42));
    /// ```
    pub fn add_done_callback(&self, callback: impl FnOnce(&Result<T, E>) + Send + 'static) -> bool
    where
        T: 'static,
        E: 'static,
    {
        let mut state = self.0.lock();
        match mem::replace(&mut state.stage, Stage::Told) {
            Stage::Taken => {
                state.stage = Stage::Taken;
                return false;
            }
            Stage::Settled(result) => {
                state.callbacks.push(Box::new(callback));
                drop(state);
                self.0.tell(result);
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
        // Cloning and dropping a waker is foreign code: both outside of the lock.
        let waiting =
            Waiting { waker: cx.waker().clone(), keep_alive: KeepAlive::unless(self.0.home.as_ref()) };
        let mut state = self.0.lock();
        if let Some(result) = state.take() {
            drop(state);
            return Poll::Ready(result);
        }
        if matches!(state.stage, Stage::Taken) {
            drop(state);
            return Poll::Ready(Err(cancelled().into()));
        }
        let former = state.waiting.replace(waiting);
        drop(state);
        drop(former);
        Poll::Pending
    }
}

impl<T, E> Drop for ConcurrentFuture<T, E> {
    fn drop(&mut self) {
        // Nobody waits here any more, and no loop has to stay for it.
        let waiting = self.0.lock().waiting.take();
        drop(waiting);
    }
}

impl<T, E> fmt::Debug for ConcurrentFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentFuture").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
