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

/// Runs `body` in the context. Raises if the context is entered already, or is not a context.
#[inline]
pub fn run_in<R>(py: Python<'_>, context: &Obj, body: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
    // SAFETY: a live object; raises if it is not a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    let result = body();
    // SAFETY: as above. If the context is not the current one any more, this raises.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return merge_outcomes(py, result, Err(PyErr::fetch(py)));
    }
    result
}
