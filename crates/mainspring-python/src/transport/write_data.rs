//! Data to send: [`WriteData`] is the argument of `write()`, [`PyChunk`] an element of the write buffer.

use crate::errors::out_of_memory;
use crate::python::buffer::Buffer;
use crate::python::bytes::{Bytes, is_bytes_like};
use crate::python::object::Obj;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::cell::RefCell;

/// Bytes in the write buffer: the user's object if it is immutable, otherwise a copy.
pub enum PyChunk {
    Bytes(Bytes),
    Copy(Vec<u8>),
}

impl PyChunk {
    /// The same bytes for another owner; `None` if there is no memory for them.
    pub fn share(&self) -> Option<Self> {
        match self {
            PyChunk::Bytes(bytes) => Some(PyChunk::Bytes(bytes.clone())),
            PyChunk::Copy(copy) => copy_into(Vec::new(), copy).map(PyChunk::Copy),
        }
    }

    /// The bytes as a `bytes` object.
    pub fn to_bytes(&self, py: Python<'_>) -> PyResult<Bytes> {
        match self {
            PyChunk::Bytes(bytes) => Ok(bytes.clone()),
            PyChunk::Copy(copy) => Bytes::new(py, copy),
        }
    }

    /// Visits the reference, if there is one, for the garbage collector.
    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        if let PyChunk::Bytes(bytes) = self {
            visit(bytes.as_obj());
        }
    }
}

impl AsRef<[u8]> for PyChunk {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            PyChunk::Copy(copy) => copy,
            PyChunk::Bytes(bytes) => bytes.as_ref(),
        }
    }
}

/// Copies `data` into `memory`, which is empty; `None` if there is no memory.
fn copy_into(mut memory: Vec<u8>, data: &[u8]) -> Option<Vec<u8>> {
    memory.try_reserve_exact(data.len()).ok()?;
    memory.extend_from_slice(data);
    Some(memory)
}

/// Above this size, memory for a copy is reserved before any of it is sent.
const RESERVE_ABOVE: usize = 64 * 1024;

const BYTES_LIKE: &str = "bytes-like object";

/// The types that a stream accepts, as this version of asyncio names them in its exception.
fn stream_types(py: Python<'_>) -> &'static str {
    if py.version_info() >= (3, 14) { "bytes, bytearray, or memoryview object" } else { BYTES_LIKE }
}

/// The bytes of an argument, for one call.
pub struct WriteData {
    bytes: ArgumentBytes,
    /// Memory for a copy, if [`WriteData::reserve`] was called.
    memory: RefCell<Vec<u8>>,
}

enum ArgumentBytes {
    /// Exact `bytes`, which are immutable.
    Bytes(Bytes),
    View(Buffer),
}

impl WriteData {
    /// The argument of a stream's `write()`; asyncio's `TypeError` if it is not bytes-like.
    #[inline]
    pub fn for_stream(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        Self::of_type(py, object, stream_types)
    }

    /// The argument of `write()` or `sendto()`; asyncio's `TypeError` if it is not bytes-like.
    #[inline]
    pub fn new(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        Self::of_type(py, object, |_| BYTES_LIKE)
    }

    /// An item of the argument of `writelines()`: asyncio accepts every object that supports the buffer protocol.
    pub fn for_line(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        if !Bytes::is_exact(object) && Buffer::is_supported_by(object) {
            return Self::view(py, object);
        }
        Self::new(py, object)
    }

    #[inline]
    fn of_type(py: Python<'_>, object: &Obj, types: fn(Python<'_>) -> &'static str) -> PyResult<Self> {
        if let Some(bytes) = Bytes::from_exact(object) {
            return Ok(WriteData { bytes: ArgumentBytes::Bytes(bytes), memory: RefCell::default() });
        }
        if !is_bytes_like(object) {
            let name = object.bind(py).get_type().name()?;
            return Err(PyTypeError::new_err(format!("data argument must be a {}, not '{name}'", types(py))));
        }
        Self::view(py, object)
    }

    fn view(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        let bytes = ArgumentBytes::View(Buffer::new(py, object)?);
        Ok(WriteData { bytes, memory: RefCell::default() })
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.bytes {
            ArgumentBytes::Bytes(bytes) => bytes.as_ref(),
            ArgumentBytes::View(view) => view.as_ref(),
        }
    }

    /// Reserves memory for a large copy. So a write fails before any of its data is sent if the rest could not be
    /// buffered.
    #[inline]
    pub fn reserve(&self) -> PyResult<()> {
        match &self.bytes {
            ArgumentBytes::View(view) if view.as_ref().len() > RESERVE_ABOVE => {
                let length = view.as_ref().len();
                self.memory.borrow_mut().try_reserve_exact(length).map_err(|_| out_of_memory())
            }
            _ => Ok(()),
        }
    }

    /// A chunk for the write buffer; `None` if there is no memory for it.
    pub fn to_chunk(&self) -> Option<PyChunk> {
        match &self.bytes {
            ArgumentBytes::Bytes(bytes) => Some(PyChunk::Bytes(bytes.clone())),
            ArgumentBytes::View(view) => copy_into(self.memory.take(), view.as_ref()).map(PyChunk::Copy),
        }
    }

    /// A chunk that is a `bytes` object, for TLS.
    pub fn to_bytes_chunk(&self, py: Python<'_>) -> PyResult<PyChunk> {
        match &self.bytes {
            ArgumentBytes::Bytes(bytes) => Ok(PyChunk::Bytes(bytes.clone())),
            ArgumentBytes::View(view) => Ok(PyChunk::Bytes(Bytes::new(py, view.as_ref())?)),
        }
    }
}
