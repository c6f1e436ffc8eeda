//! The common part of all transport classes: an engine transport, its loop, its contexts, and the engine's calls.

pub mod address;
pub mod channel;
mod contexts;
mod engine_transport;
pub mod methods;
pub mod protocol;
mod write_buffer_limits;
pub mod write_data;

pub use contexts::write_in_context;
pub use engine_transport::EngineTransport;
pub use write_buffer_limits::write_buffer_limits;

use crate::errors;
use crate::event_loop::NativeLoop;
use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::method::Receiver;
use crate::python::native_class::{NativeData, native_data};
use crate::python::object::Obj;
use contexts::Contexts;
use mainspring_engine::Readiness;
use mainspring_engine::transport::{Cx, Transport};
use protocol::PyProtocol;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::OnceCell;

/// The state of a transport that a loop has opened.
pub struct Open<M> {
    pub machine: M,
    pub event_loop: Obj,
    pub contexts: Contexts,
}

impl<M: EngineTransport> Open<M> {
    /// Drops the contexts of a transport whose `connection_lost()` was called. That happens in a deferred call or in the
    /// last flush.
    fn drop_contexts_if_finished(&self) {
        if self.machine.is_finished() {
            self.contexts.clear();
        }
    }
}

/// A transport class.
pub trait TransportClass: NativeData {
    type Machine: EngineTransport;

    /// Empty until a loop opens the transport.
    fn opened(&self) -> &OnceCell<Open<Self::Machine>>;

    fn protocol(machine: &Self::Machine) -> &PyProtocol;

    /// Visits the references of the write queue, and others of this class only, for the garbage collector.
    fn traverse_machine(machine: &Self::Machine, visit: &mut dyn FnMut(&Obj));
}

/// [`NativeData::traverse`] of every transport class.
pub fn traverse<K: TransportClass>(data: &K, visit: &mut dyn FnMut(&Obj)) {
    let Some(open) = data.opened().get() else { return };
    visit(&open.event_loop);
    K::protocol(&open.machine).traverse(visit);
    open.contexts.traverse(visit);
    open.machine.show_channel(&mut |channel| channel.traverse(visit));
    open.machine.show_failure(&mut |failure| errors::traverse(failure, visit));
    K::traverse_machine(&open.machine, visit);
}

/// [`NativeData::clear`] of every transport class.
pub fn clear<K: TransportClass>(data: &K) {
    if let Some(open) = data.opened().get() {
        K::protocol(&open.machine).clear();
        open.contexts.clear();
    }
}

/// [`NativeData::finalize`] of every transport class: warns of a transport that was not closed.
pub fn finalize<K: TransportClass>(data: &K, object: &Bound<'_, PyAny>) -> PyResult<()> {
    match data.opened().get() {
        Some(open) if !open.machine.is_finished() => object.call_method0("_warn_unclosed").map(drop),
        _ => Ok(()),
    }
}

/// Opens `object`, a new instance, with `machine`. `begin` runs before the first deferred call is scheduled; if it
/// fails, the file descriptor is closed.
pub fn open<K: TransportClass>(
    object: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    machine: K::Machine,
    context: Option<Obj>,
    begin: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let py = object.py();
    let this = Obj::from(object);
    let event_loop_object = Obj::from(event_loop);
    let Some(data) = native_data::<K>(py, &this)? else {
        return Err(PyTypeError::new_err(format!("not a {}", K::NAME.to_string_lossy())));
    };
    native_loop(py, &event_loop_object)?;
    let opened = Open { machine, event_loop: event_loop_object.clone(), contexts: Contexts::new(context) };
    if data.opened().set(opened).is_err() {
        return Err(PyRuntimeError::new_err("the transport is open already"));
    }
    object.setattr(&names(py)?._loop, event_loop)?;
    if let Err(error) = begin() {
        // No deferred call was scheduled, so nothing else would close the descriptor.
        if let Some(open) = data.opened().get() {
            K::protocol(&open.machine).clear();
            drop(open.machine.take_channel());
        }
        return Err(error);
    }
    let (open, cx) = opened_in(py, &this, data)?;
    open.machine.open(cx)
}

/// The native part of a transport's loop.
#[inline]
pub fn native_loop<'a>(py: Python<'_>, event_loop: &'a Obj) -> PyResult<&'a NativeLoop> {
    NativeLoop::of(py, event_loop)
        .ok_or_else(|| PyTypeError::new_err("the transport's loop is not a mainspring.Loop"))
}

/// The state of a transport that a loop has opened, and the context for calls of the engine.
#[inline]
pub fn opened_in<'a, K: TransportClass>(
    py: Python<'_>,
    this: &'a Obj,
    data: &'a K,
) -> PyResult<(&'a Open<K::Machine>, Cx<'a, PyHost>)> {
    let Some(open) = data.opened().get() else {
        return Err(PyRuntimeError::new_err("the transport was not opened by a loop"));
    };
    let engine = native_loop(py, &open.event_loop)?.engine();
    Ok((open, Cx { engine, this }))
}

/// As [`opened_in`], for the receiver of a method.
#[inline]
pub fn opened<'a, K: TransportClass>(
    receiver: Receiver<'a, K>,
) -> PyResult<(&'a Open<K::Machine>, Cx<'a, PyHost>)> {
    opened_in(receiver.py, receiver.this, receiver.data)
}

/// The file descriptor of a transport is ready. The protocol is called in the transport's contexts.
pub fn io_ready<K: TransportClass>(
    py: Python<'_>,
    data: &K,
    source: &Obj,
    readiness: Readiness,
) -> PyResult<()> {
    let (open, cx) = opened_in(py, source, data)?;
    if readiness.inbound {
        open.contexts.reading.run(py, || open.machine.io_ready(cx, Readiness::INBOUND))?;
    }
    if readiness.outbound {
        open.contexts.writing.run(py, || open.machine.io_ready(cx, Readiness::OUTBOUND))?;
        open.drop_contexts_if_finished();
    }
    Ok(())
}

/// Whether the file descriptor is registered for reading.
pub fn is_registered_for_reading<K: TransportClass>(data: &K) -> bool {
    data.opened().get().is_some_and(|open| open.machine.interest().is_inbound())
}

/// The context of deferred calls; `None` for a copy of the current one.
pub fn deferred_context<K: TransportClass>(data: &K) -> Option<&Obj> {
    data.opened().get().and_then(|open| open.contexts.for_deferred())
}

/// A bound method of the protocol.
pub fn protocol_method<'py, K: TransportClass>(
    py: Python<'py>,
    data: &K,
    name: &Py<PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(open) = data.opened().get() else {
        return Err(PyRuntimeError::new_err("the transport was not opened by a loop"));
    };
    match K::protocol(&open.machine).protocol() {
        Some(protocol) => protocol.bind(py).getattr(name),
        None => Err(PyRuntimeError::new_err("the transport has no protocol")),
    }
}
