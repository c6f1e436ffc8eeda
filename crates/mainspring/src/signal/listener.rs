//! `Signal`: a stream of one signal's arrivals.

use super::{CaughtSignals, SignalKind};
use crate::current_core::current_core;
use crate::event_loop::Core;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// Listens to the signal `kind`, on the loop that runs here: see [`Signal`].
///
/// From here on the signal does not do what it did before, such as ending the process. `InvalidInput` for what is no
/// signal, for SIGKILL and SIGSTOP, which cannot be caught, and for the faults of running code.
///
/// ```
/// use mainspring::signal::{SignalKind, signal};
///
/// # mainspring::run(async {
/// let refused = signal(SignalKind::from_raw(9)).unwrap_err();
/// assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let core = current_core()?;
    let listener = Rc::new(Listener::default());
    CaughtSignals::add_stream(&core, kind.as_raw(), Rc::clone(&listener))?;
    Ok(Signal { core: Rc::downgrade(&core), kind, listener })
}

/// Waits for one Ctrl-C (SIGINT).
///
/// It listens from the first time it is polled. When it is done, or dropped, and nobody else listens, Ctrl-C ends the
/// process again: a program that wants to tidy up undisturbed keeps a [`Signal`] meanwhile.
///
/// Cancel safety: safe; a Ctrl-C that came in the moment of cancelling is forgotten.
///
/// ```
/// use mainspring::{signal, timeout};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// // Nobody presses it.
/// assert!(timeout(Duration::from_millis(1), signal::ctrl_c()).await.is_err());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    match interrupts.recv().await {
        Some(()) => Ok(()),
        None => Err(crate::Error::Closed.into()),
    }
}

/// The arrivals of one signal, from [`signal`].
///
/// Each `Signal` is told by itself: none takes an arrival away from another. Signals that come before the former is
/// taken are one, as they are in the kernel.
///
/// It belongs to its loop and its thread, so it is not `Send`. Dropping it ends the listening. It is also a `Stream`.
///
/// ```
/// use mainspring::signal::{SignalKind, signal};
///
/// # mainspring::run(async {
/// let mut first = signal(SignalKind::user_defined1())?;
/// let mut second = signal(SignalKind::user_defined1())?;
/// # let _ = std::process::Command::new("kill").args(["-USR1", &std::process::id().to_string()]).status();
/// assert_eq!(first.recv().await, Some(()));
/// assert_eq!(second.recv().await, Some(()));
/// assert_eq!(first.kind(), second.kind());
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "it listens until it is dropped"]
pub struct Signal {
    core: Weak<Core>,
    kind: SignalKind,
    listener: Rc<Listener>,
}

impl Signal {
    /// Waits for the signal; at once if it came since the last time. `None` when the loop is closed.
    ///
    /// Cancel safety: safe; no arrival is lost.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Signal::recv), for code that is written without `await`. The task that asked last is woken.
    ///
    /// ```
    /// use mainspring::signal::{SignalKind, signal};
    /// use std::future::poll_fn;
    ///
    /// # mainspring::run(async {
    /// let mut resized = signal(SignalKind::window_change())?;
    /// assert_eq!(resized.kind(), SignalKind::window_change());
    /// # let _ = std::process::Command::new("kill").args(["-WINCH", &std::process::id().to_string()]).status();
    /// assert_eq!(poll_fn(|cx| resized.poll_recv(cx)).await, Some(()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.listener.poll(cx)
    }

    /// The signal that is listened to.
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// What [`recv`](Signal::recv) gives, until the loop is closed.
impl futures_core::Stream for Signal {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.poll_recv(cx)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            CaughtSignals::remove_stream(&core, self.kind.as_raw(), &self.listener);
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What a stream and its loop share.
#[derive(Default)]
pub(super) struct Listener {
    has_arrived: Cell<bool>,
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Listener {
    /// The signal came.
    pub(super) fn notify(&self) {
        self.has_arrived.set(true);
        self.wake();
    }

    /// It will not come again.
    pub(super) fn end(&self) {
        self.is_ended.set(true);
        self.wake();
    }

    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<()>> {
        // A clone is foreign code: it comes before anything is looked at.
        let waker = cx.waker().clone();
        if self.has_arrived.replace(false) {
            return Poll::Ready(Some(()));
        }
        if self.is_ended.get() {
            return Poll::Ready(None);
        }
        let former = self.waker.replace(Some(waker));
        drop(former);
        Poll::Pending
    }
}
