//! `Listener`: a listening socket of a Python server.
//!
//! A plain connection becomes a transport here, without a socket object of its own; until its protocol is told, a task
//! stands for it (`accepting.rs`). One that begins with TLS goes through `Loop._accept_secure`, a coroutine.

use crate::errors;
use crate::event_loop::host::{PyHost, os_error};
use crate::event_loop::{NativeLoop, visit_obj};
use crate::names::names;
use crate::python::context;
use crate::python::dealloc::ClassData;
use crate::python::method::guarded;
use crate::python::object::Obj;
use crate::python::thread_exit;
use crate::stream as transport;
use crate::stream::accept_task::AcceptedConnection;
use crate::stream::accepted_names::{Accepted, name_of_connections};
use crate::transport::address::peer_name;
use crate::transport::channel::{PyChannel, SocketHold, socket_object};
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::socket_file;
use mainspring_engine::transport::{Acceptor, Cx, Listener, Notice};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;

/// What becomes of an accepted connection.
struct PyAcceptor {
    event_loop: Obj,
    /// The listening socket, for reports.
    socket: Obj,
    /// The listener's name, where it is that of the connections too.
    name: Option<Obj>,
    /// Called for each connection's protocol.
    protocol_factory: Obj,
    server: Option<Obj>,
    /// The class of the transports.
    transport_class: Obj,
    /// Takes connections that begin with TLS; `None` for a plain server.
    accept_secure: Option<Obj>,
    /// Connections are taken in copies of this context.
    context: Obj,
    /// Whether that copy is the context of the transport too, for all its life (from Python 3.15 on).
    gives_context: bool,
    /// Whether small writes should leave at once (TCP), or there is nothing to say about it (Unix).
    is_tcp: bool,
}

// SAFETY: the interpreter lock orders all uses, as for the loop's own state (`loop_object.rs`).
unsafe impl Send for ListenerState {}
// SAFETY: as above.
unsafe impl Sync for ListenerState {}

struct ListenerState(RefCell<Option<std::rc::Rc<Listener<PyHost, PyAcceptor>>>>);

/// See the module's text.
#[pyclass(name = "Listener", module = "mainspring._mainspring", frozen)]
pub struct PyListener {
    state: ClassData<ListenerState>,
}

impl PyListener {
    /// The listener, unless the garbage collector has taken it apart. A clone, so that nothing is borrowed while
    /// it calls out.
    fn inner(&self) -> PyResult<std::rc::Rc<Listener<PyHost, PyAcceptor>>> {
        let inner = self.state.0.borrow().clone();
        inner.ok_or_else(|| PyRuntimeError::new_err("the listener is gone"))
    }

    fn with<R>(
        slf: &Bound<'_, Self>,
        body: impl FnOnce(&Listener<PyHost, PyAcceptor>, Cx<'_, PyHost>) -> PyResult<R>,
    ) -> PyResult<R> {
        let inner = slf.get().inner()?;
        let this: Obj = slf.clone().into();
        // SAFETY: the listener holds its loop.
        let native = unsafe { NativeLoop::from_ptr(slf.py(), inner.acceptor().event_loop.as_ptr()) };
        match native {
            Some(native) => body(&inner, Cx { engine: native.engine(), this: &this }),
            None => Err(PyTypeError::new_err("the listener's loop is not a mainspring.Loop")),
        }
    }
}

#[pymethods]
impl PyListener {
    /// A listener on a socket that is bound and listens. Begins to accept at once.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "what asyncio's own _start_serving takes")]
    #[pyo3(signature = (event_loop, sock, protocol_factory, transport_class, server, backlog, accept_secure=None, context=None))]
    fn new(
        event_loop: &Bound<'_, PyAny>,
        sock: &Bound<'_, PyAny>,
        protocol_factory: &Bound<'_, PyAny>,
        transport_class: &Bound<'_, PyAny>,
        server: Option<&Bound<'_, PyAny>>,
        backlog: isize,
        accept_secure: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        guarded(|| {
            let py = event_loop.py();
            let family: i32 = sock.getattr("family")?.extract()?;
            let acceptor = PyAcceptor {
                event_loop: event_loop.clone().into(),
                socket: sock.clone().into(),
                name: name_of_connections(sock)?,
                protocol_factory: protocol_factory.clone().into(),
                server: server.map(|server| server.clone().into()),
                transport_class: transport_class.clone().into(),
                accept_secure: accept_secure.map(|function| function.clone().into()),
                gives_context: context.is_some(),
                context: match context {
                    Some(context) => context.clone().into(),
                    None => context::copy_current(py)?,
                },
                is_tcp: matches!(family, libc::AF_INET | libc::AF_INET6),
            };
            let channel = PyChannel::Socket(SocketHold::lent(sock)?);
            let listener =
                std::rc::Rc::new(Listener::new(channel, acceptor, usize::try_from(backlog).unwrap_or(0)));
            let state = ListenerState(RefCell::new(Some(listener)));
            Ok(PyListener { state: ClassData::new(state) })
        })
    }

    /// The listening socket.
    #[getter]
    fn _sock(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        guarded(|| Ok(self.inner()?.acceptor().socket.bind(py).unbind()))
    }

