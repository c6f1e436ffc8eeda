//! The interpreter and its lock, as seen by the current thread.

use pyo3::ffi;
use pyo3::prelude::*;

/// The token of a thread that holds the interpreter lock.
///
/// Code of this crate runs only below an entry point that CPython called (`guard.rs`), so its thread is attached. The
/// one exception is the closure of [`detached`], which is the engine's wait in the kernel and does not come back here.
#[inline]
pub fn attached<'py>() -> Python<'py> {
    // SAFETY: see above.
    unsafe { Python::assume_attached() }
}

/// Runs `wait` without the interpreter lock. `wait` must not use a Python object; the engine passes its blocking
/// system call.
#[inline]
pub fn detached(wait: &mut dyn FnMut()) {
    /// Takes the lock again, also if `wait` unwinds.
    struct Reattach(*mut ffi::PyThreadState);

    impl Drop for Reattach {
        fn drop(&mut self) {
            // SAFETY: the state that `PyEval_SaveThread` returned on this thread, restored once.
            unsafe { ffi::PyEval_RestoreThread(self.0) }
        }
    }

    // SAFETY: the thread is attached: every caller is below an entry point that CPython called.
    let _reattach = Reattach(unsafe { ffi::PyEval_SaveThread() });
    wait();
}

/// Whether the current thread runs in the main interpreter and not in a subinterpreter.
pub fn is_main() -> bool {
    // SAFETY: both functions only read the state of the current thread, which is attached.
    unsafe { ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() }
}

/// `threading.get_ident()`.
#[inline]
pub fn thread_ident() -> u64 {
    // SAFETY: has no preconditions.
    unsafe { ffi::PyThread_get_thread_ident() as u64 }
}
