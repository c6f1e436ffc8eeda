//! The guard around every function that CPython calls: panics become exceptions, nothing unwinds into the interpreter,
//! and the thread is registered with `thread_exit`.

use super::object::Obj;
use super::thread_exit;
use pyo3::exceptions::PySystemError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::c_int;
use std::panic::{self, AssertUnwindSafe};

/// Runs the body of a C function that returns a new reference, or null with an exception.
#[inline]
pub(super) fn enter(body: impl FnOnce(Python<'_>) -> PyResult<Obj>) -> *mut ffi::PyObject {
    attach(|py| match catch_panic(py, || body(py)) {
        Ok(object) => object.into_ptr(),
        Err(error) => {
            error.restore(py);
            std::ptr::null_mut()
        }
    })
}

/// Runs the body of a function that PyO3 exports.
///
/// PyO3 creates the exception of a `PyErr::new_err` outside its own guard against panics, where lack of memory would
/// abort the process. Here the exception is created inside.
pub fn catch_unwind<R>(body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    attach(|py| catch_panic(py, body))
}

/// Runs a body that cannot raise, such as a deallocation. A panic becomes an unraisable exception.
///
/// PyO3 does not count this thread as attached, which saves a third of the time that it takes to free a handle. A body
/// that drops a `Py` calls [`attach`].
#[inline]
pub fn catch_unraisable(body: impl FnOnce()) {
    thread_exit::guard();
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(body)) {
        attach(|py| panic_exception(py, &*payload).write_unraisable(py, None));
    }
}

/// Runs the body of a `tp_traverse` function, which may neither raise nor run Python code. After a panic the remaining
/// references are not visited: the collector then takes the objects for reachable, and frees nothing.
#[inline]
pub(crate) fn catch_traverse(body: impl FnOnce() -> c_int) -> c_int {
    panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or(0)
}

/// Turns a panic into an exception, and creates the exception object of every error.
#[inline]
pub fn catch_panic<R>(py: Python<'_>, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(normalize(py, error)),
        Err(payload) => Err(panic_exception(py, &*payload)),
    }
}

/// The exception for a panic. PyO3 panics if it cannot create an object; then an exception is set already.
#[cold]
fn panic_exception(py: Python<'_>, payload: &(dyn Any + Send)) -> PyErr {
    PyErr::take(py).unwrap_or_else(|| normalize(py, internal_error(payload)))
}

/// The error with its exception object; `MemoryError` if that cannot be created.
#[cold]
fn normalize(py: Python<'_>, error: PyErr) -> PyErr {
    // `PyErr::value()` would release the interpreter lock, and cannot take it again while the interpreter exits.
    let create = || {
        error.restore(py);
        PyErr::fetch(py)
    };
    panic::catch_unwind(AssertUnwindSafe(create)).unwrap_or_else(|_| {
        // SAFETY: has no preconditions; the interpreter keeps an instance of this exception.
        unsafe { ffi::PyErr_NoMemory() };
        PyErr::fetch(py)
    })
}

/// Runs a body on a thread that CPython called. `Python::attach` would refuse during interpreter shutdown, when CPython
/// still calls deallocators and finalizers.
#[inline]
pub fn attach<R>(body: impl FnOnce(Python<'_>) -> R) -> R {
    thread_exit::guard();
    // SAFETY: every caller is called by the interpreter, so the thread is attached.
    unsafe { Python::attach_unchecked(body) }
}

/// The exception for a panic of this crate.
fn internal_error(payload: &(dyn Any + Send)) -> PyErr {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    PySystemError::new_err(format!("mainspring: internal error, please report it: {text}"))
}

/// Stores the traceback in the exception object (`value.__traceback__`) and removes it from the `PyErr`.
pub fn move_traceback_to_value(py: Python<'_>, error: &PyErr) {
    if let Some(traceback) = error.traceback(py) {
        // SAFETY: live objects: an exception and a traceback.
        unsafe { ffi::PyException_SetTraceback(error.value(py).as_ptr(), traceback.as_ptr()) };
        error.set_traceback(py, None);
    }
}
