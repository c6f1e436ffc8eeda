//! `Room`: memory that both Rust and Python can fill: the loop's own, one for what arrives, one for what is decrypted.
//!
//! `SSLObject.read()` fills objects with the buffer protocol, and `MemoryBIO.write()` reads from them; a `bytearray` and
//! a view of it serve both without a copy, and one pair serves every connection of a loop. While one is in use it is
//! out of the loop, and a second user (the session called out) gets one of its own.

use crate::obj::Obj;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

/// Up to this size a copy costs less than a view of a part.
const COPIED: usize = 4096;

/// A `bytearray`, and a `memoryview` of all of it.
pub struct Room {
    memory: Obj,
    view: Obj,
    size: Obj,
}

impl Room {
    pub fn new(py: Python<'_>, size: usize) -> PyResult<Self> {
        // SAFETY: a null pointer asks for memory without content; it is filled before anybody reads it, or shows
        // what the allocator left: zeroes, written here.
        unsafe {
            let memory = ffi::PyByteArray_FromStringAndSize(std::ptr::null(), size as ffi::Py_ssize_t);
            let memory = Obj::from_call(py, memory)?;
            std::ptr::write_bytes(ffi::PyByteArray_AsString(memory.as_ptr()).cast::<u8>(), 0, size);
            let view = Obj::from_call(py, ffi::PyMemoryView_FromObject(memory.as_ptr()))?;
            let size = Obj::from_call(py, ffi::PyLong_FromSize_t(size))?;
            Ok(Room { memory, view, size })
        }
    }

    /// How much there is. Asked each time: Python code that gets hold of the object could have changed it.
    pub fn len(&self) -> usize {
        // SAFETY: a live bytearray.
        unsafe { ffi::PyByteArray_Size(self.memory.as_ptr()) as usize }
    }

    /// The size as a Python number, as it was in the beginning.
    pub fn size(&self) -> &Obj {
        &self.size
    }

    /// The view of all of it.
    pub fn view(&self) -> &Obj {
        &self.view
    }

    /// Lets `fill` write into the memory; it runs no Python code.
    pub fn fill<R>(&self, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: the pointer and the length are those of this moment, and nobody else looks at the memory while
        // `fill` runs: that takes Python code.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.memory.as_ptr()).cast::<u8>();
            fill(std::slice::from_raw_parts_mut(start, self.len()))
        }
    }

    /// The first bytes as a `bytes` object.
    pub fn bytes(&self, py: Python<'_>, count: usize) -> PyResult<Obj> {
        if count > self.len() {
            return Err(PyRuntimeError::new_err("more was read than there is room for"));
        }
        // SAFETY: the count was checked, and is copied before anything else runs.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.memory.as_ptr());
            Obj::from_call(py, ffi::PyBytes_FromStringAndSize(start, count as ffi::Py_ssize_t))
        }
    }

    /// The first bytes as an object to read from before the room is used again.
    pub fn front(&self, py: Python<'_>, count: usize) -> PyResult<Obj> {
        if count <= COPIED { self.bytes(py, count) } else { self.part(py, 0, Some(count)) }
    }

    /// A view of all from `start` on.
    pub fn rest(&self, py: Python<'_>, start: usize) -> PyResult<Obj> {
        self.part(py, start, None)
    }

    fn part(&self, py: Python<'_>, start: usize, end: Option<usize>) -> PyResult<Obj> {
        part_of(py, &self.view, start, end)
    }
}

/// A part of a view, or of anything that can be sliced.
pub fn part_of(py: Python<'_>, whole: &Obj, start: usize, end: Option<usize>) -> PyResult<Obj> {
    // SAFETY: new references that are held to the end; a null pointer leaves an end of the slice open.
    unsafe {
        let start = Obj::from_call(py, ffi::PyLong_FromSize_t(start))?;
        let end = end.map(|end| Obj::from_call(py, ffi::PyLong_FromSize_t(end))).transpose()?;
        let end = end.as_ref().map_or(std::ptr::null_mut(), Obj::as_ptr);
        let slice = Obj::from_call(py, ffi::PySlice_New(start.as_ptr(), end, std::ptr::null_mut()))?;
        Obj::from_call(py, ffi::PyObject_GetItem(whole.as_ptr(), slice.as_ptr()))
    }
}

/// A loop's room of one kind.
#[derive(Default)]
pub struct RoomCell(Cell<Option<Room>>);

impl RoomCell {
    /// Lends the room to `use_it`; see the module's text.
    pub fn with<R>(
        &self,
        py: Python<'_>,
        size: usize,
        use_it: impl FnOnce(&Room) -> PyResult<R>,
    ) -> PyResult<R> {
        let room = match self.0.take() {
            Some(room) => room,
            None => Room::new(py, size)?,
        };
        let result = use_it(&room);
        let other = self.0.replace(Some(room));
        drop(other);
        result
    }
}
