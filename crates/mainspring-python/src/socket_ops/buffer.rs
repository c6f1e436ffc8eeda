//! Bytes of the user's that are lent to an operation, for as long as it takes.

use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;

/// A view of any object that has bytes, locked against resizing while it is held.
pub struct HeldBuffer {
    object: Obj,
    view: Box<ffi::Py_buffer>,
}

impl HeldBuffer {
    /// A view to read from; `TypeError` for what has no bytes.
    ///
    /// # Safety
    /// `object` is a live object.
    pub unsafe fn to_read(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: passed on.
        unsafe { HeldBuffer::new(py, object, ffi::PyBUF_SIMPLE) }
    }

    /// A view to write to.
    ///
    /// # Safety
    /// As [`HeldBuffer::to_read`].
    pub unsafe fn to_write(py: Python<'_>, object: *mut ffi::PyObject) -> PyResult<Self> {
        // SAFETY: passed on.
        unsafe { HeldBuffer::new(py, object, ffi::PyBUF_WRITABLE) }
    }

    unsafe fn new(py: Python<'_>, object: *mut ffi::PyObject, flags: i32) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: a live object; the interpreter fills the view.
        if unsafe { ffi::PyObject_GetBuffer(object, &mut *view, flags) } != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a live object.
        Ok(HeldBuffer { object: unsafe { Obj::from_borrowed(object) }, view })
    }

    /// What is held, for the garbage collector: the object, and who exports its bytes, often the same (null for nobody).
    pub fn held(&self) -> (&Obj, *mut ffi::PyObject) {
        (&self.object, self.view.obj)
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match self.view.len {
            0 => &mut [],
            // SAFETY: made with `to_write`, so the memory is writable and stays where it is while the view lives. Python
            // code that could see it does not run while the slice is borrowed: the caller holds the interpreter lock.
            length => unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), length as usize) },
        }
    }
}

impl AsRef<[u8]> for HeldBuffer {
    fn as_ref(&self) -> &[u8] {
        match self.view.len {
            0 => &[],
            // SAFETY: the memory stays where it is while the view lives. Python code that could change it does not run
            // while the slice is borrowed: the caller holds the interpreter lock.
            length => unsafe {
                std::slice::from_raw_parts(self.view.buf.cast_const().cast(), length as usize)
            },
        }
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        // SAFETY: filled by the interpreter, released once, by a thread that is attached like all that touch an
        // object.
        unsafe { ffi::PyBuffer_Release(&mut *self.view) }
    }
}
