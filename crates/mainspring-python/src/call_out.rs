//! Calls into Python from the loop: what happens to a loop's thread when the interpreter ends under it.
//!
//! A daemon thread may run a loop while the main thread leaves the program. Before Python 3.14 the interpreter ends
//! such a thread with `pthread_exit()` when it next asks for the interpreter lock, which in a callback is at any time:
//! the C library then unwinds the thread's stack, and Rust's frames in it would abort the process. From 3.14 on the
//! interpreter lets the thread hang instead, until the process is gone. Here it hangs on every version.

use pyo3::ffi;
use std::hint::black_box;

/// What PyO3 declares too, but able to unwind: a call that is not is compiled without a place for [`Hang`] to be
/// dropped. To the compiler a function has one declaration, and it may choose PyO3's; so these are called through
/// pointers that it knows nothing of.
mod unwinding {
    use pyo3::ffi::PyObject;

    unsafe extern "C-unwind" {
        pub fn PyObject_Call(
            callable: *mut PyObject,
            args: *mut PyObject,
            kwargs: *mut PyObject,
        ) -> *mut PyObject;
        pub fn PyObject_VectorcallMethod(
            name: *mut PyObject,
            args: *const *mut PyObject,
            count: usize,
            kwnames: *mut PyObject,
        ) -> *mut PyObject;
    }

    pub type Call = unsafe extern "C-unwind" fn(*mut PyObject, *mut PyObject, *mut PyObject) -> *mut PyObject;
    pub type CallMethod = unsafe extern "C-unwind" fn(
        *mut PyObject,
        *const *mut PyObject,
        usize,
        *mut PyObject,
    ) -> *mut PyObject;
}

/// Dropped only while the thread's stack is unwound through the call it guards, which no panic does: C code is between.
struct Hang;

impl Drop for Hang {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Calls user code with a tuple of arguments. A new reference, or null and an exception.
///
/// # Safety
/// Both are live objects, and `args` is a tuple.
pub unsafe fn call(callable: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let function = black_box(unwinding::PyObject_Call as unwinding::Call);
    let hang = Hang;
    // SAFETY: passed on.
    let result = unsafe { function(callable, args, std::ptr::null_mut()) };
    std::mem::forget(hang);
    result
}

/// Calls a method of a user's object, the first of `args`, with the rest. A new reference, or null and an exception.
///
/// # Safety
/// All are live objects, `name` is a string, and there is at least one argument.
pub unsafe fn call_method(name: *mut ffi::PyObject, args: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    let function = black_box(unwinding::PyObject_VectorcallMethod as unwinding::CallMethod);
    let hang = Hang;
    // SAFETY: passed on.
    let result = unsafe { function(name, args.as_ptr(), args.len(), std::ptr::null_mut()) };
    std::mem::forget(hang);
    result
}
