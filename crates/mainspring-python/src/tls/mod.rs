//! TLS as Python sees it: the engine's machine between a transport that carries ciphertext and a protocol.
//!
//! Two objects, as in asyncio. `SSLProtocol` is the protocol of the transport below, whoever made that; it holds the
//! machine. `SSLTransport` is the transport of the protocol above. Each refers to the other until the connection is
//! lost. `mainspring._tls` derives from both and adds what is rarely asked. Between a `StreamTransport` and the machine
//! there is no Python call: `protocol.rs` recognises an `SSLProtocol` and comes here.

mod buffers;
mod protocol_methods;
mod session;
mod transport_methods;
mod underlying_transport;

pub use buffers::RoomCell;

use crate::event_loop::NativeLoop;
use crate::event_loop::host::PyHost;
use crate::python::native_class::{NativeClass, NativeData, native_data};
use crate::python::object::Obj;
use crate::transport::channel::PyChunk;
use crate::transport::protocol::PyUpper;
use mainspring_engine::tls::Tls;
use mainspring_engine::transport::{Claim, Cx};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use session::PySession;
use std::cell::{OnceCell, RefCell};
use std::ffi::CStr;
use std::io;
use underlying_transport::PyLower;

type PyTls = Tls<PyHost, PySession, PyLower, PyUpper>;

/// Our data in a protocol object. Empty until `_bind`.
pub struct TlsData {
    open: OnceCell<Open>,
}

struct Open {
    tls: PyTls,
    event_loop: Obj,
    /// The transport of the protocol above, until the connection is lost.
    app_transport: RefCell<Option<Obj>>,
    /// What `get_buffer` gives to transports that are not ours.
    buffer: RefCell<Option<buffers::Room>>,
}

/// Our data in a transport object: its protocol. Empty until that is bound.
pub struct TlsTransportData {
    protocol: OnceCell<Obj>,
}

static PROTOCOL_CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();
static TRANSPORT_CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

fn asyncio_class<'py>(py: Python<'py>, module: &str, name: &str) -> PyResult<Vec<Bound<'py, PyType>>> {
    Ok(vec![py.import(module)?.getattr(name)?.cast_into::<PyType>()?])
}

impl NativeData for TlsData {
    const NAME: &'static CStr = c"mainspring._mainspring.SSLProtocol";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &PROTOCOL_CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        asyncio_class(py, "asyncio.protocols", "BufferedProtocol")
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        protocol_methods::table()
    }

    fn empty() -> Self {
        TlsData { open: OnceCell::new() }
    }

    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        let Some(open) = self.open.get() else { return };
        show(open.event_loop.as_ptr());
        if let Ok(transport) = open.app_transport.try_borrow()
            && let Some(transport) = &*transport
        {
            show(transport.as_ptr());
        }
        open.tls.session().for_each_held(show);
        open.tls.upper().for_each_held(&mut |held| show(held.as_ptr()));
        open.tls.show_lower(|lower| show(lower.object().as_ptr()));
        open.tls.for_each_chunk(&mut |chunk| {
            if let PyChunk::Bytes(bytes) = chunk {
                show(bytes.as_ptr());
            }
        });
    }

    fn clear(&self) {
        if let Some(open) = self.open.get() {
            let transport = open.app_transport.take();
            open.tls.clear();
            open.tls.upper().clear();
            drop(transport);
        }
    }

    fn finalize(&self, _: &Bound<'_, PyAny>) -> PyResult<()> {
        Ok(())
    }
}

impl NativeData for TlsTransportData {
    const NAME: &'static CStr = c"mainspring._mainspring.SSLTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &TRANSPORT_CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        asyncio_class(py, "asyncio.transports", "_FlowControlMixin")
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        transport_methods::table()
    }

    fn empty() -> Self {
        TlsTransportData { protocol: OnceCell::new() }
    }

    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        if let Some(protocol) = self.protocol.get() {
            show(protocol.as_ptr());
        }
    }

    /// The protocol's own `clear` breaks every cycle: it lets go of the transport.
    fn clear(&self) {}

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(protocol) = self.protocol.get() else { return Ok(()) };
        if open_of(object.py(), protocol)?.tls.is_closed() {
            return Ok(());
        }
        object.call_method0("_warn_unclosed").map(drop)
    }
}

/// Whether an object is one of our TLS protocols.
pub fn is_tls_protocol(py: Python<'_>, object: &Obj) -> PyResult<bool> {
    Ok(native_data::<TlsData>(py, object)?.is_some())
}

/// Whether an object is one of our TLS transports.
pub fn is_tls_transport(py: Python<'_>, object: &Obj) -> PyResult<bool> {
    Ok(native_data::<TlsTransportData>(py, object)?.is_some())
}

fn open_of<'a>(py: Python<'_>, protocol: &'a Obj) -> PyResult<&'a Open> {
    let data = native_data::<TlsData>(py, protocol)?;
    let open = data.and_then(|data| data.open.get());
    open.ok_or_else(|| PyRuntimeError::new_err("the TLS protocol was not made by a loop"))
}

fn native_of<'a>(py: Python<'a>, open: &Open) -> PyResult<&'a NativeLoop> {
    // SAFETY: the loop is held by the protocol.
    let native = unsafe { NativeLoop::from_ptr(py, open.event_loop.as_ptr()) };
    native.ok_or_else(|| PyTypeError::new_err("the transport's loop is not a mainspring.Loop"))
}

/// Tells the machine something from below. `None`, and nothing done, once the connection is lost.
fn from_below<R>(
    py: Python<'_>,
    protocol: &Obj,
    body: impl FnOnce(&Open, Cx<'_, PyHost>) -> PyResult<R>,
) -> PyResult<Option<R>> {
    let open = open_of(py, protocol)?;
    let transport = open.app_transport.borrow().clone();
    let Some(transport) = transport else { return Ok(None) };
    body(open, Cx { engine: native_of(py, open)?.engine(), this: &transport }).map(Some)
}

/// A stream received, or may.
pub fn receive(py: Python<'_>, protocol: &Obj, claim: Claim<'_>) -> PyResult<io::Result<usize>> {
    let received = from_below(py, protocol, |open, cx| open.tls.session().receive(cx.engine.host(), claim))?;
    // Nothing is received any more after the end.
    Ok(received.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into())))
}

/// What was received is with the session.
pub fn received(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    from_below(py, protocol, |open, cx| open.tls.fed(cx)).map(|_| ())
}

/// The stream below ended.
pub fn eof_received(py: Python<'_>, protocol: &Obj) -> PyResult<bool> {
    Ok(from_below(py, protocol, |open, cx| open.tls.eof_received(cx))?.unwrap_or(false))
}

/// The transport below wants no more.
pub fn pause_writing(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    from_below(py, protocol, |open, _| {
        open.tls.pause_writing();
        Ok(())
    })
    .map(|_| ())
}

/// The transport below wants more again.
pub fn resume_writing(py: Python<'_>, protocol: &Obj) -> PyResult<()> {
    from_below(py, protocol, |open, cx| open.tls.resume_writing(cx)).map(|_| ())
}

/// The transport below is gone.
pub fn connection_lost(py: Python<'_>, protocol: &Obj, error: Option<PyErr>) -> PyResult<()> {
    let result = from_below(py, protocol, |open, cx| open.tls.connection_lost(cx, error));
    let open = open_of(py, protocol)?;
    let held = (open.app_transport.take(), open.buffer.take());
    drop(held);
    result.map(|_| ())
}
