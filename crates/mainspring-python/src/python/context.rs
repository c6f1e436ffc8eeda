//! `contextvars.Context`, by CPython's own functions.

use crate::errors::merge_outcomes;
use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;

/// A copy of the current context.
pub fn copy_current(py: Python<'_>) -> PyResult<Obj> {
    // SAFETY: always allowed while attached.
    unsafe { Obj::from_call(py, ffi::PyContext_CopyCurrent()) }
}

/// A copy of a context.
pub fn copy(py: Python<'_>, context: &Obj) -> PyResult<Obj> {
    // SAFETY: a live object; what is not a context raises.
    unsafe { Obj::from_call(py, ffi::PyContext_Copy(context.as_ptr())) }
}

/// Runs `body` in the context. Fails if that is entered already, or is none.
pub fn run_in(py: Python<'_>, context: &Obj, body: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
    // SAFETY: a live object, left again below.
    unsafe {
        if ffi::PyContext_Enter(context.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        let result = body();
        if ffi::PyContext_Exit(context.as_ptr()) != 0 {
            return merge_outcomes(py, result, Err(PyErr::fetch(py)));
        }
        result
    }
}
