//! Queues between tasks: asyncio's `Queue`, `LifoQueue` and `PriorityQueue`.

mod errors;
mod futures;
mod order;
mod polling;
mod state;

pub use errors::{DoneTooOften, GetError, PutError, QueueShutDown};
pub use order::{Fifo, LeastFirst, Lifo, Order};

use crate::sync::wait_list::WaitList;
use crate::task::named;
pub(in crate::sync) use futures::{Get, GetMany, Put, Reserve};
pub(in crate::sync) use polling::QueueCell;
pub(in crate::sync) use state::QueueState;
use std::cell::RefCell;
use std::fmt;

/// A first in, first out queue, as `asyncio.Queue`. [`OrderedQueue`] has its methods.
///
/// ```
/// use mainspring::{spawn, sync::Queue};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let queue = Rc::new(Queue::new(2));
/// let producer = queue.clone();
/// spawn(async move {
///     for number in 1..=5 {
///         producer.put(number).await.unwrap();
///     }
///     producer.shutdown(false);
/// });
/// let mut sum = 0;
/// while let Ok(number) = queue.get().await {
///     sum += number;
/// }
/// assert_eq!(sum, 15);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type Queue<T> = OrderedQueue<T, Fifo<T>>;

/// A last in, first out queue, as `asyncio.LifoQueue`.
///
/// ```
/// let queue = mainspring::sync::LifoQueue::new(0);
/// for item in ["a", "b"] {
///     queue.put_nowait(item).unwrap();
/// }
/// assert_eq!(queue.get_nowait(), Ok("b"));
/// ```
pub type LifoQueue<T> = OrderedQueue<T, Lifo<T>>;

/// A queue that returns the least item first, as `asyncio.PriorityQueue`; equal items are first in, first out. For a
/// separate priority, put a pair.
///
/// ```
/// let queue = mainspring::sync::PriorityQueue::new(0);
/// for item in [(2, "later"), (1, "soon")] {
///     queue.put_nowait(item).unwrap();
/// }
/// assert_eq!(queue.get_nowait(), Ok((1, "soon")));
/// ```
pub type PriorityQueue<T> = OrderedQueue<T, LeastFirst<T>>;

/// A queue between tasks. [`Queue`], [`LifoQueue`] and [`PriorityQueue`] are aliases with an [`Order`].
///
/// Fair: [`get`](OrderedQueue::get) and [`put`](OrderedQueue::put) are served first in, first out. The `_nowait`
/// functions bypass the waiters, as in asyncio: while [`empty`](OrderedQueue::empty) is `false`,
/// [`get_nowait`](OrderedQueue::get_nowait) returns an item. A task that was woken for that item then continues to
/// wait, at its old place in the queue. It is for the tasks of one thread (`!Sync`); share it through an
/// [`Rc`](std::rc::Rc).
///
/// # Panics
///
/// If the [`Order`], or the comparison of a [`PriorityQueue`]'s items, uses the queue itself.
///
/// ```
/// use mainspring::sync::{Lifo, Order, OrderedQueue, Queue};
///
/// /// Takes all items, in the order of the queue.
/// fn take_all<T, O: Order<T>>(queue: &OrderedQueue<T, O>) -> Vec<T> {
///     std::iter::from_fn(|| queue.get_nowait().ok()).collect()
/// }
///
/// let (queue, stack) = (Queue::new(0), OrderedQueue::<_, Lifo<_>>::new(0));
/// for number in [1, 2] {
///     queue.put_nowait(number).unwrap();
///     stack.put_nowait(number).unwrap();
/// }
/// assert!(queue.qsize() == 2 && !queue.empty() && !queue.full());
/// assert_eq!((take_all(&queue), take_all(&stack)), (vec![1, 2], vec![2, 1]));
/// assert!(queue.maxsize() == 0 && !queue.is_shut_down());
/// ```
pub struct OrderedQueue<T, O: Order<T>> {
    state: RefCell<QueueState<T, O>>,
    /// Tasks in `join`.
    joining: WaitList,
}

impl<T, O: Order<T>> OrderedQueue<T, O> {
    /// A queue for `maxsize` items; zero means no limit.
    pub fn new(maxsize: usize) -> Self {
        OrderedQueue { state: RefCell::new(QueueState::new(maxsize)), joining: WaitList::new() }
    }

