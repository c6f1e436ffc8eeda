//! Received bytes: from the transport into the buffer of the reader.

use super::classes::StreamClasses;
use super::reader::Reader;
use crate::names::names;
use crate::python::instance_dict::InstanceDict;
use crate::python::object::Obj;
use pyo3::prelude::*;

/// Does what `data_received()` of a stream's protocol does. Returns `false`, and has changed nothing, if that method has
/// to be called instead.
pub fn feed(py: Python<'_>, protocol: &Obj, data: &[u8]) -> PyResult<bool> {
    if !StreamClasses::get(py)?.protocol.is_native(py, protocol)? {
        return Ok(false);
    }
    let names = names(py)?;
    let attributes = InstanceDict::of(py, protocol)?;
    let reference = attributes.get(py, &names._stream_reader_wr)?.filter(|reference| !reference.is_none());
    let Some(reference) = reference else { return Ok(false) };
    if attributes.contains(py, &names.data_received)? {
        return Ok(false);
    }
    let reader = reference.vectorcall(py, &[], 0, None)?;
    let Some(reader) = Reader::of(py, &reader)? else { return Ok(false) };
    let (Some(buffer), Some(limit)) = (reader.buffer()?, reader.limit()?) else { return Ok(false) };
    if reader.is_at_eof()? {
        return Ok(false);
    }
    buffer.extend(py, data)?;
    reader.wake()?;
    reader.pause_if_full(buffer.len(), limit)?;
    Ok(true)
}
