//! `Listener`: a listening socket of a Python server.
//!
//! A plain connection becomes a transport without a socket object. Until `connection_made()` is called, a task represents
//! it (`accept_task.rs`). A connection with TLS goes to the coroutine `Loop._accept_secure`.

use super::accept_task::AcceptTask;
use super::accepted_names::{AcceptedNames, common_name};
use crate::errors;
use crate::errors::os_error;
use crate::event_loop::NativeLoop;
use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::context;
use crate::python::dealloc::ClassData;
use crate::python::gc;
use crate::python::guard::catch_unwind;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::python::thread_exit;
use crate::transport::address::peer_name;
use crate::transport::channel::{PyChannel, SocketHold, socket_object};
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::socket_file;
use mainspring_engine::transport::{Acceptor, Cx, DeferredCall, Listener};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

/// Creates the transport or the TLS coroutine of each accepted connection.
struct PyAcceptor {
    event_loop: Obj,
    /// The listening socket, for reports.
    socket: Obj,
    /// The own address of every connection, if they share one.
    name: Option<Obj>,
    protocol_factory: Obj,
    server: Option<Obj>,
    transport_class: Obj,
    /// Called with each connection of a TLS server; `None` for a plain server.
    accept_secure: Option<Obj>,
    /// Each connection is accepted in a copy of this context.
    context: Obj,
    /// Whether the copy is also the context of the transport (from Python 3.15 on).
    passes_context: bool,
}

type ListenerCell = RefCell<Option<Rc<Listener<PyHost, PyAcceptor>>>>;

/// See the module comment.
#[pyclass(name = "Listener", module = "mainspring._mainspring", frozen)]
pub struct PyListener {
    /// `None` after the garbage collector has cleared the object.
    listener: ClassData<ListenerCell>,
}

impl PyListener {
    /// The listener, cloned so that nothing is borrowed while it calls Python.
    fn listener(&self) -> PyResult<Rc<Listener<PyHost, PyAcceptor>>> {
        let listener = self.listener.borrow().clone();
        listener.ok_or_else(|| PyRuntimeError::new_err("the listener was cleared by the garbage collector"))
    }

    fn with<R>(
        slf: &Bound<'_, Self>,
        body: impl FnOnce(&Listener<PyHost, PyAcceptor>, Cx<'_, PyHost>) -> PyResult<R>,
    ) -> PyResult<R> {
        let listener = slf.get().listener()?;
        let this = Obj::from(slf);
        match NativeLoop::of(slf.py(), &listener.acceptor().event_loop) {
            Some(native) => body(&listener, Cx { engine: native.engine(), this: &this }),
            None => Err(PyTypeError::new_err("the listener's loop is not a mainspring.Loop")),
        }
    }
}

#[pymethods]
impl PyListener {
    /// A listener for a socket that is bound and listens.
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
        catch_unwind(|| {
            let py = event_loop.py();
            let acceptor = PyAcceptor {
                event_loop: event_loop.into(),
                socket: sock.into(),
                name: common_name(sock)?,
                protocol_factory: protocol_factory.into(),
                server: server.map(Obj::from),
                transport_class: transport_class.into(),
                accept_secure: accept_secure.map(Obj::from),
                passes_context: context.is_some(),
                context: match context {
                    Some(context) => context.into(),
                    None => context::copy_current(py)?,
                },
            };
            let channel = PyChannel::Socket(SocketHold::borrowed(sock)?);
            let listener = Listener::new(channel, acceptor, usize::try_from(backlog).unwrap_or(0));
            Ok(PyListener { listener: ClassData::new(RefCell::new(Some(Rc::new(listener)))) })
        })
    }

    /// The listening socket.
    #[getter]
    fn _sock(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        catch_unwind(|| Ok(self.listener()?.acceptor().socket.bind(py).unbind()))
    }

