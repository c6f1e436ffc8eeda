//! Taking buffered data, and waiting for more.
//!
//! The order of the checks is that of asyncio's methods. An exception that was set on the reader is checked before the
//! first wait, as there.

use super::reader::Reader;
use crate::python::args::Args;
use crate::python::bytes::Bytes;
use crate::python::method::Receiver;
use crate::python::object::Obj;
use crate::python::stream_buffer::StreamBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// `take_line(reader, buffer, limit, exception, paused)`. The caller passes the attributes of the reader: the interpreter
/// reads them at a quarter of the cost of a lookup from here, which is 10 % of the instructions of the row `C.readline`.
pub fn take_line(receiver: Receiver<'_, ()>, args: &Args<'_>) -> PyResult<Option<Obj>> {
    let py = receiver.py;
    let [reader, buffer, limit, exception, paused] = arguments(args)?;
    let Some(reader) = Reader::of(py, reader)? else { return Ok(None) };
    let Some(buffer) = StreamBuffer::from_exact(buffer.clone()).filter(|_| exception.is_none()) else {
        return Ok(None);
    };
    match buffer.find(b"\n", 0) {
        Some(position) if limit.to_usize(py).is_ok_and(|limit| position <= limit) => {
            let line = buffer.take(py, position + 1)?;
            if paused.is_true(py)? {
                reader.resume_if_below_limit(buffer.len())?;
            }
            Ok(Some(line.into()))
        }
        _ => Ok(None),
    }
}

/// `take_until(reader, separator, searched)`. `searched` is the number of bytes that were searched before the last wait,
/// or `None` before the first wait.
pub fn take_until(receiver: Receiver<'_, ()>, args: &Args<'_>) -> PyResult<Option<Obj>> {
    let py = receiver.py;
    let [reader, separator, searched] = arguments(args)?;
    let Some(reader) = Reader::of(py, reader)? else { return Ok(None) };
    // asyncio's method handles tuples, other types, and the empty separator.
    let separator = Bytes::from_exact(separator).filter(|separator| !separator.as_ref().is_empty());
    let Some(separator) = separator else { return Ok(None) };
    let searched = match searched.is_none() {
        true if reader.has_exception()? => return Ok(None),
        true => 0,
        false => searched.to_usize(py)?,
    };
    let (Some(buffer), Some(limit)) = (reader.buffer()?, reader.limit()?) else { return Ok(None) };
    let length = separator.as_ref().len();
    // The separator may begin in the bytes that were searched, and end behind them.
    match buffer.find(separator.as_ref(), searched.saturating_sub(length - 1)) {
        Some(position) if position <= limit => reader.take(&buffer, position + length).map(Some),
        _ => Ok(None),
    }
}

/// `take_some(reader, n, has_waited)`.
pub fn take_some(receiver: Receiver<'_, ()>, args: &Args<'_>) -> PyResult<Option<Obj>> {
    let [reader, count, has_waited] = arguments(args)?;
    let Some(request) = Request::new(receiver.py, reader, count, has_waited)? else { return Ok(None) };
    let is_ready = request.has_waited || request.buffer.len() != 0 || request.reader.is_at_eof()?;
    request.take_if(is_ready)
}

/// `take_exactly(reader, n, has_waited)`.
pub fn take_exactly(receiver: Receiver<'_, ()>, args: &Args<'_>) -> PyResult<Option<Obj>> {
    let [reader, count, has_waited] = arguments(args)?;
    let Some(request) = Request::new(receiver.py, reader, count, has_waited)? else { return Ok(None) };
    let is_ready = request.buffer.len() >= request.count;
    request.take_if(is_ready)
}

/// `start_waiting(reader, separator_length)`. Called after one of the functions above has returned `None`. Returns the
/// future, or `None` if asyncio's method would not wait.
pub fn start_waiting(receiver: Receiver<'_, ()>, args: &Args<'_>) -> PyResult<Option<Obj>> {
    let py = receiver.py;
    let [reader, separator_length] = arguments(args)?;
    let Some(reader) = Reader::of(py, reader)? else { return Ok(None) };
    if reader.has_exception()? {
        return Ok(None);
    }
    let separator_length = separator_length.to_usize(py)?;
    if separator_length > 0 {
        let (Some(buffer), Some(limit)) = (reader.buffer()?, reader.limit()?) else { return Ok(None) };
        // A separator that begins behind the limit may be in the buffer, or still to come.
        if buffer.len() >= limit.saturating_add(separator_length) {
            return Ok(None);
        }
    }
    reader.wait()
}

/// A read of a number of bytes.
struct Request<'py> {
    reader: Reader<'py>,
    buffer: StreamBuffer,
    count: usize,
    has_waited: bool,
}

impl<'py> Request<'py> {
    /// `None` if asyncio's method has to be called.
    #[inline]
    fn new(py: Python<'py>, reader: &Obj, count: &Obj, has_waited: &Obj) -> PyResult<Option<Self>> {
        let Some(reader) = Reader::of(py, reader)? else { return Ok(None) };
        let has_waited = has_waited.is_true(py)?;
        if !has_waited && reader.has_exception()? {
            return Ok(None);
        }
        // 0, negative numbers and other types are asyncio's.
        let count = count.to_usize(py).ok().filter(|count| *count > 0);
        let (Some(count), Some(buffer)) = (count, reader.buffer()?) else { return Ok(None) };
        Ok(Some(Request { reader, buffer, count, has_waited }))
    }

    #[inline]
    fn take_if(&self, is_ready: bool) -> PyResult<Option<Obj>> {
        is_ready.then(|| self.reader.take(&self.buffer, self.count)).transpose()
    }
}

#[inline]
fn arguments<'a, const N: usize>(args: &Args<'a>) -> PyResult<[&'a Obj; N]> {
    match args.positional() {
        Some(arguments) => Ok(arguments.each_ref()),
        None => Err(PyTypeError::new_err(format!("{N} positional arguments are needed"))),
    }
}
