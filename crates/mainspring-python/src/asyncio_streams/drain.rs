//! `StreamWriter.drain()` of a writer that need not wait.

use super::classes::StreamClasses;
use super::reader::Reader;
use crate::names::names;
use crate::python::instance_dict::InstanceDict;
use crate::python::method::Receiver;
use crate::python::object::Obj;
use pyo3::prelude::*;

/// `is_drained(writer)`. `False` also if asyncio's `drain()` would raise, or has to be called for another reason.
pub fn is_drained(receiver: Receiver<'_, ()>, writer: &Obj) -> PyResult<bool> {
    let py = receiver.py;
    let (classes, names) = (StreamClasses::get(py)?, names(py)?);
    if !classes.writer.is_native(py, writer)? {
        return Ok(false);
    }
    let attributes = InstanceDict::of(py, writer)?;
    let get = |name| attributes.get(py, name);
    let (Some(reader), Some(transport), Some(protocol)) =
        (get(&names._reader)?, get(&names._transport)?, get(&names._protocol)?)
    else {
        return Ok(false);
    };
    if !reader.is_none() {
        match Reader::of(py, &reader)? {
            Some(reader) if !reader.has_exception()? => {}
            _ => return Ok(false),
        }
    }
    if !classes.protocol.is_native(py, &protocol)?
        || transport.call_method(py, &names.is_closing, [])?.is_true(py)?
    {
        return Ok(false);
    }
    let attributes = InstanceDict::of(py, &protocol)?;
    if attributes.contains(py, &names._drain_helper)? {
        return Ok(false);
    }
    for name in [&names._connection_lost, &names._paused] {
        match attributes.get(py, name)? {
            Some(flag) if !flag.is_true(py)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
