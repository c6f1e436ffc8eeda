//! `KeepAlive`: keeps a loop from being idle.

use super::running;
use crate::host::Inbound;
use mainspring_engine::wakeup::Inbox;
use std::fmt;
use std::sync::Arc;

/// While it exists, the loop is not idle: [`EventLoop::run_until_idle`](crate::EventLoop::run_until_idle) waits for
/// events from other threads. Created by [`Remote::keep_alive`](crate::Remote::keep_alive).
///
/// It is `Send` and `Sync`, and may outlive the loop.
///
/// ```
/// use std::sync::mpsc;
///
/// let event_loop = mainspring::EventLoop::new()?;
/// let (remote, keep_alive) = (event_loop.remote(), event_loop.remote().keep_alive());
/// let (sender, receiver) = mpsc::channel();
/// std::thread::spawn(move || {
///     remote.call_soon_threadsafe(move || sender.send("from another thread").unwrap()).unwrap();
///     drop(keep_alive);
/// });
/// event_loop.run_until_idle()?;
/// assert_eq!(receiver.try_recv(), Ok("from another thread"));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "the loop is kept alive until this is dropped"]
pub struct KeepAlive {
    inbox: Arc<Inbox<Inbound>>,
    is_job: bool,
}

impl KeepAlive {
    pub(crate) fn new(inbox: &Arc<Inbox<Inbound>>) -> Self {
        inbox.expect();
        KeepAlive { inbox: Arc::clone(inbox), is_job: false }
    }

    /// For an executor job: virtual time also waits for it.
    pub(crate) fn for_job(inbox: &Arc<Inbox<Inbound>>) -> Self {
        inbox.begin_work();
        KeepAlive { inbox: Arc::clone(inbox), is_job: true }
    }

    /// For the loop that runs on this thread, unless its inbox is `other`.
    pub(crate) fn for_running_loop_unless(other: Option<&Arc<Inbox<Inbound>>>) -> Option<Self> {
        let core = running::running_core()?;
        let is_other = other.is_some_and(|other| Arc::ptr_eq(other, core.inbox()));
        (!is_other).then(|| KeepAlive::new(core.inbox()))
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        if self.is_job {
            self.inbox.end_work();
        } else {
            self.inbox.expect_no_more();
        }
    }
}

impl fmt::Debug for KeepAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepAlive").finish_non_exhaustive()
    }
}
