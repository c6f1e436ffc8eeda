//! `StreamTransport`: the engine's stream as a Python object that is an `asyncio.Transport`.
//!
//! The native type holds the state and the methods that run per packet; `mainspring._transports.StreamTransport`
//! derives from it and adds what is rarely asked (`repr`, the rest of `get_extra_info`, the warning when it is lost).

mod contexts;
mod methods;

use crate::channel::{PyChannel, PyChunk, SocketHold};
use crate::fd_owners::FdClaim;
use crate::host::PyHost;
use crate::loop_object::NativeLoop;
use crate::names::names;
use crate::native_object::{NativeClass, NativeData, native_data};
use crate::obj::Obj;
use crate::protocol::PyUpper;
use contexts::Contexts;
use mainspring::engine::Readiness;
use mainspring::transport::{Cx, Notice, Stream};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

/// Our data in a transport object. Empty until [`open`].
pub struct TransportData {
    open: OnceCell<Open>,
}

struct Open {
    /// First, so that it is dropped first: before anything runs that could ask whose the descriptor is.
    _claim: FdClaim,
    stream: Stream<PyHost, PyUpper>,
    event_loop: Obj,
    contexts: Contexts,
}

impl Open {
    /// The end of a transport may be told by a deferred step or out of its last flush.
    fn forget_contexts_at_the_end(&self) {
        if self.stream.is_finished() {
            self.contexts.forget();
        }
    }
}

static CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

impl NativeData for TransportData {
    const NAME: &'static CStr = c"mainspring._mainspring.StreamTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        // The mixin is an asyncio.Transport, and asyncio's own fallback for sendfile asks for it by name.
        let base = py.import("asyncio.transports")?.getattr("_FlowControlMixin")?;
        Ok(vec![base.cast_into::<PyType>()?])
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        methods::table()
    }

    fn empty() -> Self {
        TransportData { open: OnceCell::new() }
    }

    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        let Some(open) = self.open.get() else { return };
        show(open.event_loop.as_ptr());
        open.stream.upper().for_each_held(&mut |held| show(held.as_ptr()));
        open.contexts.show(show);
        open.stream.for_each_chunk(&mut |chunk| {
            if let PyChunk::Bytes(bytes) = chunk {
                show(bytes.as_ptr());
            }
        });
    }

    fn clear(&self) {
        if let Some(open) = self.open.get() {
            open.stream.upper().clear();
            open.contexts.forget();
        }
    }
}

/// Makes `object`, a new instance, the transport of a connection, and schedules `connection_made`.
pub fn open(
    object: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    channel: PyChannel,
    protocol: &Bound<'_, PyAny>,
    server: Option<&Bound<'_, PyAny>>,
    context: Option<Obj>,
) -> PyResult<()> {
    let py = object.py();
    let this: Obj = object.clone().into();
    let Some(data) = native_data::<TransportData>(py, &this)? else {
        return Err(PyTypeError::new_err("not a StreamTransport"));
    };
    let upper = PyUpper::new(py, server.map(|server| server.clone().into()))?;
    upper.set_protocol(protocol)?;
    // SAFETY: a live object.
    let Some(native) = (unsafe { NativeLoop::from_ptr(py, event_loop.as_ptr()) }) else {
        return Err(PyTypeError::new_err("the transport's loop is not a mainspring.Loop"));
    };
    let opened = Open {
        _claim: native.owners().claim(channel.as_fd().as_raw_fd(), object),
        stream: Stream::new(channel, upper),
        event_loop: event_loop.clone().into(),
        contexts: Contexts::new(context),
    };
    if data.open.set(opened).is_err() {
        return Err(PyRuntimeError::new_err("the transport is open already"));
    }
    object.setattr(&names(py)?._loop, event_loop)?;
    if let Some(server) = server
        && let Err(error) = join_server(py, server, object)
    {
        // It never began, and nobody else will end it: the connection closes with the failure.
        if let Some(open) = data.open.get() {
            open.stream.upper().clear();
            drop(open.stream.take_channel());
        }
        return Err(error);
    }
    with_open(py, data, |open, native| open.stream.open(Cx { engine: native.engine(), this: &this }))
}

