//! `StreamBuffer`: the `bytearray` of an `asyncio.StreamReader`, which grows at its end and is consumed from its front.

use super::bytes::Bytes;
use super::object::Obj;
use crate::errors::out_of_memory;
use pyo3::ffi;
use pyo3::prelude::*;

/// See the module comment. Python code can hold the object too, and change it whenever it runs.
pub struct StreamBuffer(Obj);

impl StreamBuffer {
    /// `None` if the type of the object is not `bytearray` itself.
    #[inline]
    pub fn from_exact(object: Obj) -> Option<Self> {
        // SAFETY: a live object.
        (unsafe { ffi::PyByteArray_CheckExact(object.as_ptr()) } != 0).then_some(StreamBuffer(object))
    }

    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: a live `bytearray`: the constructor has checked that.
        unsafe { ffi::PyByteArray_Size(self.0.as_ptr()) as usize }
    }

    /// Calls `body` with the content. `body` must not run Python code.
    #[inline]
    fn with<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: the array has `len` bytes, which stay in place and unchanged while no Python code runs. Its pointer is
        // never null: an empty array points to a static zero.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.0.as_ptr()).cast::<u8>();
            body(std::slice::from_raw_parts(start, self.len()))
        }
    }

    /// The position of the first `separator` at or behind `start`.
    #[inline]
    pub fn find(&self, separator: &[u8], start: usize) -> Option<usize> {
        self.with(|content| {
            let rest = content.get(start..)?;
            let found = match separator {
                [byte] => memchr::memchr(*byte, rest),
                _ => memchr::memmem::find(rest, separator),
            };
            found.map(|position| start + position)
        })
    }

    /// Removes the first `count` bytes and returns them; all bytes if there are fewer. `BufferError` if a view of the
    /// array exists, and nothing is removed then.
    #[inline]
    pub fn take(&self, py: Python<'_>, count: usize) -> PyResult<Bytes> {
        let taken = self.with(|content| Bytes::new(py, content.get(..count).unwrap_or(content)))?;
        self.remove(py, taken.as_ref().len())?;
        Ok(taken)
    }

    /// Removes the first `count` bytes, of which there are as many, as `del array[:count]` does: the start of the array
    /// moves. `PySequence_DelSlice` would do it too, but creates a slice object, which is 11 % of the instructions of
    /// the row `C.readline`.
    #[inline]
    fn remove(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let array = self.0.as_ptr().cast::<ffi::PyByteArrayObject>();
        let rest = (self.len() - count) as ffi::Py_ssize_t;
        // SAFETY: a live `bytearray`, and its own implementation of the deletion in Python 3.10 to 3.15. `ob_start` stays
        // within the memory of the array, which has `len` bytes behind it. `PyByteArray_Resize` derives the free space
        // from `ob_start`; it fails before it changes anything, if a view exists or there is no memory, and then
        // `ob_start` is restored.
        unsafe {
            (*array).ob_start = (*array).ob_start.add(count);
            if ffi::PyByteArray_Resize(array.cast(), rest) != 0 {
                (*array).ob_start = (*array).ob_start.sub(count);
                return Err(PyErr::fetch(py));
            }
        }
        Ok(())
    }

    /// Appends bytes. `BufferError` if a view of the array exists.
    #[inline]
    pub fn extend(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let former = self.len();
        let length = former.checked_add(data.len()).and_then(|length| ffi::Py_ssize_t::try_from(length).ok());
        let length = length.ok_or_else(out_of_memory)?;
        // SAFETY: a live `bytearray`. After the call it has `former + data.len()` bytes, of which the last ones are not
        // initialized yet. `data` is not part of it: a shared slice of it would not survive the call.
        unsafe {
            if ffi::PyByteArray_Resize(self.0.as_ptr(), length) != 0 {
                return Err(PyErr::fetch(py));
            }
            let end = ffi::PyByteArray_AsString(self.0.as_ptr()).cast::<u8>().add(former);
            std::ptr::copy_nonoverlapping(data.as_ptr(), end, data.len());
        }
        Ok(())
    }
}