    /// Begin to accept connections.
    fn start(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| {
            Self::with(slf, |listener, cx| listener.start(cx).map_err(|error| os_error(slf.py(), error)))
        })
    }

    /// Stop accepting, and release the socket, which its owner closes.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| {
            Self::with(slf, |listener, cx| {
                let channel = listener.close(cx);
                drop(channel);
                Ok(())
            })
        })
    }

    /// Accept again after a pause; scheduled by the engine.
    fn _start_serving(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| {
            Self::with(slf, |listener, cx| listener.run_deferred(cx, DeferredCall::ResumeAccepting))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(listener) = self.listener.try_borrow() else { return Ok(()) };
        let Some(listener) = &*listener else { return Ok(()) };
        let acceptor = listener.acceptor();
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
            gc::visit(&visit, held)?;
        }
        let mut result = Ok(());
        listener.show_channel(&mut |channel| {
            if let PyChannel::Socket(hold) = channel {
                result = gc::visit(&visit, hold.socket());
            }
        });
        result
    }

    fn __clear__(&self) {
        thread_exit::guard();
        let listener = self.listener.borrow_mut().take();
        drop(listener);
    }
}

/// Removes the file of a Unix server's socket if it still has this inode number.
#[pyfunction]
pub fn remove_socket_file(py: Python<'_>, path: PathBuf, inode: u64) -> PyResult<()> {
    catch_unwind(|| socket_file::remove(&path, inode).map_err(|error| os_error(py, error)))
}

/// `source` is a listener, and a connection is ready to be accepted.
pub fn io_ready(py: Python<'_>, source: &Obj) -> PyResult<()> {
    let listener = source.bind(py).cast_into::<PyListener>()?;
    PyListener::with(&listener, |listener, cx| listener.io_ready(cx))
}

impl PyAcceptor {
    fn accept(&self, py: Python<'_>, context: &Obj, connection: OwnedFd, peer: PeerAddress) -> PyResult<()> {
        if self.is_debug(py) {
            self.log_connection(py, &connection, &peer)?;
        }
        if let Some(accept_secure) = &self.accept_secure {
            let peername = peer_name(py, &peer)?;
            let socket = socket_object(py, connection.as_raw_fd())?;
            let _ = connection.into_raw_fd();
            return accept_secure.bind(py).call1((socket, peername)).map(drop);
        }
        let protocol = self.protocol_factory.bind(py).call0()?;
        let transport = self.transport_class.bind(py).call0()?;
        super::set_accepted_names(&transport, AcceptedNames::new(&connection, peer, self.name.as_ref()))?;
        let server = self.server.as_ref().map(|server| server.bind(py));
        let event_loop = self.event_loop.bind(py);
        let channel = PyChannel::Owned(connection);
        let context = self.passes_context.then(|| context.clone());
        super::open(&transport, &event_loop, channel, &protocol, server.as_ref(), context)?;
        AcceptTask::start(&event_loop, &transport).or_else(|error| {
            // As in asyncio: without its task there is no connection.
            transport.call_method0(&names(py)?.abort)?;
            Err(error)
        })
    }

    fn is_debug(&self, py: Python<'_>) -> bool {
        NativeLoop::of(py, &self.event_loop).is_some_and(NativeLoop::is_debug)
    }

    /// Logs a connection before any step that can fail, as asyncio does.
    fn log_connection(&self, py: Python<'_>, connection: &OwnedFd, peer: &PeerAddress) -> PyResult<()> {
        let names = names(py)?;
        let server = self.server.as_ref().map(|server| server.bind(py));
        let arguments = (server, peer_name(py, peer)?, connection.as_raw_fd());
        names.reports.bind(py).call_method1(&names.accepted, arguments).map(drop)
    }
}

impl Acceptor<PyHost> for PyAcceptor {
    fn accepted(&self, _: Cx<'_, PyHost>, connection: OwnedFd, peer: PeerAddress) -> PyResult<()> {
        let py = attached();
        // A copy for each connection, as for a task: the protocol factory can set context variables.
        let result = context::copy(py, &self.context)
            .and_then(|own| context::run_in(py, &own, || self.accept(py, &own, connection, peer)));
        let Err(error) = result else { return Ok(()) };
        if errors::ends_the_run(py, &error) {
            return Err(error);
        }
        let names = names(py)?;
        let arguments = (self.event_loop.bind(py), error.into_value(py));
        names.reports.bind(py).call_method1(&names.accept_failed, arguments).map(drop)
    }
}
