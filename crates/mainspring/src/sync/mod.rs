//! Synchronisation between the tasks of one loop, as asyncio's, and channels.
//!
//! | asyncio | here | tokio |
//! | --- | --- | --- |
//! | `Lock` | [`Lock`], with what it guards inside | `Mutex` |
//! | `Event` | [`Event`] | |
//! | `Condition` | [`Condition`] | |
//! | `Semaphore`, `BoundedSemaphore` | [`Semaphore`] | `Semaphore` |
//! | `Barrier` | [`Barrier`] | `Barrier` |
//! | `Queue`, `LifoQueue`, `PriorityQueue` | [`Queue`], [`LifoQueue`], [`PriorityQueue`] | |
//! | | [`RwLock`], [`Notify`], [`OnceCell`] | the same |
//! | | [`mpsc`], [`oneshot`], [`watch`], [`broadcast`] | the same |
//! | `call_soon_threadsafe` for values | [`threadsafe`]: a channel from thread to thread | `mpsc` |
//!
//! Nothing here uses atomics or knows of a loop: these are for tasks of one thread, on whatever polls them. The exception
//! is [`threadsafe`], whose halves may be on different threads, with or without a loop. From other threads a loop is
//! reached by [`Remote`](crate::Remote) as well.
//!
//! # What holds for all of them
//!
//! - **Fair.** Who asks first is served first. Things go from hand to hand: what is freed is promised to who is first
//!   in line before that task runs, and nobody who comes in between takes it. So a future that was woken and is neither
//!   polled nor dropped keeps what it was promised from all others.
//! - **Cancel-safe.** A future that is dropped leaves no trace; what it was promised goes to the next. No item, permit
//!   or notification is lost. Its place in line is.
//! - **Wakers may do anything.** Nothing is borrowed while one is called, cloned or dropped.
//! - **On one thread**, but for [`threadsafe`]. A primitive itself may be moved to another thread before it is used, if what is in it may
//!   (`Send`), but never be shared with one (`!Sync`). Guards, permits, waits and the halves of channels stay where they are
//!   (`!Send`). Errors are plain values, and go anywhere.
//!
//! The receivers of [`mpsc`] and [`threadsafe`] are `Stream`s as well.
//!
//! The line that everybody stands in is `line.rs`, with its rules.

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
