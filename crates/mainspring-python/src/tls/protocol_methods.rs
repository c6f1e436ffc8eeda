//! The methods of `SSLProtocol`: for transports of other libraries, and for the Python half of the class.

use super::buffers::TlsBuffer;
use super::session::PySession;
use super::underlying_transport::UnderlyingTransport;
use super::{Open, TlsProtocolData, TlsTransportData, open_of, with_connection};
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::transport::methods::exception;
use crate::transport::protocol::PyProtocol;
use mainspring_engine::tls::{Tls, TlsOptions};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

type This<'a> = Receiver<'a, TlsProtocolData>;

pub fn methods() -> Vec<Method<Native<TlsProtocolData>>> {
    vec![
        Method::one(c"connection_made", connection_made, c"The underlying transport is connected."),
        Method::one(c"connection_lost", connection_lost, c"The underlying connection is lost."),
        Method::one(c"get_buffer", get_buffer, c"A buffer to receive into."),
        Method::one(c"buffer_updated", buffer_updated, c"Bytes were received into the buffer."),
        Method::noargs(c"eof_received", eof_received, c"The underlying transport received EOF."),
        Method::noargs(c"pause_writing", pause_writing, c"The underlying write buffer is full."),
        Method::noargs(c"resume_writing", resume_writing, c"The underlying write buffer has drained."),
        Method::fastcall(c"_bind", bind, c"Connect the parts; called once, by the constructor."),
        Method::one(c"_feed", feed, c"Take ciphertext that was received before TLS started."),
        Method::noargs(c"_parts", parts, c"(underlying transport, SSLTransport, protocol, SSLObject)."),
    ]
}

fn connection_made(this: This<'_>, transport: &Obj) -> PyResult<()> {
    let lower = UnderlyingTransport::new(this.py, transport.clone())?;
    with_connection(this.py, this.this, |open, cx| open.tls.connection_made(cx, lower)).map(drop)
}

fn connection_lost(this: This<'_>, error: &Obj) -> PyResult<()> {
    super::connection_lost(this.py, this.this, exception(this.py, error))
}

/// The size of the buffer for transports of other libraries: four records.
const BUFFER_SIZE: usize = 64 * 1024;

/// Returns the whole buffer of this connection. It is not shared, since the transport can keep it while other connections
/// receive.
fn get_buffer(this: This<'_>, _: &Obj) -> PyResult<Obj> {
    let py = this.py;
    let open = open_of(py, this.this)?;
    let view = open.buffer.borrow().as_ref().map(|buffer| buffer.view(py));
    if let Some(view) = view {
        return view;
    }
    let buffer = TlsBuffer::new(py, BUFFER_SIZE)?;
    let view = buffer.view(py)?;
    let former = open.buffer.replace(Some(buffer));
    drop(former);
    Ok(view)
}

fn buffer_updated(this: This<'_>, count: &Obj) -> PyResult<()> {
    let py = this.py;
    let count: usize = count.bind(py).extract()?;
    let open = open_of(py, this.this)?;
    let ciphertext = match &*open.buffer.borrow() {
        Some(buffer) => buffer.to_bytes(py, count)?,
        None => return Err(PyRuntimeError::new_err("get_buffer() was not called")),
    };
    with_connection(py, this.this, |open, cx| {
        open.tls.session().write_incoming(ciphertext.as_obj())?;
        open.tls.fed(cx)
    })
    .map(drop)
}

fn eof_received(this: This<'_>) -> PyResult<bool> {
    super::eof_received(this.py, this.this)
}

fn pause_writing(this: This<'_>) -> PyResult<()> {
    super::pause_writing(this.py, this.this)
}

fn resume_writing(this: This<'_>) -> PyResult<()> {
    super::resume_writing(this.py, this.this)
}

/// `_bind(loop, transport, protocol, ssl_object, incoming, outgoing, handshake_timeout, shutdown_timeout, is_upgrade,
/// is_writing_paused)`.
fn bind(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let py = this.py;
    let names = [
        "loop",
        "transport",
        "protocol",
        "ssl_object",
        "incoming",
        "outgoing",
        "handshake_timeout",
        "shutdown_timeout",
        "is_upgrade",
        "is_writing_paused",
    ];
    let (given, _) = args.split("_bind", names)?;
    let [
        event_loop,
        transport,
        protocol,
        ssl_object,
        incoming,
        outgoing,
        handshake,
        shutdown,
        upgrade,
        paused,
    ] = given;
    let session = PySession::new(py, ssl_object.clone(), incoming.clone(), outgoing.clone())?;
    let sink = PyProtocol::new(py, None)?;
    sink.set_protocol(&protocol.bind(py))?;
    let options = TlsOptions {
        handshake_timeout: duration(&handshake.bind(py))?,
        shutdown_timeout: duration(&shutdown.bind(py))?,
        is_upgrade: upgrade.bind(py).is_truthy()?,
        is_writing_paused: paused.bind(py).is_truthy()?,
    };
    let Some(transport_data) = native_data::<TlsTransportData>(py, transport)? else {
        return Err(PyTypeError::new_err("not an SSLTransport"));
    };
    let open = Open {
        tls: Tls::new(session, sink, options),
        event_loop: event_loop.clone(),
        app_transport: RefCell::new(Some(transport.clone())),
        buffer: RefCell::new(None),
    };
    if this.data.open.set(open).is_err() || transport_data.protocol.set(this.this.clone()).is_err() {
        return Err(PyRuntimeError::new_err("the TLS protocol is bound already"));
    }
    Ok(())
}

/// A timeout in seconds. A value beyond the range of the clock never expires.
fn duration(seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = seconds.extract()?;
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn feed(this: This<'_>, ciphertext: &Obj) -> PyResult<()> {
    open_of(this.py, this.this)?.tls.session().write_incoming(ciphertext)
}

fn parts(this: This<'_>) -> PyResult<Obj> {
    let py = this.py;
    let open = open_of(py, this.this)?;
    let bound = |object: Option<Obj>| object.map(|object| object.bind(py));
    let app_transport = open.app_transport.borrow().clone();
    let lower = open.tls.lower().map(|lower| lower.object().clone());
    let parts = (
        bound(lower),
        bound(app_transport),
        bound(open.tls.sink().protocol()),
        open.tls.session().ssl_object().bind(py),
    );
    Ok(parts.into_pyobject(py)?.into())
}
