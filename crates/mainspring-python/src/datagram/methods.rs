//! The methods of `DatagramTransport` beside those that transports share.

use super::DatagramData;
use crate::errors::out_of_memory;
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::object::Obj;
use crate::transport::write_data::WriteData;
use crate::transport::{opened, write_in_context};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

pub fn methods() -> Vec<Method<Native<DatagramData>>> {
    vec![
        Method::fastcall(c"sendto", sendto, c"Send data to the transport's peer, or to the given address."),
        Method::noargs(c"_take_socket", take_socket, c"The socket object that owns the descriptor."),
        Method::noargs(c"_queued", queued, c"The queued datagrams: a list of (data, address)."),
    ]
}

fn sendto(receiver: Receiver<'_, DatagramData>, args: &Args<'_>) -> PyResult<()> {
    let py = receiver.py;
    let (open, cx) = opened(receiver)?;
    let [data, address] = args.optional("sendto", ["data", "addr"])?;
    let Some(data) = data else {
        return Err(PyTypeError::new_err("sendto() missing 1 required positional argument: 'data'"));
    };
    let data = WriteData::new(py, data)?;
    let sink = open.machine.sink();
    if data.as_slice().is_empty() && !sink.sends_empty() {
        return Ok(());
    }
    let destination = sink.destination(py, address.map(|address| address.bind(py)))?;
    write_in_context(py, open, || open.machine.send_to(cx, data.as_slice(), destination, || data.to_chunk()))
}

fn take_socket(receiver: Receiver<'_, DatagramData>) -> PyResult<Option<Obj>> {
    Ok(opened(receiver)?.0.machine.sink().socket())
}

fn queued(receiver: Receiver<'_, DatagramData>) -> PyResult<Obj> {
    let py = receiver.py;
    let (open, _) = opened(receiver)?;
    let mut found = Vec::new();
    // Only references are created while the queue is borrowed.
    open.machine.for_each_queued(&mut |datagram| {
        let chunk = datagram.chunk.share().ok_or_else(out_of_memory);
        found.push(chunk.map(|chunk| (chunk, datagram.destination.clone())));
    });
    let list = PyList::empty(py);
    for queued in found {
        let (chunk, destination) = queued?;
        let data = chunk.to_bytes(py)?.as_obj().bind(py);
        list.append((data, open.machine.sink().name_of(py, &destination)?))?;
    }
    Ok(list.into())
}
