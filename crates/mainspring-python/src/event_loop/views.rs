//! The engine's queues and registrations as lists, for libraries that read asyncio's private attributes.

use super::host::{PyHost, Watch};
use super::source::Source;
use crate::handle::Handle;
use crate::python::object::Obj;
use mainspring_engine::{Direction, Engine, GcReference, Readiness};
use pyo3::prelude::*;
use pyo3::types::PyList;

fn list<'py>(py: Python<'py>, handles: &[Handle]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, handles.iter().map(|handle| handle.as_obj().bind(py)))
}

/// The handles of the ready queue, in the order in which they run.
pub fn ready_handles<'py>(engine: &Engine<PyHost>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let mut handles = Vec::new();
    engine.for_each_ready(&mut |held| {
        let handle = match held {
            GcReference::Call(call) => call.handle(),
            GcReference::Timer(handle) | GcReference::Inbound(handle) => Some(handle),
            GcReference::Watch(_) | GcReference::Source(_) => None,
        };
        handles.extend(handle.cloned());
    });
    list(py, &handles)
}

/// The handles of the timers, in no order.
pub fn timer_handles<'py>(engine: &Engine<PyHost>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let mut handles = Vec::new();
    engine.for_each_timer(&mut |timer| handles.push(timer.clone()));
    list(py, &handles)
}

/// The registered file descriptors: `(fd, is_writer, file object or None, handle or transport)`.
pub fn registrations<'py>(engine: &Engine<PyHost>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let mut found = Vec::new();
    engine.for_each_registered(&mut |fd, direction, held| {
        let (file, object): (_, Obj) = match held {
            GcReference::Watch(Watch { handle, file }) => (file.clone(), handle.clone().into()),
            GcReference::Call(call) => (None, call.object().clone()),
            GcReference::Timer(handle) | GcReference::Inbound(handle) => (None, handle.clone().into()),
            GcReference::Source(object) => (None, object.clone()),
        };
        found.push((fd, direction == Direction::Outbound, file, object));
    });
    let entries = found.iter().map(|(fd, is_writer, file, object)| {
        let file = file.as_ref().map(|file| file.bind(py));
        (*fd, *is_writer, file, object.bind(py)).into_pyobject(py)
    });
    PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)
}

/// Serves a transport as if the kernel had reported that it can be read, or written.
pub fn serve(transport: &Bound<'_, PyAny>, writes: bool) -> PyResult<()> {
    let py = transport.py();
    let source = Obj::from(transport);
    let readiness = if writes { Readiness::OUTBOUND } else { Readiness::INBOUND };
    Source::of(py, &source)?.io_ready(py, &source, readiness)
}
