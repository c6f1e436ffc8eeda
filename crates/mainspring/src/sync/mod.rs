//! Synchronisation between the tasks of one loop, as asyncio's.

mod barrier;
pub mod broadcast;
mod channel_errors;
mod condition;
mod event;
pub(crate) mod line;
mod lock;
pub mod mpsc;
mod notify;
mod once_cell;
pub mod oneshot;
mod permits;
mod queue;
mod rw_lock;
mod semaphore;
pub(crate) mod wait_list;
pub mod watch;

pub use barrier::{Barrier, BrokenBarrierError};
pub use condition::Condition;
pub use event::Event;
pub use lock::{AnyLockGuard, Lock, LockGuard, OwnedLockGuard};
pub use notify::{Notified, Notify};
pub use once_cell::OnceCell;
pub use permits::{AcquireError, TryAcquireError};
pub use queue::{
    DoneTooOften, Fifo, GetError, LeastFirst, Lifo, LifoQueue, Order, OrderedQueue, PriorityQueue, PutError,
    Queue, QueueShutDown,
};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{OwnedSemaphorePermit, ReleasedTooOften, Semaphore, SemaphorePermit};
