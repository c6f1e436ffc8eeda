//! `Room`: memory that both Rust and Python can fill: the loop's own, one for what arrives, one for what is decrypted.
//!
//! `SSLObject.read()` fills objects with the buffer protocol, and `MemoryBIO.write()` reads from them; a view of a
//! `bytearray` serves both without a copy, and one `bytearray` serves every connection of a loop. While it is in use it is
//! out of the loop, and a second user (the session called out) gets one of its own. A class derived from `SSLObject` may
//! keep the view it is given, or release it and resize the memory: that memory is not used again.

use crate::python::object::Obj;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;

/// Up to this size a copy costs less than a view of a part.
const COPIED: usize = 4096;

/// A `bytearray` of a fixed size.
pub struct Room {
    memory: Obj,
    len: usize,
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
            let number = Obj::from_call(py, ffi::PyLong_FromSize_t(size))?;
            Ok(Room { memory, len: size, size: number })
        }
    }

    /// How much there is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The same as a Python number.
    pub fn size(&self) -> &Obj {
        &self.size
    }

    /// A view of all of it. A new one each time: whoever gets it may release it.
    pub fn view(&self, py: Python<'_>) -> PyResult<Obj> {
        // SAFETY: a live bytearray.
        unsafe { Obj::from_call(py, ffi::PyMemoryView_FromObject(self.memory.as_ptr())) }
    }

    /// Fails if Python code that was given a view has resized the memory.
    pub fn check(&self) -> PyResult<()> {
        // SAFETY: a live bytearray.
        if unsafe { ffi::PyByteArray_Size(self.memory.as_ptr()) } as usize == self.len {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err("the buffer that was passed to SSLObject.read() was resized"))
        }
    }

    /// Whether nobody else has a reference to the memory or to a view of it, and it is as large as it was.
    fn is_reusable(&self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::Py_REFCNT(self.memory.as_ptr()) == 1 && self.check().is_ok() }
    }

    /// Lets `fill` write into the memory; it runs no Python code.
    pub fn fill<R>(&self, fill: impl FnOnce(&mut [u8]) -> R) -> PyResult<R> {
        self.check()?;
        // SAFETY: the length was checked, and nobody else looks at the memory while `fill` runs: that takes Python
        // code.
        unsafe {
            let start = ffi::PyByteArray_AsString(self.memory.as_ptr()).cast::<u8>();
            Ok(fill(std::slice::from_raw_parts_mut(start, self.len)))
        }
    }

    /// The first bytes as a `bytes` object.
    pub fn bytes(&self, py: Python<'_>, count: usize) -> PyResult<Obj> {
        self.check()?;
        if count > self.len {
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
        if count <= COPIED { self.bytes(py, count) } else { part_of(py, &self.view(py)?, 0, Some(count)) }
    }

    /// A view of all from `start` on.
    pub fn rest(&self, py: Python<'_>, start: usize) -> PyResult<Obj> {
        let view = self.view(py)?;
        if start == 0 { Ok(view) } else { part_of(py, &view, start, None) }
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
        // One that Python code has kept or resized is left to it.
        let former = if room.is_reusable() { self.0.replace(Some(room)) } else { Some(room) };
        drop(former);
        result
    }
}
