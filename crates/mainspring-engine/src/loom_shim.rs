//! Locks, atomics and `yield_now`: the standard library's, or loom's with `--cfg loom`, so that the models check the
//! code that ships.

#[cfg(not(loom))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

#[cfg(all(loom, test))]
pub use loom::thread::yield_now;
