//! Synchronisation between the tasks of one loop, as asyncio's.

mod barrier;
mod condition;
mod event;
pub(crate) mod line;
mod lock;
mod notify;
mod once_cell;
mod permits;
mod rw_lock;
mod semaphore;
pub(crate) mod wait_list;

pub use barrier::{Barrier, BrokenBarrierError};
pub use condition::Condition;
pub use event::Event;
pub use lock::{AnyLockGuard, Lock, LockGuard, OwnedLockGuard};
pub use notify::{Notified, Notify};
pub use once_cell::OnceCell;
pub use permits::{AcquireError, TryAcquireError};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{OwnedSemaphorePermit, ReleasedTooOften, Semaphore, SemaphorePermit};
