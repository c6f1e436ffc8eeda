//! `Obj`: an owned reference to a Python object that the engine can clone and drop.
//!
//! PyO3's `Py` keeps count of whether the thread is attached and defers what it cannot prove; the engine's queues
//! clone and drop one reference per callback and cannot pay for that. The rule that makes `Obj` sound is simple and
//! holds for everything the Python face stores in the engine: **an `Obj` is made, cloned, used and dropped only while
//! the thread is attached to the interpreter.** The one place where the face lets go of the interpreter
//! (`PyHost::blocking`) touches no `Obj`.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ptr::NonNull;

/// An owned reference. See the module's text for the rule it lives by.
pub struct Obj(NonNull<ffi::PyObject>);

// SAFETY: a reference may be used from any thread that is attached, and by the module's rule no other does.
unsafe impl Send for Obj {}
// SAFETY: as above; a shared `Obj` gives nothing but the pointer and new references.
unsafe impl Sync for Obj {}

impl Obj {
    /// Takes over a reference; `None` for a null pointer.
    ///
    /// # Safety
    /// `ptr` is null or a reference that the caller owns and gives up.
    pub unsafe fn from_owned(ptr: *mut ffi::PyObject) -> Option<Self> {
        NonNull::new(ptr).map(Obj)
    }

    /// Takes over a reference that a C function returned, or the exception it raised.
    ///
    /// # Safety
    /// As [`Obj::from_owned`]; where `ptr` is null, an exception is set.
    pub unsafe fn from_call(py: Python<'_>, ptr: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: passed on to the caller.
        unsafe { Obj::from_owned(ptr) }.ok_or_else(|| PyErr::fetch(py))
    }

    /// Calls the method `name` of the first of `args` with the rest of them.
    ///
    /// # Safety
    /// `args` are live objects, at least one.
    pub unsafe fn from_method_call(
        py: Python<'_>,
        name: &Py<PyString>,
        args: &[*mut ffi::PyObject],
    ) -> PyResult<Self> {
        // SAFETY: the caller's promise; the result is a new reference, or null and an exception.
        unsafe {
            let (name, count) = (name.as_ptr(), args.len());
            Obj::from_call(
                py,
                ffi::PyObject_VectorcallMethod(name, args.as_ptr(), count, std::ptr::null_mut()),
            )
        }
    }

    /// Makes a new reference to a borrowed object.
    ///
    /// # Safety
    /// `ptr` points to a live object.
    pub unsafe fn from_borrowed(ptr: *mut ffi::PyObject) -> Self {
        // SAFETY: the object is alive, hence not null.
        unsafe {
            ffi::Py_INCREF(ptr);
            Obj(NonNull::new_unchecked(ptr))
        }
    }

    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Gives the reference up to the caller.
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        let ptr = self.0.as_ptr();
        std::mem::forget(self);
        ptr
    }

    /// The same object in PyO3's words.
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the pointer is a live object, kept alive by this reference.
        unsafe { Bound::from_borrowed_ptr(py, self.as_ptr()) }
    }
}

impl<T> From<Bound<'_, T>> for Obj {
    fn from(bound: Bound<'_, T>) -> Self {
        // SAFETY: the reference that `into_ptr` gives up is taken over; it is never null.
        unsafe { Obj(NonNull::new_unchecked(bound.into_ptr())) }
    }
}

impl Clone for Obj {
    fn clone(&self) -> Self {
        // SAFETY: the object is alive while this reference is.
        unsafe { Obj::from_borrowed(self.as_ptr()) }
    }
}

impl Drop for Obj {
    fn drop(&mut self) {
        // SAFETY: this reference is owned and given up once, by a thread that is attached (the module's rule).
        unsafe { ffi::Py_DECREF(self.as_ptr()) }
    }
}
