//! `Permits`: a counter of permits that are acquired first in, first out.
//!
//! [`Semaphore`](super::Semaphore), [`Lock`](super::Lock) and [`RwLock`](super::RwLock) are built on it.
//!
//! A released permit is assigned to the first waiter before that task runs, so a newcomer cannot take it. A dropped
//! waiter releases its assigned permits. A waiter for many permits blocks the waiters behind it, even if there are
//! enough permits for them: otherwise it might starve.

use crate::sync::wait_list::wait_queue::{self, WaitQueue, WaiterKey, Waiters};
use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(super) struct Permits {
    state: RefCell<PermitState>,
}

struct PermitState {
    available: usize,
    /// The maximum of `available`.
    bound: usize,
    is_closed: bool,
    waiters: WaitQueue<PermitRequest>,
}

struct PermitRequest {
    permits: usize,
    /// Notified because the permits are assigned, not because of `close`.
    is_granted: bool,
}

/// Why there is no permit now.
///
/// ```
/// use mainspring::sync::{Semaphore, TryAcquireError};
///
/// let semaphore = Semaphore::new(0);
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
/// semaphore.close();
/// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// There are too few permits, or other tasks wait for them.
    NoPermits,
}

/// The semaphore is closed and grants no permits.
///
/// ```
/// use mainspring::{spawn, sync::{AcquireError, Semaphore}};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let semaphore = Rc::new(Semaphore::new(0));
/// let waits = semaphore.clone();
/// let task = spawn(async move { waits.acquire().await.map(drop) });
/// mainspring::yield_now().await;
/// semaphore.close();
/// assert_eq!(task.await, Ok(Err(AcquireError)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError;

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryAcquireError::Closed => AcquireError.fmt(f),
            TryAcquireError::NoPermits => f.write_str("there are too few permits at this time"),
        }
    }
}

impl std::error::Error for TryAcquireError {}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed")
    }
}

impl std::error::Error for AcquireError {}

impl Permits {
    pub(super) const fn new(available: usize, bound: usize) -> Self {
        let state = PermitState { available, bound, is_closed: false, waiters: WaitQueue::new() };
        Permits { state: RefCell::new(state) }
    }

    pub(super) fn available(&self) -> usize {
        self.state.borrow().available
    }

    /// The number of waiting tasks.
    pub(super) fn waiting(&self) -> usize {
        self.state.borrow().waiters.waiting()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.borrow().is_closed
    }

    /// Whether acquiring a permit would wait.
    pub(super) fn is_exhausted(&self) -> bool {
        let state = self.state.borrow();
        state.available == 0 || state.waiters.waiting() > 0
    }

    pub(super) fn try_acquire(&self, permits: usize) -> Result<(), TryAcquireError> {
        self.state.borrow_mut().take(permits)
    }

    /// Waits for `permits` permits. The caller must [`release`](Permits::release) them.
    pub(super) fn acquire(&self, permits: usize) -> Acquire<'_> {
        Acquire { source: self, permits, key: None }
    }

    /// Releases acquired permits.
    pub(super) fn release(&self, permits: usize) {
        self.state.borrow_mut().add(permits);
        self.grant_and_wake();
    }

    /// Adds permits. Returns `false` and adds none if that would exceed the bound.
    pub(super) fn try_add(&self, permits: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(available) = state.available.checked_add(permits).filter(|count| *count <= state.bound)
        else {
            return false;
        };
        state.available = available;
        drop(state);
        self.grant_and_wake();
        true
    }

    /// Removes up to `permits` permits for good. Returns how many.
    pub(super) fn remove_available(&self, permits: usize) -> usize {
        let mut state = self.state.borrow_mut();
        let removed_count = permits.min(state.available);
        state.available -= removed_count;
        removed_count
    }

    /// Grants no more permits, and wakes all waiters with an error.
    pub(super) fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.is_closed = true;
        state.waiters.notify_all();
        drop(state);
        wait_queue::wake_notified(&self.state, |state| &mut state.waiters);
    }

    /// Assigns the available permits to the first waiters, and wakes them.
    fn grant_and_wake(&self) {
        if self.state.borrow_mut().grant() {
            wait_queue::wake_notified(&self.state, |state| &mut state.waiters);
        }
    }
}

impl PermitState {
    fn take(&mut self, permits: usize) -> Result<(), TryAcquireError> {
        if self.is_closed {
            return Err(TryAcquireError::Closed);
        }
        if self.waiters.waiting() > 0 || self.available < permits {
            return Err(TryAcquireError::NoPermits);
        }
        self.available -= permits;
        Ok(())
    }

    /// Saturates at the bound: the program may have released more permits than were acquired.
    fn add(&mut self, permits: usize) {
        self.available = self.available.saturating_add(permits).min(self.bound);
    }

    /// Notifies the first waiters whose requests can be granted.
    fn grant(&mut self) -> bool {
        let mut has_any = false;
        while self.waiters.first().is_some_and(|request| request.permits <= self.available)
            && let Some(request) = self.waiters.notify_first()
        {
            request.is_granted = true;
            self.available -= request.permits;
            has_any = true;
        }
        has_any
    }
}

/// The future of [`Permits::acquire`].
pub(super) struct Acquire<'a> {
    source: &'a Permits,
    permits: usize,
    key: Option<WaiterKey>,
}

impl Future for Acquire<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Acquire { source, permits, key } = &mut *self;
        if key.is_none() {
            let mut state = source.state.borrow_mut();
            match state.take(*permits) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(TryAcquireError::Closed) => return Poll::Ready(Err(AcquireError)),
                Err(TryAcquireError::NoPermits) => {
                    *key = Some(
                        state.waiters.enqueue(PermitRequest { permits: *permits, is_granted: false }, None),
                    );
                }
            }
        }
        let Some(waiting) = key else { return Poll::Pending };
        wait_queue::register_waker(&source.state, |state| &mut state.waiters, waiting, cx);
        if !source.state.borrow().waiters.is_notified(waiting) {
            return Poll::Pending;
        }
        let Some(waiting) = key.take() else { return Poll::Pending };
        let removed = source.state.borrow_mut().waiters.remove(waiting);
        Poll::Ready(if removed.data.is_granted { Ok(()) } else { Err(AcquireError) })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut state = self.source.state.borrow_mut();
        let removed = state.waiters.remove(key);
        if removed.data.is_granted {
            state.add(removed.data.permits);
        }
        drop(state);
        // A large request in front may have blocked others.
        self.source.grant_and_wake();
    }
}
