//! `Remote`: a reference to a loop for other threads.

use crate::concurrent::{ConcurrentFuture, Promise, panicked};
use crate::error::Error;
use crate::event_loop::{KeepAlive, running_core, wake_call};
use crate::host::Inbound;
use crate::panics::catch_payload;
use crate::task::{JoinError, Task, current_task};
use mainspring_engine::wakeup::Inbox;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A reference to a loop for other threads: `Send` and `Sync`. Clones refer to the same loop. It may outlive the
/// loop; its methods then fail.
///
/// ```
/// use mainspring::{Error, EventLoop};
///
/// let event_loop = EventLoop::new()?;
/// let remote = event_loop.remote();
/// let other = std::thread::spawn(move || {
///     remote.call_soon_threadsafe(|| EventLoop::current().stop())?;
///     Ok::<_, Error>(remote)
/// });
/// event_loop.run_forever()?;
/// let remote = other.join().unwrap()?;
/// assert!(!remote.is_closed());
/// drop(event_loop);
/// assert!(remote.is_closed());
/// assert!(matches!(remote.call_soon_threadsafe(|| ()), Err(Error::Closed)));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<Inbox<Inbound>>,
    /// While it exists, the loop is not deadlocked. `None` for the crate's own.
    _counted: Option<Arc<()>>,
}

impl Remote {
    /// A remote that the crate itself uses.
    pub(crate) fn new(inbox: Arc<Inbox<Inbound>>) -> Self {
        Remote { inbox, _counted: None }
    }

    /// A remote for the program. `remotes` counts it.
    pub(crate) fn counted(inbox: Arc<Inbox<Inbound>>, remotes: &Arc<()>) -> Self {
        Remote { inbox, _counted: Some(Arc::clone(remotes)) }
    }

    /// Calls `callback` on the loop's thread and wakes the loop. On the loop's own thread this is
    /// [`EventLoop::call_soon`](crate::EventLoop::call_soon) in the normal lane.
    ///
    /// [`Error::Closed`] if the loop is closed.
    pub fn call_soon_threadsafe(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        wake_call(&self.inbox, Inbound::Once(Box::new(callback)))
    }

    /// Makes a future on the loop's thread, so that it need not be `Send`, and runs it there as a task. asyncio's
    /// `run_coroutine_threadsafe`.
    ///
    /// If the loop is closed before the task is done, the result is a cancelled [`JoinError`].
    /// [`cancel`](ConcurrentFuture::cancel) cancels the task, from any thread.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let remote = event_loop.remote();
    /// let other = std::thread::spawn(move || {
    ///     let answer = remote.spawn(|| async { 6 * 7 }).unwrap().wait();
    ///     remote.stop().unwrap();
    ///     answer
    /// });
    /// event_loop.run_forever()?;
    /// assert_eq!(other.join().unwrap(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "run_coroutine_threadsafe")]
    pub fn spawn<M, F>(&self, make: M) -> Result<ConcurrentFuture<F::Output>, Error>
    where
        M: FnOnce() -> F + Send + 'static,
        F: IntoFuture<IntoFuture: 'static, Output: Send + 'static>,
    {
        let (promise, future) = self.pair();
        self.call_soon_threadsafe(move || {
            // A callback runs only while its loop does.
            if let Some(core) = running_core() {
                Task::start(&core, settle_with_future(promise, move || make().into_future()));
            }
        })?;
        Ok(future)
    }

    /// A future that the loop itself settles.
    pub(crate) fn pair<T: 'static, E: From<JoinError> + 'static>(
        &self,
    ) -> (Promise<T, E>, ConcurrentFuture<T, E>) {
        ConcurrentFuture::pair_settled_by(Some(Arc::clone(&self.inbox)))
    }

    /// Keeps [`run_until_idle`](crate::EventLoop::run_until_idle) running until the returned value is dropped: for
    /// events from other threads that the loop cannot know of.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let remote = event_loop.remote();
    /// let keep_alive = remote.keep_alive();
    /// let other = std::thread::spawn(move || {
    ///     let answer = remote.spawn(|| async { 6 * 7 });
    ///     drop(keep_alive);
    ///     answer.unwrap().wait()
    /// });
    /// event_loop.run_until_idle()?;
    /// assert_eq!(other.join().unwrap(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn keep_alive(&self) -> KeepAlive {
        KeepAlive::new(&self.inbox)
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox<Inbound>> {
        &self.inbox
    }

    /// [`EventLoop::stop`](crate::EventLoop::stop), from any thread. [`Error::Closed`] if the loop is closed.
    pub fn stop(&self) -> Result<(), Error> {
        wake_call(&self.inbox, Inbound::Stop)
    }

    /// Whether the loop is closed.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }
}

/// Settles `promise` with the output or the panic of a future, after that future is dropped. Cancels its task when the
/// future of the promise is cancelled.
async fn settle_with_future<F: Future<Output: 'static>>(
    mut promise: Promise<F::Output>,
    make: impl FnOnce() -> F,
) {
    let mut result = pin!(async {
        let mut future = pin!(Some(catch_payload(make)?));
        let polled = poll_fn(|cx| {
            let polled = future.as_mut().as_pin_mut().map(|future| catch_payload(|| future.poll(cx)));
            match polled {
                Some(Ok(Poll::Pending)) | None => Poll::Pending,
                Some(Ok(Poll::Ready(output))) => Poll::Ready(Ok(output)),
                Some(Err(payload)) => Poll::Ready(Err(payload)),
            }
        });
        let result = polled.await;
        catch_payload(|| future.set(None))?;
        result
    });
    let result = poll_fn(|cx| {
        if promise.poll_cancelled(cx).is_pending() {
            return result.as_mut().poll(cx);
        }
        // This future is not polled again.
        if let Some(task) = current_task() {
            task.cancel();
        }
        Poll::Pending
    });
    let result = result.await;
    promise.settle(result.map_err(panicked));
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
