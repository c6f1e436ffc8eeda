//! Exceptions: two at once, and those of system errors.

use crate::python::guard::move_traceback_to_value;
use crate::python::interpreter::attached;
use crate::python::object::{Obj, ObjRef};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PySystemExit};
use pyo3::prelude::*;
use std::io;

/// Longer chains of contexts are not changed: they may be circular.
const MAX_CHAIN: usize = 1000;

/// Whether an exception ends the run of the loop, as in asyncio.
pub fn ends_the_run(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// Combines two exceptions, of which `second` came later. The one that ends the run is raised, otherwise the later one.
/// The other one is appended to its chain of contexts.
pub fn merge(py: Python<'_>, first: PyErr, second: PyErr) -> PyErr {
    let (raised, context) = if ends_the_run(py, &first) && !ends_the_run(py, &second) {
        (first, second)
    } else {
        (second, first)
    };
    let last = last_before(&raised, &context, py);
    // The chain must not become circular, also if both exceptions are in one chain already.
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

/// The result of two steps of which the second runs also if the first fails.
#[inline]
pub fn merge_outcomes<R>(py: Python<'_>, first: PyResult<R>, second: PyResult<()>) -> PyResult<R> {
    match (first, second) {
        (Err(first), Err(second)) => Err(merge(py, first, second)),
        (Ok(_), Err(error)) => Err(error),
        (first, Ok(())) => first,
    }
}

/// Prepares an exception that will be stored for [`traverse`]: before Python 3.12 PyO3 has a reference of its own to the
/// traceback, which the garbage collector would not see.
pub fn prepare_for_traverse(py: Python<'_>, error: &PyErr) {
    // Creates the exception object, if there is none yet.
    let _ = error.value(py);
    if py.version_info() < (3, 12) {
        move_traceback_to_value(py, error);
    }
}

/// Visits the references of an exception that [`prepare_for_traverse`] was called with.
pub fn traverse(error: &PyErr, visit: &mut dyn FnMut(&Obj)) {
    let py = attached();
    visit(&ObjRef::from(error.value(py)));
    if py.version_info() < (3, 12) {
        visit(&ObjRef::from(&error.get_type(py)));
    }
}

/// The last exception in the chain of contexts of `error`; `None` if `other` is in the chain, or the chain is too long.
fn last_before<'py>(error: &PyErr, other: &PyErr, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
    let other = other.value(py).as_any();
    let mut last = error.value(py).clone().into_any();
    for _ in 0..MAX_CHAIN {
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

/// A system error as Python raises it: the subclass of `OSError` for its number, with the number in `errno`, which PyO3's
/// own conversion leaves out.
pub fn os_error(py: Python<'_>, error: io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        let is_memory_error = error.kind() == io::ErrorKind::OutOfMemory;
        return if is_memory_error { out_of_memory() } else { error.into() };
    };
    match py.import("os").and_then(|os| os.call_method1("strerror", (number,))) {
        Ok(text) => PyOSError::new_err((number, text.unbind())),
        Err(failure) => failure,
    }
}

/// `MemoryError`.
pub fn out_of_memory() -> PyErr {
    PyMemoryError::new_err(())
}
