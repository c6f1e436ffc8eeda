//! A call of one of the loop's own methods, as the interpreter makes it: what every entry point of `scheduling.rs` and
//! `creating.rs` begins with, in one place. What they do is an ordinary function of a [`Request`].

use crate::event_loop::NativeLoop;
use crate::python::method::{Args, enter};
use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;

/// See the module's text.
pub struct Request<'a> {
    pub native: &'a NativeLoop,
    /// The loop object, borrowed.
    pub this: *mut ffi::PyObject,
    pub args: Args<'a>,
}

/// The native part of the `self` that the interpreter passes to a method of the class.
///
/// # Safety
/// `this` is such a `self`: the method descriptor has checked its type.
pub unsafe fn native<'a>(py: Python<'a>, this: *mut ffi::PyObject) -> &'a NativeLoop {
    // SAFETY: the caller's promise; the class is frozen, and the caller of the method keeps `this` alive.
    unsafe {
        let object = Borrowed::from_ptr(py, this);
        &*std::ptr::from_ref(object.cast_unchecked::<NativeLoop>().get())
    }
}

/// Runs a method: the body of what [`loop_method!`] makes, into which all of this is inlined.
///
/// # Safety
/// The arguments after `answer` are those that the interpreter called a method of the class with.
#[inline(always)]
pub unsafe fn run(
    method: &'static str,
    answer: impl FnOnce(Python<'_>, &Request<'_>) -> PyResult<Obj>,
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: the caller's promise; all of it lives until the method returns.
        let request = unsafe {
            Request { native: native(py, this), this, args: Args::new(method, args, count, kwnames) }
        };
        answer(py, &request).map(Obj::into_ptr)
    })
}

/// The definition of the loop's method of this name. What it does is the function of the same name,
/// `fn(Python<'_>, &Request<'_>) -> PyResult<Obj>`; inlined, since nobody else calls it.
macro_rules! loop_method {
    ($name:ident, $doc:literal) => {{
        extern "C" fn entry(
            this: *mut pyo3::ffi::PyObject,
            args: *const *mut pyo3::ffi::PyObject,
            count: pyo3::ffi::Py_ssize_t,
            kwnames: *mut pyo3::ffi::PyObject,
        ) -> *mut pyo3::ffi::PyObject {
            // SAFETY: called by the interpreter as a method of the class.
            unsafe {
                $crate::event_loop::loop_method::run(stringify!($name), $name, this, args, count, kwnames)
            }
        }
        const NAME: &std::ffi::CStr =
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without a zero"),
            };
        $crate::python::method::method(NAME, entry, $doc)
    }};
}

pub(crate) use loop_method;
