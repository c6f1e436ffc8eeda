//! TLS: the engine's state machine between a transport that carries ciphertext and a protocol.
//!
//! As in asyncio there are two objects. `SSLProtocol` is the protocol of the underlying transport, and holds the state
//! machine. `SSLTransport` is the transport of the application's protocol. They refer to each other until the connection
//! is lost. `mainspring._tls` derives from both and adds rarely used parts. Between a `StreamTransport` and the state
//! machine there is no Python call: `transport/protocol.rs` recognises an `SSLProtocol` and calls the functions here.

mod buffers;
mod protocol_methods;
mod session;
mod transport_methods;
mod underlying_transport;

pub use buffers::SharedBuffer;

use crate::event_loop::host::PyHost;
use crate::python::method::{Method, Native};
use crate::python::native_class::{NativeClass, NativeData, native_data};
use crate::python::object::Obj;
use crate::transport::native_loop;
use crate::transport::protocol::PyProtocol;
use buffers::TlsBuffer;
use mainspring_engine::tls::Tls;
use mainspring_engine::transport::{Cx, RecvFn};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use session::PySession;
use std::cell::{OnceCell, RefCell};
use std::ffi::CStr;
use std::io;
use underlying_transport::UnderlyingTransport;

type PyTls = Tls<PyHost, PySession, UnderlyingTransport, PyProtocol>;

/// The native data of an `SSLProtocol`. Empty until `_bind()`.
pub struct TlsProtocolData {
    open: OnceCell<Open>,
}

struct Open {
    tls: PyTls,
    event_loop: Obj,
    /// The `SSLTransport`, until the connection is lost.
    app_transport: RefCell<Option<Obj>>,
    /// The result of `get_buffer()`, which only transports of other libraries call.
    buffer: RefCell<Option<TlsBuffer>>,
}

/// The native data of an `SSLTransport`. Empty until the protocol's `_bind()`.
pub struct TlsTransportData {
    protocol: OnceCell<Obj>,
}

static PROTOCOL_CLASS: PyOnceLock<NativeClass<TlsProtocolData>> = PyOnceLock::new();
static TRANSPORT_CLASS: PyOnceLock<NativeClass<TlsTransportData>> = PyOnceLock::new();

fn asyncio_class<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Vec<Bound<'py, PyType>>> {
    Ok(vec![py.import(module)?.getattr(name)?.cast_into::<PyType>()?])
}

impl NativeData for TlsProtocolData {
    const NAME: &'static CStr = c"mainspring._mainspring.SSLProtocol";

    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>> {
        &PROTOCOL_CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        asyncio_class(py, "asyncio.protocols", "BufferedProtocol")
    }

    fn methods() -> Vec<Method<Native<Self>>> {
        protocol_methods::methods()
    }

    fn empty() -> Self {
        TlsProtocolData { open: OnceCell::new() }
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        let Some(open) = self.open.get() else { return };
        visit(&open.event_loop);
        if let Ok(transport) = open.app_transport.try_borrow() {
            transport.iter().for_each(&mut *visit);
        }
        open.tls.session().traverse(visit);
        open.tls.sink().traverse(visit);
        open.tls.show_lower(|lower| visit(lower.object()));
        open.tls.for_each_chunk(&mut |chunk| chunk.traverse(visit));
    }

    fn clear(&self) {
        if let Some(open) = self.open.get() {
            let transport = open.app_transport.take();
            open.tls.clear();
            open.tls.sink().clear();
            drop(transport);
        }
    }

    fn finalize(&self, _: &Bound<'_, PyAny>) -> PyResult<()> {
        Ok(())
    }
}

impl NativeData for TlsTransportData {
    const NAME: &'static CStr = c"mainspring._mainspring.SSLTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>> {
        &TRANSPORT_CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        asyncio_class(py, "asyncio.transports", "_FlowControlMixin")
    }

    fn methods() -> Vec<Method<Native<Self>>> {
        transport_methods::methods()
    }

    fn empty() -> Self {
        TlsTransportData { protocol: OnceCell::new() }
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        self.protocol.get().into_iter().for_each(visit);
    }

    /// Empty: `clear()` of the protocol breaks every cycle, since it drops the transport.
    fn clear(&self) {}

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(protocol) = self.protocol.get() else { return Ok(()) };
        if open_of(object.py(), protocol)?.tls.is_closed() {
            return Ok(());
        }
        object.call_method0("_warn_unclosed").map(drop)
    }
}

/// Whether an object is an `SSLProtocol` of this module.
pub fn is_tls_protocol(py: Python<'_>, object: &Obj) -> PyResult<bool> {
    Ok(native_data::<TlsProtocolData>(py, object)?.is_some())
}

/// Whether an object is an `SSLTransport` of this module.
pub fn is_tls_transport(py: Python<'_>, object: &Obj) -> PyResult<bool> {
    Ok(native_data::<TlsTransportData>(py, object)?.is_some())
}

fn open_of<'a>(py: Python<'_>, protocol: &'a Obj) -> PyResult<&'a Open> {
    let data = native_data::<TlsProtocolData>(py, protocol)?;
    let open = data.and_then(|data| data.open.get());
    open.ok_or_else(|| PyRuntimeError::new_err("the TLS protocol was not created by a loop"))
}

/// Calls `body` for an event of the underlying transport. Does nothing and returns `None` if the connection is lost.
fn with_connection<R>(
    py: Python<'_>,
    protocol: &Obj,
    body: impl FnOnce(&Open, Cx<'_, PyHost>) -> PyResult<R>,
) -> PyResult<Option<R>> {
    let open = open_of(py, protocol)?;
    let transport = open.app_transport.borrow().clone();
    let Some(transport) = transport else { return Ok(None) };
    let engine = native_loop(py, &open.event_loop)?.engine();
    body(open, Cx { engine, this: &transport }).map(Some)
}

/// Lets `claim` receive ciphertext from the underlying stream.
pub fn receive(py: Python<'_>, protocol: &Obj, claim: RecvFn<'_>) -> PyResult<io::Result<usize>> {
    let received =
        with_connection(py, protocol, |open, cx| open.tls.session().receive(cx.engine.host(), claim))?;
    // Nothing is received after the connection was lost.
    Ok(received.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into())))
}

/// The session has received ciphertext.
pub fn buffer_updated(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    with_connection(py, protocol, |open, cx| open.tls.fed(cx)).map(|_| ())
}

/// The underlying transport received EOF.
pub fn eof_received(py: Python<'_>, protocol: &Obj) -> PyResult<bool> {
    Ok(with_connection(py, protocol, |open, cx| open.tls.eof_received(cx))?.unwrap_or(false))
}

/// The write buffer of the underlying transport is full.
pub fn pause_writing(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    with_connection(py, protocol, |open, _| {
        open.tls.pause_writing();
        Ok(())
    })
    .map(|_| ())
}

/// The write buffer of the underlying transport has drained.
pub fn resume_writing(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    with_connection(py, protocol, |open, cx| open.tls.resume_writing(cx)).map(|_| ())
}

/// The connection of the underlying transport is lost.
pub fn connection_lost(py: Python<'_>, protocol: &Obj, error: Option<PyErr>) -> PyResult<()> {
    let result = with_connection(py, protocol, |open, cx| open.tls.connection_lost(cx, error));
    let open = open_of(py, protocol)?;
    let held = (open.app_transport.take(), open.buffer.take());
    drop(held);
    result.map(|_| ())
}
