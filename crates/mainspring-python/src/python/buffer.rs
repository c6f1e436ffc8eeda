//! The buffer protocol: the bytes of any object that has some.

use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;

/// A structure that CPython has filled in place. It is released when dropped, and does not move before.
struct View(ffi::Py_buffer);

impl View {
    /// Fills the structure; the exporter's exception if it cannot export its bytes in this way.
    #[inline]
    fn fill(&mut self, py: Python<'_>, object: &Obj, flags: i32) -> PyResult<()> {
        // SAFETY: a live object; CPython fills the structure, or sets an exception and leaves `obj` null.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut self.0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

impl Drop for View {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: zeroed, or filled by CPython and released once, by an attached thread: the rule of `Obj` holds for
        // every reference.
        unsafe { ffi::PyBuffer_Release(&mut self.0) }
    }
}

/// Calls `write` with the bytes of an object, which may be none. The outer error is the exporter's, if the object has no
/// bytes that can be written. `write` must not run Python code; the engine passes a system call.
#[inline]
pub fn with_writable<R>(py: Python<'_>, object: &Obj, write: impl FnOnce(&mut [u8]) -> R) -> PyResult<R> {
    let mut view = View(ffi::Py_buffer::new());
    view.fill(py, object, ffi::PyBUF_WRITABLE)?;
    let bytes = match view.0.len {
        // SAFETY: the exporter granted write access to `len` contiguous bytes, and keeps them in place until the view is
        // released, after `write`. Nothing else reads or writes them meanwhile: that would take Python code.
        1.. => unsafe { std::slice::from_raw_parts_mut(view.0.buf.cast(), view.0.len as usize) },
        // A view of no bytes may have a null pointer.
        _ => &mut [],
    };
    Ok(write(bytes))
}

/// A view of an object's bytes. While it exists the object can be neither resized nor freed.
pub struct Buffer(Box<View>);

impl Buffer {
    pub fn new(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        let mut view = Box::new(View(ffi::Py_buffer::new()));
        view.fill(py, object, ffi::PyBUF_SIMPLE)?;
        Ok(Buffer(view))
    }

    /// Whether an object supports the buffer protocol.
    pub fn is_supported_by(object: &Obj) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) != 0 }
    }

    /// The object that exports the bytes, which the view holds a reference to.
    pub fn exporter(&self) -> Option<&Obj> {
        // SAFETY: the view owns this reference for as long as it exists.
        (!self.0.0.obj.is_null()).then(|| unsafe { Obj::from_ptr_ref(&self.0.0.obj) })
    }
}

impl AsRef<[u8]> for Buffer {
    /// The caller runs no Python code while it has the slice, so nothing writes the memory.
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let view = &self.0.0;
        match view.len {
            // SAFETY: `len` contiguous bytes, which the exporter keeps in place while the view exists. The interpreter
            // lock keeps other threads from them, and see above.
            1.. => unsafe { std::slice::from_raw_parts(view.buf.cast_const().cast(), view.len as usize) },
            // A view of no bytes may have a null pointer.
            _ => &[],
        }
    }
}
