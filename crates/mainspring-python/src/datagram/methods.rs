//! The methods that only `DatagramTransport` has, as the interpreter calls them.

use super::DatagramData;
use crate::event_loop::host::out_of_memory;
use crate::python::method::{self, Args};
use crate::transport::channel::Data;
use crate::transport::contexts::writing;
use crate::transport::method;
use crate::transport::methods::none;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The methods beside those of every kind.
pub fn table() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method(c"sendto", sendto, c"Send data to the transport's peer, or to the given address."),
        method::method_noargs(c"_take_socket", take_socket, c"The socket object that owns the descriptor."),
        method::method_noargs(c"_queued", queued, c"The datagrams that wait, each with its address."),
    ]
}

extern "C" fn sendto(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<DatagramData>(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("sendto", args, count, kwnames) };
        let [data, address] = args.optional(py, ["data", "addr"])?;
        let Some(data) = data else {
            return Err(PyTypeError::new_err("sendto() missing 1 required positional argument: 'data'"));
        };
        // SAFETY: held by `data`.
        let data = unsafe { Data::new(py, data.as_ptr())? };
        let upper = open.machine.upper();
        if data.as_slice().is_empty() && !upper.sends_empty() {
            return none(py);
        }
        let destination = upper.destination(py, address)?;
        writing(py, open, || open.machine.send_to(cx, data.as_slice(), destination, || data.to_chunk()))?;
        none(py)
    })
}

extern "C" fn take_socket(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<DatagramData>(this, |py, open, _| match open.machine.upper().socket() {
        Some(socket) => Ok(socket.into_ptr()),
        None => none(py),
    })
}

extern "C" fn queued(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<DatagramData>(this, |py, open, _| {
        let mut waiting = Vec::new();
        // Only references are made while the queue is looked at.
        open.machine.for_each_queued(&mut |datagram| {
            let chunk = datagram.chunk.share().ok_or_else(out_of_memory);
            waiting.push(chunk.map(|chunk| (chunk, datagram.destination.clone())));
        });
        let list = PyList::empty(py);
        for queued in waiting {
            let (chunk, destination) = queued?;
            list.append((chunk.to_bytes(py)?.bind(py), open.machine.upper().name_of(py, &destination)?))?;
        }
        Ok(list.into_ptr())
    })
}