    /// Puts an item. Waits while the queue is full. [`QueueShutDown`] returns the item if the queue is shut down.
    ///
    /// Cancel safety: if this future is dropped before it is ready, the item is not put but dropped. The place in the
    /// queue is lost.
    ///
    /// ```
    /// use mainspring::sync::Queue;
    /// use mainspring::{timeout, join};
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let queue = Queue::new(1);
    /// queue.put(1).await.unwrap();
    /// // The queue is full, and no task takes an item.
    /// assert!(timeout(Duration::ZERO, queue.put(2)).await.is_err());
    /// let (put, got) = join((queue.put(3), queue.get())).await;
    /// assert_eq!((put, got), (Ok(()), Ok(1)));
    /// assert_eq!(queue.get().await, Ok(3));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn put(&self, item: T) -> impl Future<Output = Result<(), QueueShutDown<T>>> {
        Put::new(&self.state, item)
    }

    /// Puts an item if the queue is not full. [`PutError`] returns the item and the reason.
    ///
    /// ```
    /// use mainspring::sync::{PutError, Queue};
    ///
    /// let queue = Queue::new(1);
    /// assert_eq!(queue.put_nowait('a'), Ok(()));
    /// assert_eq!(queue.put_nowait('b'), Err(PutError::Full('b')));
    /// assert!(queue.full() && queue.qsize() == queue.maxsize());
    /// ```
    pub fn put_nowait(&self, item: T) -> Result<(), PutError<T>> {
        self.state.put_nowait(item)
    }

    /// The next item. Waits for one if there is none. [`QueueShutDown`] if the queue is shut down and empty.
    ///
    /// Cancel safety: no item is lost; the place in the queue is.
    ///
    /// ```
    /// use mainspring::{spawn, sync::Queue};
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let queue = Rc::new(Queue::new(0));
    /// let producer = queue.clone();
    /// spawn(async move { producer.put_nowait("work") });
    /// assert_eq!(queue.get().await, Ok("work"));
    /// queue.shutdown(false);
    /// assert!(queue.get().await.is_err());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn get(&self) -> impl Future<Output = Result<T, QueueShutDown>> {
        Get::new(&self.state)
    }

    /// The next item, if there is one. [`GetError`] is the reason otherwise.
    ///
    /// ```
    /// use mainspring::sync::{GetError, Queue};
    ///
    /// let queue = Queue::new(0);
    /// queue.put_nowait('a').unwrap();
    /// queue.shutdown(false);
    /// assert_eq!(queue.get_nowait(), Ok('a'));
    /// assert_eq!(queue.get_nowait(), Err(GetError::ShutDown));
    /// assert!(queue.empty());
    /// ```
    pub fn get_nowait(&self) -> Result<T, GetError> {
        self.state.get_nowait()
    }

    /// The number of items.
    pub fn qsize(&self) -> usize {
        self.state.borrow().store.len()
    }

    /// Whether there is no item.
    pub fn empty(&self) -> bool {
        !self.state.borrow().has_item()
    }

    /// Whether the queue is full. A queue without a limit never is.
    pub fn full(&self) -> bool {
        self.state.borrow().free_capacity() == 0
    }

    /// The limit of items; zero means no limit.
    pub fn maxsize(&self) -> usize {
        self.state.borrow().maxsize()
    }

    /// Marks one item that was taken as done. [`DoneTooOften`] if all items are done already.
    ///
    /// ```
    /// use mainspring::{spawn, sync::{DoneTooOften, Queue}};
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let queue = Rc::new(Queue::new(0));
    /// queue.put_nowait("work").unwrap();
    /// let worker = queue.clone();
    /// spawn(async move {
    ///     worker.get().await.unwrap();
    ///     worker.task_done().unwrap();
    /// });
    /// queue.join().await;
    /// assert_eq!(queue.task_done(), Err(DoneTooOften));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn task_done(&self) -> Result<(), DoneTooOften> {
        let mut state = self.state.borrow_mut();
        state.unfinished = state.unfinished.checked_sub(1).ok_or(DoneTooOften)?;
        let is_all = state.unfinished == 0;
        drop(state);
        if is_all {
            self.joining.wake_all();
        }
        Ok(())
    }

    /// Waits until [`task_done`](OrderedQueue::task_done) was called for every item that was put.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// use mainspring::{gather, select, sync::Queue};
    /// use std::cell::RefCell;
    ///
    /// # mainspring::run(async {
    /// let (queue, done) = (Queue::new(0), RefCell::new(Vec::new()));
    /// for number in 1..=6 {
    ///     queue.put_nowait(number).unwrap();
    /// }
    /// let worker = async || {
    ///     while let Ok(number) = queue.get().await {
    ///         mainspring::yield_now().await;
    ///         done.borrow_mut().push(number * number);
    ///         queue.task_done().unwrap();
    ///     }
    /// };
    /// // When all is done the workers are dropped.
    /// select(queue.join(), gather([worker(), worker(), worker()])).await;
    /// assert_eq!(*done.borrow(), [1, 4, 9, 16, 25, 36]);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn join(&self) {
        if self.state.borrow().unfinished > 0 {
            named(|| "Queue::join", self.joining.wait()).await;
        }
    }

    /// Shuts the queue down: `put` fails, and `get` fails when no items are left. `immediate` drops the items and
    /// counts them as done.
    ///
    /// ```
    /// use mainspring::sync::{PutError, Queue};
    ///
    /// let queue = Queue::new(0);
    /// queue.put_nowait(1).unwrap();
    /// queue.shutdown(true);
    /// assert!(queue.is_shut_down() && queue.empty());
    /// assert_eq!(queue.put_nowait(2), Err(PutError::ShutDown(2)));
    /// ```
    pub fn shutdown(&self, immediate: bool) {
        // Items are dropped last: their destructors find a consistent queue and no waiters.
        let (dropped, is_all) = self.state.shut_down(immediate);
        if is_all {
            self.joining.wake_all();
        }
        drop(dropped);
    }

    /// Whether [`shutdown`](OrderedQueue::shutdown) was called.
    pub fn is_shut_down(&self) -> bool {
        self.state.borrow().is_shut_down
    }
}

/// A queue without a limit.
impl<T, O: Order<T>> Default for OrderedQueue<T, O> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T, O: Order<T>> fmt::Debug for OrderedQueue<T, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.borrow().fmt(f)
    }
}
