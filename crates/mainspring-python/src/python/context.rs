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
