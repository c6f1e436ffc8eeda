//! Synchronisation primitives for the tasks of one loop, as in asyncio, and channels.
//!
//! | asyncio | here | tokio |
//! | --- | --- | --- |
//! | `Lock` | [`Lock`], which contains the guarded value | `Mutex` |
//! | `Event` | [`Event`] | |
//! | `Condition` | [`Condition`] | |
//! | `Semaphore`, `BoundedSemaphore` | [`Semaphore`] | `Semaphore` |
//! | `Barrier` | [`Barrier`] | `Barrier` |
//! | `Queue`, `LifoQueue`, `PriorityQueue` | [`Queue`], [`LifoQueue`], [`PriorityQueue`] | |
//! | | [`RwLock`], [`Notify`], [`OnceCell`] | the same |
//! | | [`mpsc`], [`oneshot`], [`watch`], [`broadcast`] | the same |
//! | `call_soon_threadsafe` for values | [`threadsafe`]: a channel from thread to thread | `mpsc` |
//!
//! The primitives use no atomics and no loop: they are for tasks of one thread, whatever polls them. The exception is
//! [`threadsafe`]: its halves may be on different threads, with or without a loop. [`Remote`](crate::Remote) also
//! reaches a loop from other threads.
//!
//! # Common properties
//!
//! - **Fair.** First in, first out. A permit, item or lock that becomes free is assigned to the first waiter before
//!   that task runs, so a newcomer cannot take it. So a future that was woken, but is neither polled nor dropped,
//!   blocks what it was assigned.
//! - **Cancel-safe.** Dropping a waiting future removes it from the queue, and its assignment goes to the next waiter.
//!   No item, permit or notification is lost; the place in the queue is.
//! - **Wakers may re-enter.** Nothing is borrowed while a waker is called, cloned or dropped.
//! - **Single-threaded**, except [`threadsafe`]. A primitive may be moved to another thread before it is used if its
//!   content is `Send`, but it cannot be shared (`!Sync`). Guards, permits, waits and halves of channels are `!Send`.
//!   Errors are plain values.
//!
//! The receivers of [`mpsc`] and [`threadsafe`] also implement `Stream`.
//!
//! `wait_list/wait_queue/` has the queue of waiters and its rules.

mod channel;
mod locks;
mod queue;
mod state_cell;
pub(crate) mod wait_list;

pub use channel::{broadcast, mpsc, oneshot, threadsafe, watch};
pub use locks::{
    AcquireError, AnyLockGuard, Barrier, BrokenBarrierError, Condition, Event, Lock, LockGuard, Notified,
    Notify, OnceCell, OwnedLockGuard, OwnedSemaphorePermit, ReleasedTooOften, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Semaphore, SemaphorePermit, TryAcquireError,
};
pub use queue::{
    DoneTooOften, Fifo, GetError, LeastFirst, Lifo, LifoQueue, Order, OrderedQueue, PriorityQueue, PutError,
    Queue, QueueShutDown,
};
