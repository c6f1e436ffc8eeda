//! `contextvars.Context`, through CPython's functions.

use super::object::Obj;
use crate::errors::merge_outcomes;
use pyo3::ffi;
use pyo3::prelude::*;

/// A copy of the current context.
#[inline]
pub fn copy_current(py: Python<'_>) -> PyResult<Obj> {
    // SAFETY: the thread is attached; returns a new reference, or null with an exception.
    unsafe { Obj::from_call(py, ffi::PyContext_CopyCurrent()) }
}

/// A copy of a context.
pub fn copy(py: Python<'_>, context: &Obj) -> PyResult<Obj> {
    // SAFETY: a live object; raises if it is not a context.
    unsafe { Obj::from_call(py, ffi::PyContext_Copy(context.as_ptr())) }
}

/// The value of a context variable in a context; `None` if it has none, or if the object is not a context.
pub fn get(py: Python<'_>, context: &Obj, variable: &Obj) -> PyResult<Option<Obj>> {
    // SAFETY: live objects. A context finds a variable by its identity and runs no Python code.
    unsafe {
        if ffi::PyContext_CheckExact(context.as_ptr()) == 0 {
            return Ok(None);
        }
        match ffi::PySequence_Contains(context.as_ptr(), variable.as_ptr()) {
            0 => Ok(None),
            1 => Obj::from_call(py, ffi::PyObject_GetItem(context.as_ptr(), variable.as_ptr())).map(Some),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// Runs `body` in the context; in a copy if the context is entered already, by a callback that runs the loop. Raises if
/// the object is not a context.
#[inline]
pub fn run_in<R>(py: Python<'_>, context: &Obj, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    // SAFETY: a live object; raises if it is not a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        let _refused = PyErr::fetch(py);
        let copy = copy(py, context)?;
        // SAFETY: a context that no other code has.
        if unsafe { ffi::PyContext_Enter(copy.as_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        return run_and_exit(py, &copy, body);
    }
    run_and_exit(py, context, body)
}

/// As [`run_in`], but calls `is_postponed` with the exception if the context is entered already, and returns `None`
/// without running `body` if that returns `true`.
#[inline]
pub fn run_in_or_postpone<R>(
    py: Python<'_>,
    context: &Obj,
    body: impl FnOnce() -> PyResult<R>,
    is_postponed: impl FnOnce(PyErr) -> PyResult<bool>,
) -> PyResult<Option<R>> {
    // SAFETY: a live object; raises if it is not a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        let refused = PyErr::fetch(py);
        // SAFETY: a live object.
        let is_context = unsafe { ffi::PyContext_CheckExact(context.as_ptr()) } != 0;
        return if !is_context {
            Err(refused)
        } else if is_postponed(refused)? {
            Ok(None)
        } else {
            run_in(py, context, body).map(Some)
        };
    }
    run_and_exit(py, context, body).map(Some)
}

/// Runs `body` in a context that was entered, and exits it.
#[inline(always)]
fn run_and_exit<R>(py: Python<'_>, context: &Obj, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    let result = body();
    // SAFETY: as above. If the context is not the current one any more, this raises.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return merge_outcomes(py, result, Err(PyErr::fetch(py)));
    }
    result
}
