//! `TlsBuffer`: memory for ciphertext, which Rust fills and Python code reads.
//!
//! `MemoryBIO.write()` reads from objects that support the buffer protocol. A view of a `bytearray` needs no copy, and one
//! `bytearray` serves all connections of a loop. While one connection has it, a second one (user code ran meanwhile) gets
//! a new buffer. Memory of which a view was kept, or which was resized, is not used again.

use crate::python::bytes::{ByteArray, Bytes};
use crate::python::object::Obj;
use pyo3::prelude::*;
use std::cell::Cell;

/// Up to this size a copy costs less than a view of a part.
const MAX_COPY: usize = 4096;

/// A `bytearray` of a fixed size.
pub struct TlsBuffer {
    memory: ByteArray,
}

impl TlsBuffer {
    pub fn new(py: Python<'_>, size: usize) -> PyResult<Self> {
        Ok(TlsBuffer { memory: ByteArray::new(py, size)? })
    }

    /// A view of the whole buffer. A new one for each call, since its user can release it.
    pub fn view(&self, py: Python<'_>) -> PyResult<Obj> {
        self.memory.view(py)
    }

    /// Whether Python code has neither kept a view nor resized the memory.
    fn is_reusable(&self) -> bool {
        self.memory.is_unique() && self.memory.check_len().is_ok()
    }

    /// Calls `fill` with the memory. `fill` must not run Python code.
    pub fn fill<R>(&self, fill: impl FnOnce(&mut [u8]) -> R) -> PyResult<R> {
        self.memory.fill(fill)
    }

    /// The first `count` bytes as a `bytes` object.
    pub fn to_bytes(&self, py: Python<'_>, count: usize) -> PyResult<Bytes> {
        self.memory.to_bytes(py, count)
    }

    /// The first `count` bytes as an object that is read before the buffer is used again.
    pub fn front(&self, py: Python<'_>, count: usize) -> PyResult<Obj> {
        if count <= MAX_COPY {
            return Ok(self.to_bytes(py, count)?.into());
        }
        self.view(py)?.slice(py, 0, Some(count))
    }
}

/// The buffer that the connections of a loop share.
#[derive(Default)]
pub struct SharedBuffer(Cell<Option<TlsBuffer>>);

impl SharedBuffer {
    /// Calls `body` with the buffer. See the module comment.
    pub fn with<R>(
        &self,
        py: Python<'_>,
        size: usize,
        body: impl FnOnce(&TlsBuffer) -> PyResult<R>,
    ) -> PyResult<R> {
        let buffer = match self.0.take() {
            Some(buffer) => buffer,
            None => TlsBuffer::new(py, size)?,
        };
        let result = body(&buffer);
        let unused = if buffer.is_reusable() { self.0.replace(Some(buffer)) } else { Some(buffer) };
        drop(unused);
        result
    }
}
