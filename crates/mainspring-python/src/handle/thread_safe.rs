//! `ThreadSafeHandle`, from Python 3.14 on: a thread that cancels it knows whether the callback ran.
//!
//! asyncio holds an `RLock` of the handle while its callback runs, and in `cancel()` and `cancelled()`. Here the handle
//! only stores which thread runs its callback: the interpreter lock orders everything else, and creating an `RLock` is
//! most of the cost of `call_soon_threadsafe()` (rows `A.threadsafe.*`). The other methods wait until no other thread runs
//! the callback.

use super::object::{Handle, HandleTypes};
use crate::python::interpreter::{detached, thread_ident};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a wait lasts before signal handlers run.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Threads that wait for the end of any callback.
static WAITING: AtomicUsize = AtomicUsize::new(0);
static LOCK: Mutex<()> = Mutex::new(());
static CALLBACK_ENDED: Condvar = Condvar::new();

/// Runs `body` while this thread counts as the one that runs the callback.
pub fn run<R>(
    py: Python<'_>,
    types: &HandleTypes,
    handle: &Handle,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    wait(py, types, handle)?;
    let running_in = &types.data(handle).word;
    let outer = running_in.replace(thread_ident());
    let result = body();
    running_in.set(outer);
    if WAITING.load(Ordering::Relaxed) > 0 {
        // A thread that waits has the lock until it sleeps, and does not need the interpreter lock for that.
        drop(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
        CALLBACK_ENDED.notify_all();
    }
    result
}

/// Waits until no other thread runs the callback.
#[inline]
pub fn wait(py: Python<'_>, types: &HandleTypes, handle: &Handle) -> PyResult<()> {
    while runs_elsewhere(types, handle) {
        wait_for_a_callback();
        py.check_signals()?;
    }
    Ok(())
}

#[inline]
fn runs_elsewhere(types: &HandleTypes, handle: &Handle) -> bool {
    let running_in = types.data(handle).word.get();
    running_in != 0 && running_in != thread_ident()
}

#[cold]
fn wait_for_a_callback() {
    // Both before the interpreter lock is released: the callback cannot end in between.
    WAITING.fetch_add(1, Ordering::Relaxed);
    let mut guard = Some(LOCK.lock().unwrap_or_else(PoisonError::into_inner));
    detached(&mut || {
        if let Some(guard) = guard.take() {
            drop(CALLBACK_ENDED.wait_timeout(guard, SIGNAL_INTERVAL));
        }
    });
    WAITING.fetch_sub(1, Ordering::Relaxed);
}
