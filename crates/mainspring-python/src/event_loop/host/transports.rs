//! What the engine asks of Python for transports.

use super::{PyHost, pass_exit_exceptions};
use crate::errors;
use crate::event_loop::NativeLoop;
use crate::event_loop::source::Source;
use crate::handle::{Callback, Handle};
use crate::names::names;
use crate::python::back_reference::BackReference;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::tls;
use crate::transport::channel::PyChannel;
use crate::transport::write_data::PyChunk;
use mainspring_engine::transport::{DeferredCall, TransportHost};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

impl PyHost {
    /// Logs an event of a transport in debug mode.
    pub fn log(&self, source: &Obj, event: &str) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.log_event, (source.bind(py), event)).map(drop)
    }

    /// Logs in debug mode that the other end of a pipe was closed.
    pub(super) fn log_closed_by_peer(&self, source: &Obj) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.closed_by_peer, (source.bind(py),)).map(drop)
    }

    /// A handle for a deferred call.
    fn deferred_handle(
        &self,
        source: &Obj,
        deferred: DeferredCall,
        argument: Option<Obj>,
    ) -> PyResult<Handle> {
        let py = attached();
        let event_loop = Obj::from(self.event_loop(py)?);
        if let Some(native) = NativeLoop::of(py, &event_loop) {
            // As asyncio's call_soon(): a closed loop would never run the handle.
            native.check_closed()?;
        }
        let kind = Source::of(py, source)?;
        let callback = Obj::from(kind.deferred_method(py, source, deferred)?);
        let traceback = self.source_traceback(py)?;
        Callback {
            event_loop: &event_loop,
            callback: &callback,
            args: argument.as_slice(),
            context: kind.deferred_context(),
            source_traceback: traceback.as_ref(),
            is_tracked: true,
        }
        .new_handle(py)
    }
}

impl TransportHost for PyHost {
    type Channel = PyChannel;
    type Chunk = PyChunk;

    fn owner(&self, source: &Obj) -> Option<BackReference> {
        Some(BackReference::new(&source.bind(attached())))
    }

    fn deferred_call(&self, source: &Obj, deferred: DeferredCall) -> PyResult<Handle> {
        if deferred == DeferredCall::EofReceived {
            self.log_closed_by_peer(source)?;
        }
        let argument = (deferred == DeferredCall::ConnectionMade).then(|| source.clone());
        self.deferred_handle(source, deferred, argument)
    }

    fn deferred_connection_lost(&self, source: &Obj, error: Option<&PyErr>) -> PyResult<Handle> {
        let py = attached();
        let error = match error {
            Some(error) => {
                errors::prepare_for_traverse(py, error);
                Obj::from(error.value(py))
            }
            None => Obj::none(),
        };
        self.deferred_handle(source, DeferredCall::ConnectionLost, Some(error))
    }

    fn report(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<()> {
        let py = attached();
        let error = pass_exit_exceptions(py, error)?;
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, source.bind(py), error.into_value(py), message);
        names.reports.bind(py).call_method1(&names.transport_failed, arguments).map(drop)
    }

    fn report_fatal(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<PyErr> {
        let py = attached();
        let error = pass_exit_exceptions(py, error)?;
        if !error.is_instance_of::<PyException>(py) && tls::is_tls_transport(py, source)? {
            // As in asyncio, TLS passes a `BaseException` to the underlying transport, which reports it.
            return Err(error);
        }
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, source.bind(py), error.value(py), message);
        names.reports.bind(py).call_method1(&names.fatal_transport_error, arguments)?;
        Ok(error)
    }

    fn warn_write_after_loss(&self, source: &Obj) -> PyResult<()> {
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.warn_write_after_loss, (source.bind(py),)).map(drop)
    }
}
