//! Locks, atomics and the pause of a waiting thread: the standard library's, or loom's when the crate is built
//! with `--cfg loom`, so that the models explore the very code that ships.

#[cfg(not(loom))]
pub use std::{
    sync::{Condvar, Mutex, MutexGuard, atomic},
    thread::yield_now,
};

#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex, MutexGuard, atomic};

#[cfg(all(loom, test))]
pub use loom::thread::yield_now;
