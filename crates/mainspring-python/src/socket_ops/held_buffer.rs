//! `HeldBuffer`: bytes of the user that an operation sends.

use crate::python::buffer::Buffer;
use crate::python::object::Obj;
use pyo3::prelude::*;

/// An object and a view of its bytes, which cannot be resized meanwhile.
pub struct HeldBuffer {
    object: Obj,
    buffer: Buffer,
}

impl HeldBuffer {
    /// `TypeError` for an object that does not support the buffer protocol.
    pub fn new(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        Ok(HeldBuffer { buffer: Buffer::new(py, object)?, object: object.clone() })
    }

    /// The references, for the garbage collector: the object, and the exporter of its bytes, which often is the same.
    pub fn references(&self) -> impl Iterator<Item = &Obj> {
        std::iter::once(&self.object).chain(self.buffer.exporter())
    }
}

impl AsRef<[u8]> for HeldBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}
