//! `AcceptedConnection`: the coroutine of an accepted connection that its protocol has not been told of yet.
//!
//! asyncio accepts each connection in a task, which ends when `connection_made()` was called. Whoever cancels all tasks
//! meanwhile cancels that one too, and it closes the connection: else nobody would, if the protocol's own task is
//! cancelled or fails, and `Server.wait_closed()` would wait for ever. The task here is scheduled behind
//! `connection_made()`; its only step ends it, and an exception thrown into it closes the transport.

use crate::python::dealloc::ClassData;
use crate::python::method::guarded;
use crate::python::thread_exit;
use crate::socket_ops::thrown;
use pyo3::PyTraverseError;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// See the module's text.
#[pyclass(module = "mainspring._mainspring", frozen)]
pub struct AcceptedConnection {
    transport: ClassData<Py<PyAny>>,
}

impl AcceptedConnection {
    /// Creates the task, after `connection_made()` was scheduled.
    pub fn start(event_loop: &Bound<'_, PyAny>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let this = AcceptedConnection { transport: ClassData::new(transport.clone().unbind()) };
        let names = crate::names::names(event_loop.py())?;
        event_loop.call_method1(&names.create_task, (this,)).map(drop)
    }
}

#[pymethods]
impl AcceptedConnection {
    /// The name that the task shows.
    #[getter]
    fn __qualname__(&self) -> &'static str {
        thread_exit::guard();
        "Loop._accept_connection"
    }

    #[getter]
    fn __name__(&self) -> &'static str {
        thread_exit::guard();
        "_accept_connection"
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    fn __next__(&self) -> PyResult<()> {
        guarded(|| Err(PyStopIteration::new_err(())))
    }

    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| self.__next__())
    }

    /// The task is cancelled.
    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        guarded(|| {
            self.transport.bind(kind.py()).call_method0("close")?;
            Err(thrown(kind, value)?)
        })
    }

    fn close(&self) {
        thread_exit::guard();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.transport.get().map_or(Ok(()), |transport| visit.call(transport))
    }
}
