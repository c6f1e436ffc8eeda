//! `Permits`: a number of equal things that are lent out in the order they are asked for.
//!
//! What [`Semaphore`](super::Semaphore), [`Lock`](super::Lock) and [`RwLock`](super::RwLock) are made of.
//!
//! Permits go from hand to hand: what is given back is taken off the count for who is first in line before that task
//! runs. So nobody who comes in between is faster, and who leaves with permits that it never saw gives them back. Who
//! wants many keeps those behind it waiting, though there may be enough for them: else it might wait for ever.

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
    /// There are never more than this.
    bound: usize,
    is_closed: bool,
    waiters: WaitQueue<PermitRequest>,
}

struct PermitRequest {
    permits: usize,
    /// Chosen because they are there, and not because there will be none.
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
    /// There are too few permits, or others wait for them.
    NoPermits,
}

/// The semaphore is closed, and gives no more permits.
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

    /// How many tasks wait.
    pub(super) fn waiting(&self) -> usize {
        self.state.borrow().waiters.waiting()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.borrow().is_closed
    }

    /// Whether a permit would have to be waited for.
    pub(super) fn is_exhausted(&self) -> bool {
        let state = self.state.borrow();
        state.available == 0 || state.waiters.waiting() > 0
    }

    pub(super) fn try_acquire(&self, permits: usize) -> Result<(), TryAcquireError> {
        self.state.borrow_mut().take(permits)
    }

    /// Waits for `permits` of them. Who gets them owes a [`give_back`](Permits::give_back).
    pub(super) fn acquire(&self, permits: usize) -> Acquire<'_> {
        Acquire { lender: self, permits, key: None }
    }

    /// Gives back what was acquired.
    pub(super) fn give_back(&self, permits: usize) {
        self.state.borrow_mut().add(permits);
        self.serve();
    }

    /// Adds permits. `false`, and nothing is added, if that were more than there may be.
    pub(super) fn release(&self, permits: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(available) = state.available.checked_add(permits).filter(|count| *count <= state.bound)
        else {
            return false;
        };
        state.available = available;
        drop(state);
        self.serve();
        true
    }

    /// Takes up to `permits` away for good, and says how many there were.
    pub(super) fn forget(&self, permits: usize) -> usize {
        let mut state = self.state.borrow_mut();
        let forgotten = permits.min(state.available);
        state.available -= forgotten;
        forgotten
    }

    /// Gives no more, and tells those who wait.
    pub(super) fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.is_closed = true;
        state.waiters.notify_all();
        drop(state);
        wait_queue::wake_notified(&self.state, |state| &mut state.waiters);
    }

    /// Gives to those in front what there is for them.
    fn serve(&self) {
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

    /// What comes back counts up to the bound: somebody may have released more than was out.
    fn add(&mut self, permits: usize) {
        self.available = self.available.saturating_add(permits).min(self.bound);
    }

    /// Chooses who is in front and can have what it wants.
    fn grant(&mut self) -> bool {
        let mut is_any = false;
        while self.waiters.first().is_some_and(|request| request.permits <= self.available)
            && let Some(request) = self.waiters.notify_first()
        {
            request.is_granted = true;
            self.available -= request.permits;
            is_any = true;
        }
        is_any
    }
}

/// The wait of [`Permits::acquire`].
pub(super) struct Acquire<'a> {
    lender: &'a Permits,
    permits: usize,
    key: Option<WaiterKey>,
}

impl Future for Acquire<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Acquire { lender, permits, key } = &mut *self;
        if key.is_none() {
            let mut state = lender.state.borrow_mut();
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
        wait_queue::register_waker(&lender.state, |state| &mut state.waiters, waiting, cx);
        if !lender.state.borrow().waiters.is_notified(waiting) {
            return Poll::Pending;
        }
        let Some(waiting) = key.take() else { return Poll::Pending };
        let removed = lender.state.borrow_mut().waiters.remove(waiting);
        Poll::Ready(if removed.data.is_granted { Ok(()) } else { Err(AcquireError) })
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut state = self.lender.state.borrow_mut();
        let removed = state.waiters.remove(key);
        if removed.data.is_granted {
            state.add(removed.data.permits);
        }
        drop(state);
        // Who stood in front and wanted much may have kept others waiting.
        self.lender.serve();
    }
}
