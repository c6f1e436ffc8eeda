//! `Signal`: a stream of the arrivals of one signal.

use super::{CaughtSignals, SignalKind};
use crate::event_loop::{Core, current_core};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// Listens to the signal `kind` on the running loop. See [`Signal`].
///
/// The default action of the signal, such as ending the process, is suspended. `InvalidInput` for numbers that are
/// not signals, for SIGKILL and SIGSTOP, which cannot be caught, and for faults such as SIGSEGV.
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
    let listener = Rc::new(SignalListener::default());
    CaughtSignals::add_listener(&core, kind.as_raw(), Rc::clone(&listener))?;
    Ok(Signal { core: Rc::downgrade(&core), kind, listener })
}

/// Waits for one Ctrl-C (SIGINT).
///
/// It listens from its first poll on. When it completes or is dropped and there is no other listener, Ctrl-C ends the
/// process again. Keep a [`Signal`] to prevent that during a clean shutdown.
///
/// Cancel safety: safe; a Ctrl-C that arrives at the moment of cancellation is ignored.
///
/// ```
/// use mainspring::{signal, timeout};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// // No Ctrl-C arrives.
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

/// The arrivals of one signal. Created by [`signal`].
///
/// Each `Signal` is notified independently. Arrivals before the next `recv` are merged into one, as in the kernel.
///
/// It is not `Send`. Dropping it stops listening. It implements `Stream`.
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
    listener: Rc<SignalListener>,
}

impl Signal {
    /// Waits for the signal. Completes at once if it arrived since the last call. `None` when the loop is closed.
    ///
    /// Cancel safety: safe; no arrival is lost.
    pub async fn recv(&mut self) -> Option<()> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// As [`recv`](Signal::recv), for manual polling. Only the last polling task is woken.
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

    /// The signal.
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// Yields the results of [`recv`](Signal::recv) until the loop is closed.
impl futures_core::Stream for Signal {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.poll_recv(cx)
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            CaughtSignals::remove_listener(&core, self.kind.as_raw(), &self.listener);
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// State shared between a `Signal` and its loop.
#[derive(Default)]
pub(super) struct SignalListener {
    has_arrived: Cell<bool>,
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl SignalListener {
    /// The signal arrived.
    pub(super) fn notify(&self) {
        self.has_arrived.set(true);
        self.wake();
    }

    /// The loop is closed.
    pub(super) fn close(&self) {
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
        // Cloning a waker is user code, so do it before reading the state.
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
