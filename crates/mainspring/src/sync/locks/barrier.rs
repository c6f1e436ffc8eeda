//! `Barrier`: holds tasks until a given number has arrived.

use crate::sync::wait_list::wait_queue::{self, WaitQueue, WaiterKey, Waiters};
use crate::task::waits_for;
use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Holds tasks until `parties` of them wait, as `asyncio.Barrier`.
///
/// Then all of them pass and the next round begins at once. A task that was released has passed, even if the barrier is
/// aborted before the task runs. (In asyncio the next round begins when the tasks of the last one have run.) It is for
/// the tasks of one thread (`!Sync`); share it through an [`Rc`](std::rc::Rc).
///
/// ```
/// use mainspring::{spawn, sync::Barrier};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let barrier = Rc::new(Barrier::new(3));
/// assert_eq!((barrier.parties(), barrier.n_waiting()), (3, 0));
/// let tasks = [(); 3].map(|()| {
///     let barrier = barrier.clone();
///     spawn(async move { barrier.wait().await })
/// });
/// for (index, task) in tasks.into_iter().enumerate() {
///     assert_eq!(task.await.unwrap(), Ok(index));
/// }
/// barrier.abort();
/// assert!(barrier.broken());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Barrier {
    parties: usize,
    state: RefCell<BarrierState>,
}

struct BarrierState {
    is_broken: bool,
    /// The index of each waiter that passes. A waiter notified without an index returns [`BrokenBarrierError`].
    waiters: WaitQueue<Option<usize>>,
}

/// The barrier was aborted, or reset while the task waited.
///
/// ```
/// use mainspring::{spawn, sync::{Barrier, BrokenBarrierError}};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let barrier = Rc::new(Barrier::new(2));
/// let waits = barrier.clone();
/// let task = spawn(async move { waits.wait().await });
/// mainspring::yield_now().await;
/// // The other party does not arrive.
/// barrier.abort();
/// assert_eq!(task.await, Ok(Err(BrokenBarrierError)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenBarrierError;

impl fmt::Display for BrokenBarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the barrier is broken")
    }
}

impl std::error::Error for BrokenBarrierError {}

impl Barrier {
    /// A barrier for `parties` tasks; zero counts as one.
    pub const fn new(parties: usize) -> Self {
        let parties = if parties == 0 { 1 } else { parties };
        Barrier { parties, state: RefCell::new(BarrierState { is_broken: false, waiters: WaitQueue::new() }) }
    }

    /// Waits until `parties` tasks wait. Returns a different index for each, from 0 in the order of arrival.
    /// [`BrokenBarrierError`] if the barrier is aborted or reset first.
    ///
    /// Cancel safety: a task that is cancelled no longer counts. The barrier does not break.
    pub async fn wait(&self) -> Result<usize, BrokenBarrierError> {
        Wait { barrier: self, key: None }.await
    }

    /// Resets the barrier, also after `abort`: current waiters get [`BrokenBarrierError`], later ones wait.
    ///
    /// ```
    /// # use mainspring::sync::{Barrier, BrokenBarrierError};
    /// # mainspring::run(async {
    /// let barrier = Barrier::new(1);
    /// barrier.abort();
    /// assert!(barrier.broken());
    /// assert_eq!(barrier.wait().await, Err(BrokenBarrierError));
    /// barrier.reset();
    /// assert_eq!(barrier.wait().await, Ok(0));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reset(&self) {
        self.break_waiters(false);
    }

    /// Breaks the barrier: current and later waiters get [`BrokenBarrierError`] until [`reset`](Barrier::reset).
    pub fn abort(&self) {
        self.break_waiters(true);
    }

    /// The number of tasks that pass together.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// The number of tasks that wait now.
    ///
    /// ```
    /// use mainspring::{spawn, sync::Barrier};
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let barrier = Rc::new(Barrier::new(2));
    /// let waits = barrier.clone();
    /// let task = spawn(async move { waits.wait().await });
    /// mainspring::yield_now().await;
    /// assert_eq!((barrier.n_waiting(), barrier.parties()), (1, 2));
    /// barrier.wait().await.unwrap();
    /// assert_eq!(barrier.n_waiting(), 0);
    /// # task.await.unwrap().unwrap();
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn n_waiting(&self) -> usize {
        self.state.borrow().waiters.waiting()
    }

    /// Whether the barrier was aborted.
    pub fn broken(&self) -> bool {
        self.state.borrow().is_broken
    }

    fn break_waiters(&self, is_broken: bool) {
        let mut state = self.state.borrow_mut();
        state.is_broken = is_broken;
        state.waiters.notify_all();
        drop(state);
        wait_queue::wake_notified(&self.state, |state| &mut state.waiters);
    }

    /// If the caller is the last party, lets all pass and returns its index.
    fn arrive(&self) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let last = self.parties - 1;
        if state.waiters.waiting() < last {
            return None;
        }
        let mut index = 0;
        while let Some(data) = state.waiters.notify_first() {
            *data = Some(index);
            index += 1;
        }
        drop(state);
        wait_queue::wake_notified(&self.state, |state| &mut state.waiters);
        Some(last)
    }
}

struct Wait<'a> {
    barrier: &'a Barrier,
    key: Option<WaiterKey>,
}

impl Future for Wait<'_> {
    type Output = Result<usize, BrokenBarrierError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Wait { barrier, key } = &mut *self;
        if key.is_none() {
            if barrier.broken() {
                return Poll::Ready(Err(BrokenBarrierError));
            }
            if let Some(index) = barrier.arrive() {
                return Poll::Ready(Ok(index));
            }
        }
        let waiting_key = key.get_or_insert_with(|| barrier.state.borrow_mut().waiters.enqueue(None, None));
        wait_queue::register_waker(&barrier.state, |state| &mut state.waiters, waiting_key, cx);
        if !barrier.state.borrow().waiters.is_notified(waiting_key) {
            waits_for("Barrier::wait");
            return Poll::Pending;
        }
        let Some(waiting_key) = key.take() else { return Poll::Pending };
        let removed = barrier.state.borrow_mut().waiters.remove(waiting_key);
        Poll::Ready(removed.data.ok_or(BrokenBarrierError))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let removed = self.barrier.state.borrow_mut().waiters.remove(key);
            drop(removed);
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("parties", &self.parties)
            .field("waiting", &self.n_waiting())
            .field("broken", &self.broken())
            .finish_non_exhaustive()
    }
}
