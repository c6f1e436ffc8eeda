//! The methods of `SSLProtocol`, as transports that are not ours call them, and as its Python half does.

use super::buffers::Room;
use super::session::PySession;
use super::underlying_transport::PyLower;
use super::{Open, TlsData, TlsTransportData, from_below, open_of};
use crate::python::method::{self, Args, enter};
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::transport::methods::{boolean, none};
use crate::transport::protocol::PyUpper;
use mainspring_engine::tls::{Tls, TlsOptions};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::time::Duration;

pub fn table() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method_one(c"connection_made", connection_made, c"The transport below stands."),
        method::method_one(c"connection_lost", connection_lost, c"The transport below is gone."),
        method::method_one(c"get_buffer", get_buffer, c"A buffer to receive into."),
        method::method_one(c"buffer_updated", buffer_updated, c"So many bytes were received."),
        method::method_noargs(c"eof_received", eof_received, c"The stream below ended."),
        method::method_noargs(c"pause_writing", pause_writing, c"The transport below wants no more."),
        method::method_noargs(c"resume_writing", resume_writing, c"The transport below wants more again."),
        method::method(c"_bind", bind, c"Ties the parts together; called once, by the constructor."),
        method::method_one(c"_feed", feed, c"Takes ciphertext that somebody else had received."),
        method::method_noargs(c"_parts", parts, c"Both transports, the protocol above and the SSLObject."),
    ]
}

/// Runs a method body with a reference to the protocol.
fn method(
    this: *mut ffi::PyObject,
    body: impl FnOnce(Python<'_>, &Obj) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: called by the interpreter as a method; `this` is alive for the call, and the reference made here
        // keeps it so while others are called.
        let this = unsafe { Obj::from_borrowed(this) };
        body(py, &this)
    })
}

/// An argument, which is alive for the call.
fn argument<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
    // SAFETY: passed by the interpreter to a method that runs.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

extern "C" fn connection_made(this: *mut ffi::PyObject, transport: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        let lower = PyLower::new(py, argument(py, transport).into())?;
        from_below(py, this, |open, cx| open.tls.connection_made(cx, lower))?;
        none(py)
    })
}

extern "C" fn connection_lost(this: *mut ffi::PyObject, error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        let error = argument(py, error);
        let error = (!error.is_none()).then(|| PyErr::from_value(error));
        super::connection_lost(py, this, error)?;
        none(py)
    })
}

/// How much a transport that is not the loop's own may bring at once: four records.
const ROOM_BELOW: usize = 64 * 1024;

/// The whole of a buffer of this connection's own: its transport may keep it while others receive.
extern "C" fn get_buffer(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        let open = open_of(py, this)?;
        let known = open.buffer.borrow().as_ref().map(|room| room.view(py));
        if let Some(view) = known {
            return Ok(view?.into_ptr());
        }
        let room = Room::new(py, ROOM_BELOW)?;
        let view = room.view(py)?;
        let former = open.buffer.replace(Some(room));
        drop(former);
        Ok(view.into_ptr())
    })
}

extern "C" fn buffer_updated(this: *mut ffi::PyObject, count: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        let count: usize = argument(py, count).extract()?;
        let open = open_of(py, this)?;
        let ciphertext = match &*open.buffer.borrow() {
            Some(room) => room.bytes(py, count)?,
            None => return Err(PyRuntimeError::new_err("get_buffer() was not called")),
        };
        from_below(py, this, |open, cx| {
            open.tls.session().write_incoming(&ciphertext)?;
            open.tls.fed(cx)
        })?;
        none(py)
    })
}

extern "C" fn eof_received(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| boolean(super::eof_received(py, this)?))
}

extern "C" fn pause_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        super::pause_writing(py, this)?;
        none(py)
    })
}

extern "C" fn resume_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        super::resume_writing(py, this)?;
        none(py)
    })
}

/// `_bind(loop, transport, protocol, ssl_object, incoming, outgoing, handshake_timeout, shutdown_timeout, is_upgrade,
/// is_writing_paused)`.
extern "C" fn bind(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, this| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("_bind", args, count, kwnames) };
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
        let (given, _) = args.split(names)?;
        let given = given.map(|object| argument(py, object));
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
        let session = PySession::new(py, ssl_object.into(), incoming.into(), outgoing.into())?;
        let upper = PyUpper::new(py, None)?;
        upper.set_protocol(&protocol)?;
        let options = TlsOptions {
            handshake_timeout: duration(&handshake)?,
            shutdown_timeout: duration(&shutdown)?,
            is_upgrade: upgrade.is_truthy()?,
            is_writing_paused: paused.is_truthy()?,
        };
        let transport: Obj = transport.into();
        let Some(face) = native_data::<TlsTransportData>(py, &transport)? else {
            return Err(PyTypeError::new_err("not an SSLTransport"));
        };
        let Some(data) = native_data::<TlsData>(py, this)? else {
            return Err(PyTypeError::new_err("not an SSLProtocol"));
        };
        let open = Open {
            tls: Tls::new(session, upper, options),
            event_loop: event_loop.into(),
            app_transport: RefCell::new(Some(transport.clone())),
            buffer: RefCell::new(None),
        };
        if data.open.set(open).is_err() || face.protocol.set(this.clone()).is_err() {
            return Err(PyRuntimeError::new_err("bound already"));
        }
        none(py)
    })
}

/// A time limit; what is too long for the clock never comes.
fn duration(seconds: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = seconds.extract()?;
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

extern "C" fn feed(this: *mut ffi::PyObject, ciphertext: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        open_of(py, this)?.tls.session().write_incoming(&argument(py, ciphertext).into())?;
        none(py)
    })
}

extern "C" fn parts(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, this| {
        let open = open_of(py, this)?;
        let bound = |object: Option<Obj>| object.map(|object| object.bind(py));
        let app_transport = open.app_transport.borrow().clone();
        let lower = open.tls.lower().map(|lower| lower.object().clone());
        let parts = (
            bound(lower),
            bound(app_transport),
            bound(open.tls.upper().protocol()),
            open.tls.session().ssl_object().bind(py),
        );
        Ok(parts.into_pyobject(py)?.into_ptr())
    })
}
