//! `SocketWait`: what a `sock_*` coroutine awaits when its operation cannot be done at once.
//!
//! It is the callback of an ordinary reader or writer of the loop, completes a future from there, and is itself the
//! iterator of its `await`: so it hears of the cancellation in the moment the task does, and takes its watch back before
//! any other code of the program runs.

use super::buffer::HeldBuffer;
use crate::event_loop::host::{PyHost, os_error};
use crate::event_loop::{NativeLoop, visit_obj, visit_ptr, watch_error};
use crate::names::names;
use crate::python::dealloc::ClassData;
use crate::python::method::guarded;
use crate::python::object::Obj;
use crate::python::thread_exit;
use mainspring_engine::socket_ops::{Operation, Pending, Ready, SendAll, SendFile};
use mainspring_engine::{Direction, Engine};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// What is waited for.
pub enum Waiting {
    /// That the socket is ready; the coroutine does the rest.
    Ready(Ready),
    /// That a message has left.
    SendAll(SendAll<HeldBuffer>),
    /// That a file has left.
    SendFile(SendFile),
}

impl Operation<PyHost> for Waiting {
    /// How much of a file was sent.
    type Output = Option<u64>;

    fn direction(&self) -> Direction {
        match self {
            Waiting::Ready(operation) => Operation::<PyHost>::direction(operation),
            Waiting::SendAll(operation) => Operation::<PyHost>::direction(operation),
            Waiting::SendFile(operation) => Operation::<PyHost>::direction(operation),
        }
    }

    fn advance(
        &mut self,
        engine: &Engine<PyHost>,
        socket: BorrowedFd<'_>,
    ) -> io::Result<Option<Option<u64>>> {
        match self {
            Waiting::Ready(operation) => Ok(operation.advance(engine, socket)?.map(|()| None)),
            Waiting::SendAll(operation) => Ok(operation.advance(engine, socket)?.map(|()| None)),
            Waiting::SendFile(operation) => Ok(operation.advance(engine, socket)?.map(Some)),
        }
    }
}

/// See the module's text.
#[pyclass(module = "mainspring._mainspring", frozen)]
pub struct SocketWait {
    state: ClassData<State>,
}

struct State {
    event_loop: Obj,
    socket: Obj,
    /// The socket's descriptor when the wait began.
    fd: RawFd,
    pending: Pending<Waiting>,
    /// Completed by the loop; none if there was nothing to wait for.
    future: RefCell<Option<Obj>>,
    /// What came of the first attempt, for an operation that did not have to wait.
    outcome: Cell<Option<io::Result<Option<u64>>>>,
    is_awaited: Cell<bool>,
}

// SAFETY: the interpreter lock orders all uses, as for the loop's own state (`loop_object.rs`).
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl SocketWait {
    /// Leaves an operation with the loop.
    pub fn begin<'py>(
        event_loop: &Bound<'py, NativeLoop>,
        socket: &Bound<'py, PyAny>,
        fd: BorrowedFd<'_>,
        operation: Waiting,
    ) -> PyResult<Bound<'py, Self>> {
        let py = event_loop.py();
        let native = event_loop.get();
        native.check_closed()?;
        native.owners().check_free(py, native.engine(), fd.as_raw_fd())?;
        let future = event_loop.call_method0(&names(py)?.create_future)?;
        let this = Self::new(event_loop, socket, fd, operation, Some(future.into()), None)?;
        let handle = NativeLoop::new_call(event_loop, this.as_any(), &PyTuple::empty(py))?;
        match this.get().state.pending.wait(native.engine(), fd, handle.into()) {
            Ok(Some(replaced)) => replaced.handle.bind(py).call_method0("cancel").map(drop)?,
            Ok(None) => {}
            Err(error) => return Err(watch_error(py, native.engine(), fd.as_raw_fd(), error)?),
        }
        Ok(this)
    }

    /// Sends a file: as much as the kernel takes at once, the rest as it takes more.
    pub fn send_file<'py>(
        event_loop: &Bound<'py, NativeLoop>,
        socket: &Bound<'py, PyAny>,
        fd: BorrowedFd<'_>,
        mut operation: SendFile,
    ) -> PyResult<Bound<'py, Self>> {
        match operation.advance(event_loop.get().engine(), fd).transpose() {
            None => Self::begin(event_loop, socket, fd, Waiting::SendFile(operation)),
            Some(outcome) => {
                let outcome = Some(outcome.map(Some));
                Self::new(event_loop, socket, fd, Waiting::SendFile(operation), None, outcome)
            }
        }
    }

    fn new<'py>(
        event_loop: &Bound<'py, NativeLoop>,
        socket: &Bound<'py, PyAny>,
        fd: BorrowedFd<'_>,
        operation: Waiting,
        future: Option<Obj>,
        outcome: Option<io::Result<Option<u64>>>,
    ) -> PyResult<Bound<'py, Self>> {
        let state = State {
            event_loop: event_loop.clone().into(),
            socket: socket.clone().into(),
            fd: fd.as_raw_fd(),
            pending: Pending::new(operation),
            future: RefCell::new(future),
            outcome: Cell::new(outcome),
            is_awaited: Cell::new(false),
        };
        Bound::new(event_loop.py(), SocketWait { state: ClassData::new(state) })
    }

    fn engine<'py>(&self, py: Python<'py>) -> PyResult<&'py Engine<PyHost>> {
        // SAFETY: the loop is held by this object, which its callers hold; and a class's data does not move.
        match unsafe { NativeLoop::from_ptr(py, self.state.event_loop.as_ptr()) } {
            Some(native) => Ok(native.engine()),
            None => Err(PyRuntimeError::new_err("the loop is not a mainspring.Loop")),
        }
    }

    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.state.future.borrow().as_ref().map(|future| future.bind(py));
        future.ok_or_else(|| PyRuntimeError::new_err("the operation is over"))
    }

    /// The socket's descriptor; a failure if it has been closed meanwhile, since its number may be somebody else's by now.
    fn descriptor(&self, py: Python<'_>) -> PyResult<BorrowedFd<'_>> {
        let now: RawFd = self.state.socket.bind(py).call_method0(&names(py)?.fileno)?.extract()?;
        if now != self.state.fd {
            return Err(os_error(py, io::Error::from_raw_os_error(libc::EBADF)));
        }
        // SAFETY: the socket object owns the descriptor and is held; it is used for one attempt, during which no Python
        // code runs that could close it.
        Ok(unsafe { BorrowedFd::borrow_raw(now) })
    }

    /// Lets go of the buffer, so that it can be resized. This object may live on in a traceback.
    fn release_buffer(&self) {
        let pending = &self.state.pending;
        if pending.with_operation(|operation| matches!(operation, Waiting::SendAll(_))) {
            drop(pending.replace_operation(Waiting::Ready(Ready(Direction::Outbound))));
        }
    }
}

