//! What all kinds of transport objects have in common: a transport of the engine's, its loop, its contexts; and what the
//! engine asks of them.

pub mod address;
pub mod channel;
pub mod contexts;
pub mod engine_transport;
pub mod methods;
pub mod protocol;
pub mod write_buffer_limits;

use crate::errors;
use crate::event_loop::NativeLoop;
use crate::event_loop::fd_owners::FdClaim;
use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::method::enter;
use crate::python::native_class::{NativeClass, NativeData, native_data};
use crate::python::object::Obj;
use crate::transport::protocol::PyUpper;
use contexts::Contexts;
use engine_transport::Machine;
use mainspring_engine::Readiness;
use mainspring_engine::transport::Cx;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::OnceCell;

/// What an object has once a loop has opened it.
pub struct Open<M> {
    /// First, so that it is dropped first: before anything runs that could ask whose the descriptor is.
    _claim: FdClaim,
    pub machine: M,
    pub event_loop: Obj,
    pub contexts: Contexts,
}

impl<M: Machine> Open<M> {
    /// The end of a transport may be told by a deferred step or out of its last flush.
    pub fn forget_contexts_at_the_end(&self) {
        if self.machine.is_finished() {
            self.contexts.forget();
        }
    }
}

/// A kind of transport objects.
pub trait Kind: NativeData {
    type Machine: Machine;

    /// Empty until a loop opens the transport.
    fn opened(&self) -> &OnceCell<Open<Self::Machine>>;

    /// The protocol above.
    fn protocol(machine: &Self::Machine) -> &PyUpper;

    /// Shows what waits to be sent, and what else is the kind's own, to the garbage collector.
    fn for_each_own(machine: &Self::Machine, show: &mut dyn FnMut(*mut ffi::PyObject));
}

/// [`NativeData::for_each_held`] of every kind.
pub fn for_each_held<K: Kind>(data: &K, show: &mut dyn FnMut(*mut ffi::PyObject)) {
    let Some(open) = data.opened().get() else { return };
    show(open.event_loop.as_ptr());
    K::protocol(&open.machine).for_each_held(&mut |held| show(held.as_ptr()));
    open.contexts.show(show);
    open.machine.show_channel(&mut |channel| channel.for_each_held(show));
    open.machine.show_failure(&mut |failure| errors::for_each_held(failure, show));
    K::for_each_own(&open.machine, show);
}

/// [`NativeData::clear`] of every kind.
pub fn clear<K: Kind>(data: &K) {
    if let Some(open) = data.opened().get() {
        K::protocol(&open.machine).clear();
        open.contexts.forget();
    }
}

/// [`NativeData::finalize`] of every kind: a transport that is lost without having been closed is worth a warning.
pub fn finalize<K: Kind>(data: &K, object: &Bound<'_, PyAny>) -> PyResult<()> {
    match data.opened().get() {
        Some(open) if !open.machine.is_finished() => object.call_method0("_warn_unclosed").map(drop),
        _ => Ok(()),
    }
}

/// Puts `machine` into `object`, a new instance. `begin` does what the kind has to do before the first step is scheduled;
/// if it fails, the descriptor closes with the failure.
pub fn open<K: Kind>(
    object: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    machine: K::Machine,
    context: Option<Obj>,
    begin: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let py = object.py();
    let this: Obj = object.clone().into();
    let Some(data) = native_data::<K>(py, &this)? else {
        return Err(PyTypeError::new_err(format!("not a {}", K::NAME.to_string_lossy())));
    };
    // SAFETY: a live object.
    let Some(native) = (unsafe { NativeLoop::from_ptr(py, event_loop.as_ptr()) }) else {
        return Err(PyTypeError::new_err("the transport's loop is not a mainspring.Loop"));
    };
    let opened = Open {
        _claim: native.owners().claim(machine.fd(), object),
        machine,
        event_loop: event_loop.clone().into(),
        contexts: Contexts::new(context),
    };
    if data.opened().set(opened).is_err() {
        return Err(PyRuntimeError::new_err("the transport is open already"));
    }
    object.setattr(&names(py)?._loop, event_loop)?;
    if let Err(error) = begin() {
        // It never began, and nobody else will end it.
        if let Some(open) = data.opened().get() {
            K::protocol(&open.machine).clear();
            drop(open.machine.take_channel());
        }
        return Err(error);
    }
    with_open(py, data, |open, native| open.machine.open(Cx { engine: native.engine(), this: &this }))
}

/// Runs `body` with what the object has since it was opened, and its loop.
pub fn with_open<K: Kind, R>(
    py: Python<'_>,
    data: &K,
    body: impl FnOnce(&Open<K::Machine>, &NativeLoop) -> PyResult<R>,
) -> PyResult<R> {
    let Some(open) = data.opened().get() else {
        return Err(PyRuntimeError::new_err("the transport was not opened by a loop"));
    };
    // SAFETY: the loop is held by the transport.
    match unsafe { NativeLoop::from_ptr(py, open.event_loop.as_ptr()) } {
        Some(native) => body(open, native),
        None => Err(PyTypeError::new_err("the transport's loop is not a mainspring.Loop")),
    }
}

/// Runs the body of a method with the transport and what it needs to call out.
pub fn method<K: Kind>(
    this: *mut ffi::PyObject,
    body: impl FnOnce(Python<'_>, &Open<K::Machine>, Cx<'_, PyHost>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    enter(|py| {
        let class = NativeClass::of::<K>(py)?;
        // SAFETY: called by the interpreter as a method of the type; `this` is alive for the call, and the
        // reference made here keeps it so while the protocol is called.
        let (this, data) = unsafe { (Obj::from_borrowed(this), class.data::<K>(this)) };
        with_open(py, data, |open, native| body(py, open, Cx { engine: native.engine(), this: &this }))
    })
}

/// Something happened on a transport's descriptor: the protocol hears of it in the transport's contexts.
pub fn io_ready<K: Kind>(py: Python<'_>, data: &K, source: &Obj, readiness: Readiness) -> PyResult<()> {
    with_open(py, data, |open, native| {
        let cx = Cx { engine: native.engine(), this: source };
        if readiness.inbound {
            open.contexts.reading.run(py, || open.machine.io_ready(cx, Readiness::INBOUND))?;
        }
        if readiness.outbound {
            open.contexts.writing.run(py, || open.machine.io_ready(cx, Readiness::OUTBOUND))?;
            open.forget_contexts_at_the_end();
        }
        Ok(())
    })
}

/// Whether the kernel is asked for what arrives.
pub fn reads<K: Kind>(data: &K) -> bool {
    data.opened().get().is_some_and(|open| open.machine.interest().is_inbound())
}

/// The context that a transport's deferred steps are called in; null for a copy of the current one.
pub fn context_for_steps<K: Kind>(data: &K) -> *mut ffi::PyObject {
    data.opened().get().map_or(std::ptr::null_mut(), |open| open.contexts.for_steps())
}

/// A method of the protocol's, bound.
pub fn protocols_own<'py, K: Kind>(
    py: Python<'py>,
    data: &K,
    name: &Py<PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    with_open(py, data, |open, _| match K::protocol(&open.machine).protocol() {
        Some(protocol) => protocol.bind(py).getattr(name),
        None => Err(PyRuntimeError::new_err("the transport has no protocol")),
    })
}
