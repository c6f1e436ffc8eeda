//! asyncio's `locks.py` (`Lock`, `Event`, `Condition`, `Semaphore`, `Barrier`), and `RwLock`, `Notify` and `OnceCell`.

mod barrier;
mod condition;
mod event;
#[allow(unsafe_code, reason = "the value is in an `UnsafeCell`, guarded by a permit")]
mod lock;
mod notify;
mod once_cell;
mod permits;
#[allow(unsafe_code, reason = "the value is in an `UnsafeCell`, guarded by permits")]
mod rw_lock;
mod semaphore;

pub use barrier::{Barrier, BrokenBarrierError};
pub use condition::Condition;
pub use event::Event;
pub use lock::{AnyLockGuard, Lock, LockGuard, OwnedLockGuard};
pub use notify::{Notified, Notify};
pub use once_cell::OnceCell;
pub use permits::{AcquireError, TryAcquireError};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{OwnedSemaphorePermit, ReleasedTooOften, Semaphore, SemaphorePermit};
