//! `SocketWait`: the awaitable of a `sock_*` coroutine whose operation cannot complete at once.
//!
//! It is the callback of a reader or writer of the loop, and completes a future from there. It is also the iterator of
//! its `await`: so it is cancelled together with the task, and removes its watch before any other code runs.

use super::held_buffer::HeldBuffer;
use crate::coroutine::{Coroutine, coroutine_class};
use crate::errors::os_error;
use crate::event_loop::NativeLoop;
use crate::event_loop::host::PyHost;
use crate::event_loop::readers::{check_no_transport, watch_error};
use crate::names::names;
use crate::python::dealloc::ClassData;
use crate::python::descriptor;
use crate::python::gc;
use crate::python::guard::catch_unwind;
use crate::python::object::Obj;
use crate::python::thread_exit;
use mainspring_engine::socket_ops::{Operation, Pending, Ready, SendAll, SendFile};
use mainspring_engine::{Direction, Engine};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The operation that a coroutine waits for.
pub enum Waiting {
    /// Readiness of the socket; the coroutine does the rest.
    Ready(Ready),
    SendAll(SendAll<HeldBuffer>),
    SendFile(SendFile),
}

impl Operation<PyHost> for Waiting {
    /// The number of bytes of a file that were sent.
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

/// See the module comment.
#[pyclass(module = "mainspring._mainspring", frozen)]
pub struct SocketWait {
    state: ClassData<State>,
}

struct State {
    event_loop: Obj,
    socket: Obj,
    /// The file descriptor of the socket when the wait began.
    fd: RawFd,
    pending: Pending<Waiting>,
    /// Completed by the loop; `None` if the first attempt was enough.
    future: RefCell<Option<Obj>>,
    /// The result of the first attempt, if it was enough.
    outcome: Cell<Option<io::Result<Option<u64>>>>,
    is_awaited: Cell<bool>,
}

impl SocketWait {
    /// Registers an operation with the loop.
    pub fn begin<'py>(
        event_loop: &Bound<'py, NativeLoop>,
        socket: &Bound<'py, PyAny>,
        fd: BorrowedFd<'_>,
        operation: Waiting,
    ) -> PyResult<Bound<'py, Self>> {
        let py = event_loop.py();
        let native = event_loop.get();
        native.check_closed()?;
        check_no_transport(py, native.engine(), fd.as_raw_fd())?;
        let future = event_loop.call_method0(&names(py)?.create_future)?;
        let this = Self::new(event_loop, socket, fd, operation, Some(future.into()), None)?;
        let handle = NativeLoop::new_handle(event_loop, this.as_any(), &PyTuple::empty(py))?;
        match this.get().state.pending.wait(native.engine(), fd, handle.into()) {
            Ok(Some(replaced)) => replaced.cancel(py)?,
            Ok(None) => {}
            Err(error) => return Err(watch_error(py, native.engine(), fd.as_raw_fd(), error)?),
        }
        Ok(this)
    }

    /// Sends a file: what the kernel accepts at once, and the rest when the socket is ready.
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
            event_loop: event_loop.into(),
            socket: socket.into(),
            fd: fd.as_raw_fd(),
            pending: Pending::new(operation),
            future: RefCell::new(future),
            outcome: Cell::new(outcome),
            is_awaited: Cell::new(false),
        };
        Bound::new(event_loop.py(), SocketWait { state: ClassData::new(state) })
    }

    fn engine(&self, py: Python<'_>) -> PyResult<&Engine<PyHost>> {
        match NativeLoop::of(py, &self.state.event_loop) {
            Some(native) => Ok(native.engine()),
            None => Err(PyRuntimeError::new_err("the loop is not a mainspring.Loop")),
        }
    }

    fn future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.state.future.borrow().as_ref().map(|future| future.bind(py));
        future.ok_or_else(|| PyRuntimeError::new_err("the operation has ended"))
    }

    /// The file descriptor of the socket. `EBADF` if the socket was closed meanwhile: the number may be reused.
    fn descriptor(&self, py: Python<'_>) -> PyResult<BorrowedFd<'_>> {
        let now: RawFd = self.state.socket.bind(py).call_method0(&names(py)?.fileno)?.extract()?;
        descriptor::of_socket(&self.state.socket, now)
            .filter(|_| now == self.state.fd)
            .ok_or_else(|| os_error(py, io::Error::from_raw_os_error(libc::EBADF)))
    }

    /// Releases the buffer, so that the user can resize it. This object can live on in a traceback.
    fn release_buffer(&self) {
        let pending = &self.state.pending;
        if pending.with_operation(|operation| matches!(operation, Waiting::SendAll(_))) {
            drop(pending.replace_operation(Waiting::Ready(Ready(Direction::Outbound))));
        }
    }
}

impl Coroutine for SocketWait {
    /// The first call returns the future for the task; the second one returns its result.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
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
    }

    fn before_throw(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py)
    }
}

coroutine_class! {
impl SocketWait {
    /// Called by the loop when the socket is ready.
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        catch_unwind(|| {
            if !self.state.pending.is_waiting() {
                return Ok(());
            }
            let names = names(py)?;
            let engine = self.engine(py)?;
            let future = self.future(py)?;
            if future.call_method0(&names.done)?.is_truthy()? {
                // The future was cancelled, and the task did not run yet.
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

    /// Removes the watch.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        catch_unwind(|| {
            let watch = self.state.pending.leave(self.engine(py)?);
            drop(watch);
            self.release_buffer();
            Ok(())
        })
    }

    /// Ends the wait with an exception.
    fn fail(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        catch_unwind(|| {
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

    /// The number of bytes of the file that were sent.
    #[getter]
    fn sent(&self) -> u64 {
        thread_exit::guard();
        self.state.pending.with_operation(|operation| match operation {
            Waiting::SendFile(sending) => sending.sent(),
            Waiting::Ready(_) | Waiting::SendAll(_) => 0,
        })
    }

    /// Sets the position of the file to the end of what was sent.
    fn update_position(&self, py: Python<'_>) -> PyResult<()> {
        catch_unwind(|| {
            let updated = self.state.pending.with_operation(|operation| match operation {
                Waiting::SendFile(sending) => sending.update_position(),
                Waiting::Ready(_) | Waiting::SendAll(_) => Ok(()),
            });
            updated.map_err(|error| os_error(py, error))
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        gc::visit(&visit, &self.state.event_loop)?;
        gc::visit(&visit, &self.state.socket)?;
        if let Ok(future) = self.state.future.try_borrow()
            && let Some(future) = &*future
        {
            gc::visit(&visit, future)?;
        }
        self.state.pending.with_operation(|operation| match operation {
            Waiting::SendAll(sending) => {
                sending.data().references().try_for_each(|object| gc::visit(&visit, object))
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
}
