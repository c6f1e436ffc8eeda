//! `Remote`: how other threads reach a loop.

use crate::concurrent::{self, ConcurrentFuture};
use crate::error::Error;
use crate::event_loop::{running_core, wake_call};
use crate::host::Inbound;
use crate::task::Task;
use crate::wakeup::Inbox;
use std::fmt;
use std::sync::Arc;

/// A loop as other threads see it. It may outlive the loop, and then refuses.
///
/// ```
/// let event_loop = mainspring::EventLoop::new()?;
/// let remote = event_loop.remote();
/// std::thread::spawn(move || {
///     remote.call_soon_threadsafe(|| mainspring::EventLoop::current().stop())
/// });
/// event_loop.run_forever()?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    inbox: Arc<Inbox<Inbound>>,
}

impl Remote {
    pub(crate) fn new(inbox: Arc<Inbox<Inbound>>) -> Self {
        Remote { inbox }
    }

    /// Calls `callback` on the loop's thread, and wakes the loop for it. From the loop's own thread this is
    /// [`EventLoop::call_soon`](crate::EventLoop::call_soon).
    ///
    /// [`Error::Closed`] if the loop is closed.
    pub fn call_soon_threadsafe(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        wake_call(&self.inbox, Inbound::Once(Box::new(callback)))
    }

    /// Makes a future on the loop's thread, so that it need not be `Send` itself, and runs it there as a task.
    ///
    /// The result is a [`JoinError`](crate::JoinError) that says "cancelled" if the loop is closed first.
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
    pub fn spawn<M, F>(&self, make: M) -> Result<ConcurrentFuture<F::Output>, Error>
    where
        M: FnOnce() -> F + Send + 'static,
        F: IntoFuture<IntoFuture: 'static, Output: Send + 'static>,
    {
        let (outcome, future) = concurrent::pair();
        self.call_soon_threadsafe(move || {
            // A callback runs only while its loop does.
            if let Some(core) = running_core() {
                let task = Task::start(&core, make().into_future());
                Task::start(&core, async move { outcome.settle(task.await) });
            }
        })?;
        Ok(future)
    }

    /// [`EventLoop::stop`](crate::EventLoop::stop), from any thread.
    pub fn stop(&self) -> Result<(), Error> {
        wake_call(&self.inbox, Inbound::Stop)
    }

    /// Whether the loop is closed.
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