    /// Begins to accept.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| {
            Self::with(slf, |listener, cx| listener.start(cx).map_err(|error| os_error(slf.py(), error)))
        })
    }

    /// Accepts no more, and lets go of the socket, which is its owner's to close.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| {
            Self::with(slf, |listener, cx| {
                let channel = listener.close(cx);
                drop(channel);
                Ok(())
            })
        })
    }

    /// Accepts again, after a pause; scheduled by the engine.
    fn _start_serving(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| Self::with(slf, |listener, cx| listener.notified(cx, Notice::ResumeAccepting)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(inner) = self.state.0.try_borrow() else { return Ok(()) };
        let Some(inner) = &*inner else { return Ok(()) };
        let acceptor = inner.acceptor();
        for held in [
            &acceptor.event_loop,
            &acceptor.socket,
            &acceptor.protocol_factory,
            &acceptor.transport_class,
            &acceptor.context,
        ]
        .into_iter()
        .chain(&acceptor.name)
        .chain(&acceptor.server)
        .chain(&acceptor.accept_secure)
        {
            visit_obj(&visit, held)?;
        }
        let mut result = Ok(());
        inner.show_channel(&mut |channel| {
            if let PyChannel::Socket(hold) = channel {
                result = visit_obj(&visit, hold.socket());
            }
        });
        result
    }

    fn __clear__(&self) {
        thread_exit::guard();
        let inner = self.state.0.borrow_mut().take();
        drop(inner);
    }
}

/// Removes the file of a Unix server's socket, if it is still the one with this inode number.
#[pyfunction]
pub fn remove_socket_file(py: Python<'_>, path: PathBuf, inode: u64) -> PyResult<()> {
    guarded(|| socket_file::remove(&path, inode).map_err(|error| os_error(py, error)))
}

/// Connections wait at a source that is a listener.
pub fn io_ready(py: Python<'_>, source: &Obj) -> PyResult<()> {
    let listener = source.bind(py).cast_into::<PyListener>()?;
    PyListener::with(&listener, |listener, cx| listener.io_ready(cx))
}

impl PyAcceptor {
    fn accept(&self, py: Python<'_>, context: &Obj, connection: OwnedFd, peer: PeerAddress) -> PyResult<()> {
        if self.is_debug(py) {
            self.note_connection(py, &connection, &peer)?;
        }
        if let Some(accept_secure) = &self.accept_secure {
            let peername = peer_name(py, &peer)?;
            let socket = socket_object(py, connection.as_fd())?;
            let _ = connection.into_raw_fd();
            return accept_secure.bind(py).call1((socket, peername)).map(drop);
        }
        if self.is_tcp {
            set_nodelay(&connection);
        }
        let protocol = self.protocol_factory.bind(py).call0()?;
        let transport = self.transport_class.bind(py).call0()?;
        transport::set_accepted(&transport, Accepted::new(&connection, peer, self.name.as_ref()))?;
        let server = self.server.as_ref().map(|server| server.bind(py));
        let event_loop = self.event_loop.bind(py);
        let channel = PyChannel::Owned(connection);
        let context = self.gives_context.then(|| context.clone());
        transport::open(&transport, &event_loop, channel, &protocol, server.as_ref(), context)?;
        AcceptedConnection::start(&event_loop, &transport).or_else(|error| {
            // No task, no connection: as in asyncio.
            transport.call_method0(&names(py)?.abort)?;
            Err(error)
        })
    }

    fn is_debug(&self, py: Python<'_>) -> bool {
        // SAFETY: the listener holds its loop.
        unsafe { NativeLoop::from_ptr(py, self.event_loop.as_ptr()) }.is_some_and(NativeLoop::is_debug)
    }

    /// Tells the log of a connection; before anything else that may fail, as asyncio does.
    fn note_connection(&self, py: Python<'_>, connection: &OwnedFd, peer: &PeerAddress) -> PyResult<()> {
        let names = names(py)?;
        let server = self.server.as_ref().map(|server| server.bind(py));
        let arguments = (server, peer_name(py, peer)?, connection.as_raw_fd());
        names.reports.bind(py).call_method1(&names.accepted, arguments).map(drop)
    }
}

impl Acceptor<PyHost> for PyAcceptor {
    fn accepted(&self, _: Cx<'_, PyHost>, connection: OwnedFd, peer: PeerAddress) -> PyResult<()> {
        // SAFETY: the engine runs only on threads that are attached.
        let py = unsafe { Python::assume_attached() };
        // A copy for each connection, as for a task: what the protocol's factory sets there is its own.
        let result = context::copy(py, &self.context)
            .and_then(|own| context::run_in(py, &own, || self.accept(py, &own, connection, peer)));
        let Err(error) = result else { return Ok(()) };
        if errors::ends_the_loop(py, &error) {
            return Err(error);
        }
        let names = names(py)?;
        let arguments = (self.event_loop.bind(py), error.into_value(py));
        names.reports.bind(py).call_method1(&names.accept_failed, arguments).map(drop)
    }
}

/// Small writes leave at once, without waiting for the peer's acknowledgement (Nagle's algorithm off).
pub fn set_nodelay(connection: &impl AsFd) {
    // A socket that is gone already says so at its first read.
    let _ = rustix::net::sockopt::set_tcp_nodelay(connection, true);
}
