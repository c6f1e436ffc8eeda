//! Exceptions on their way. Of two at once the later one is raised, and the earlier one is its `__context__`, as in Python.

use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::ffi;
use pyo3::prelude::*;

/// Longer chains are left as they are: they may be circles, which anybody can make.
const LONGEST_CHAIN: usize = 1000;

/// Whether asyncio lets an exception through the loop.
pub fn ends_the_loop(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// One exception for two, of which `second` came later. The one that ends the loop is raised, else the later one; the
/// other is at the end of its chain of contexts.
pub fn merge(py: Python<'_>, first: PyErr, second: PyErr) -> PyErr {
    let (raised, context) = if ends_the_loop(py, &first) && !ends_the_loop(py, &second) {
        (first, second)
    } else {
        (second, first)
    };
    let last = last_before(&raised, &context, py);
    // A chain must not lead back to its beginning: neither if both are parts of one chain already.
    match (last, last_before(&context, &raised, py)) {
        (Some(last), Some(_)) => {
            let context = context.into_value(py);
            match last.setattr("__context__", context) {
                Ok(()) => raised,
                Err(failure) => failure,
            }
        }
        (None, _) => raised,
        (_, None) => context,
    }
}

/// The outcome of two steps of which the second was taken whatever came of the first.
pub fn merge_outcomes<R>(py: Python<'_>, first: PyResult<R>, second: PyResult<()>) -> PyResult<R> {
    match (first, second) {
        (Err(first), Err(second)) => Err(merge(py, first, second)),
        (Ok(_), Err(error)) => Err(error),
        (first, Ok(())) => first,
    }
}

/// Leaves an exception that is kept with references that [`for_each_held`] knows: that to its value, which refers to
/// everything else.
pub fn keep(py: Python<'_>, error: &PyErr) {
    let value = error.value(py);
    if py.version_info() < (3, 12)
        && let Some(traceback) = error.traceback(py)
    {
        // SAFETY: live objects: an exception and a traceback.
        unsafe { ffi::PyException_SetTraceback(value.as_ptr(), traceback.as_ptr()) };
        error.set_traceback(py, None);
    }
}

/// Shows what an exception that was given to [`keep`] holds to the garbage collector.
pub fn for_each_held(error: &PyErr, show: &mut dyn FnMut(*mut ffi::PyObject)) {
    // SAFETY: the garbage collector runs on a thread that is attached.
    let py = unsafe { Python::assume_attached() };
    show(error.value(py).as_ptr());
    if py.version_info() < (3, 12) {
        show(error.get_type(py).as_ptr());
    }
}

/// The last exception in the chain of contexts of `error`; `None` if `other` is in it, or it has no end.
fn last_before<'py>(error: &PyErr, other: &PyErr, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
    let other = other.value(py).as_any();
    let mut last = error.value(py).clone().into_any();
    for _ in 0..LONGEST_CHAIN {
        if last.is(other) {
            return None;
        }
        match last.getattr("__context__") {
            Ok(next) if !next.is_none() => last = next,
            _ => return Some(last),
        }
    }
    None
}