/// `Server._attach` takes the transport from Python 3.13 on, and nothing before.
fn join_server(py: Python<'_>, server: &Bound<'_, PyAny>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
    names(py)?.reports.bind(py).call_method1(&names(py)?._attach, (server, transport)).map(drop)
}

/// `Server._detach`, likewise.
pub fn leave_server(py: Python<'_>, server: &Obj, transport: &Obj) -> PyResult<()> {
    let arguments = (server.bind(py), transport.bind(py));
    names(py)?.reports.bind(py).call_method1(&names(py)?._detach, arguments).map(drop)
}

fn with_open<R>(
    py: Python<'_>,
    data: &TransportData,
    body: impl FnOnce(&Open, &NativeLoop) -> PyResult<R>,
) -> PyResult<R> {
    let Some(open) = data.open.get() else {
        return Err(PyRuntimeError::new_err("the transport was not opened by a loop"));
    };
    // SAFETY: the loop is held by the transport.
    match unsafe { NativeLoop::from_ptr(py, open.event_loop.as_ptr()) } {
        Some(native) => body(open, native),
        None => Err(PyTypeError::new_err("the transport's loop is not a mainspring.Loop")),
    }
}

/// Something happened on a transport's descriptor: the protocol hears of it in the transport's contexts.
pub fn io_ready(py: Python<'_>, data: &TransportData, source: &Obj, readiness: Readiness) -> PyResult<()> {
    with_open(py, data, |open, native| {
        let cx = Cx { engine: native.engine(), this: source };
        if readiness.inbound {
            open.contexts.reading.run(py, || open.stream.io_ready(cx, Readiness::INBOUND))?;
        }
        if readiness.outbound {
            open.contexts.writing.run(py, || open.stream.io_ready(cx, Readiness::OUTBOUND))?;
            open.forget_contexts_at_the_end();
        }
        Ok(())
    })
}

/// The context that a transport's deferred steps are called in; null for a copy of the current one.
pub fn context_for_steps(data: &TransportData) -> *mut ffi::PyObject {
    data.open.get().map_or(std::ptr::null_mut(), |open| open.contexts.for_steps())
}

/// The protocol's `connection_made`, bound.
pub fn connection_made_callback<'py>(py: Python<'py>, data: &TransportData) -> PyResult<Bound<'py, PyAny>> {
    with_open(py, data, |open, _| match open.stream.upper().protocol() {
        Some(protocol) => protocol.bind(py).getattr(&names(py)?.connection_made),
        None => Err(PyRuntimeError::new_err("the transport has no protocol")),
    })
}

const NOTICES: [Notice; 4] =
    [Notice::ConnectionMade, Notice::StartReading, Notice::ConnectionLost, Notice::ResumeAccepting];

/// A notice as the argument of `_notified`.
pub fn notice_number<'py>(py: Python<'py>, notice: Notice) -> PyResult<Bound<'py, PyAny>> {
    let number = NOTICES.iter().position(|known| *known == notice).unwrap_or_default();
    Ok(number.into_pyobject(py)?.into_any())
}

/// The notice of a `_notified` argument.
pub fn notice_from_number(number: &Bound<'_, PyAny>) -> PyResult<Notice> {
    let number: usize = number.extract()?;
    NOTICES.get(number).copied().ok_or_else(|| PyValueError::new_err("unknown notice"))
}

/// `open_stream(transport, loop, sock, protocol, server, context)`: ties a new transport object to a connected socket.
#[pyfunction]
#[pyo3(signature = (transport, event_loop, sock, protocol, server=None, context=None))]
pub fn open_stream(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    sock: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
    server: Option<&Bound<'_, PyAny>>,
    context: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let channel = PyChannel::Socket(SocketHold::new(sock)?);
    open(transport, event_loop, channel, protocol, server, context.map(|context| context.clone().into()))
}