#[pymethods]
impl SocketWait {
    /// The loop says that the socket is ready.
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            if !self.state.pending.is_waiting() {
                return Ok(());
            }
            let names = names(py)?;
            let engine = self.engine(py)?;
            let future = self.future(py)?;
            if future.call_method0(&names.done)?.is_truthy()? {
                // Cancelled, and the task has not heard of it yet.
                return self.leave(py);
            }
            let outcome = match self.descriptor(py) {
                Ok(socket) => match self.state.pending.ready(engine, socket) {
                    Some(settled) => {
                        drop(settled.watch);
                        self.release_buffer();
                        settled.outcome.map_err(|error| os_error(py, error))
                    }
                    None => return Ok(()),
                },
                Err(error) => {
                    self.leave(py)?;
                    Err(error)
                }
            };
            match outcome {
                Ok(value) => future.call_method1(&names.set_result, (value,)),
                Err(error) => future.call_method1(&names.set_exception, (error.into_value(py),)),
            }
            .map(drop)
        })
    }

    /// Waits no longer: takes the watch back from the loop.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            let watch = self.state.pending.leave(self.engine(py)?);
            drop(watch);
            self.release_buffer();
            Ok(())
        })
    }

    /// Ends the wait with a failure that somebody else has noticed.
    fn fail(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            let py = error.py();
            if !self.state.pending.is_waiting() {
                return Ok(());
            }
            self.leave(py)?;
            let (names, future) = (names(py)?, self.future(py)?);
            if !future.call_method0(&names.done)?.is_truthy()? {
                future.call_method1(&names.set_exception, (error,))?;
            }
            Ok(())
        })
    }

    /// How much of the file was sent.
    #[getter]
    fn sent(&self) -> u64 {
        thread_exit::guard();
        self.state.pending.with_operation(|operation| match operation {
            Waiting::SendFile(sending) => sending.sent(),
            Waiting::Ready(_) | Waiting::SendAll(_) => 0,
        })
    }

    /// Puts the file's own position behind what was sent.
    fn update_position(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            let updated = self.state.pending.with_operation(|operation| match operation {
                Waiting::SendFile(sending) => sending.update_position(),
                Waiting::Ready(_) | Waiting::SendAll(_) => Ok(()),
            });
            updated.map_err(|error| os_error(py, error))
        })
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    /// First the future, for the task to wait on; then what came of it.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            if let Some(outcome) = self.state.outcome.take() {
                let value = outcome.map_err(|error| os_error(py, error))?;
                return Err(PyStopIteration::new_err((value,)));
            }
            let names = names(py)?;
            let future = self.future(py)?;
            if !self.state.is_awaited.replace(true) {
                future.setattr(&names._asyncio_future_blocking, true)?;
                return Ok(future);
            }
            self.leave(py)?;
            let value = future.call_method0(&names.result)?;
            Err(PyStopIteration::new_err((value.unbind(),)))
        })
    }

    /// The task is cancelled, or whatever is thrown into it.
    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        guarded(|| {
            self.leave(kind.py())?;
            Err(thrown(kind, value)?)
        })
    }

    /// The coroutine ends here.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| self.leave(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit_obj(&visit, &self.state.event_loop)?;
        visit_obj(&visit, &self.state.socket)?;
        if let Ok(future) = self.state.future.try_borrow()
            && let Some(future) = &*future
        {
            visit_obj(&visit, future)?;
        }
        self.state.pending.with_operation(|operation| match operation {
            Waiting::SendAll(sending) => {
                let (object, exporter) = sending.data().held();
                visit_obj(&visit, object)?;
                visit_ptr(&visit, exporter)
            }
            Waiting::Ready(_) | Waiting::SendFile(_) => Ok(()),
        })
    }

    fn __clear__(&self) {
        thread_exit::guard();
        let future = self.state.future.take();
        drop(future);
    }
}

/// The exception that a coroutine's `throw()` was called with.
pub fn thrown(kind: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<PyErr> {
    let error = match value.filter(|value| !value.is_none()) {
        Some(value) if !kind.is_instance_of::<PyType>() || value.is_instance(kind)? => value.clone(),
        Some(value) => kind.call1((value,))?,
        None if kind.is_instance_of::<PyType>() => kind.call0()?,
        None => kind.clone(),
    };
    Ok(PyErr::from_value(error))
}
