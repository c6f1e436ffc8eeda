//! `AcceptTask`: the coroutine of an accepted connection whose `connection_made()` was not called yet.
//!
//! asyncio accepts each connection in a task that ends after `connection_made()`. A program that cancels all tasks
//! cancels this one too, and the task then closes the connection; otherwise `Server.wait_closed()` would wait for a
//! connection that no other task closes. The coroutine here runs after `connection_made()`: its only step ends it, and an
//! exception that is thrown into it closes the transport.

use crate::coroutine::{Coroutine, coroutine_class};
use crate::names::names;
use crate::python::dealloc::ClassData;
use crate::python::guard::catch_unwind;
use crate::python::thread_exit;
use pyo3::PyTraverseError;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// See the module comment.
#[pyclass(module = "mainspring._mainspring", frozen)]
pub struct AcceptTask {
    transport: ClassData<Py<PyAny>>,
}

impl AcceptTask {
    /// Creates the task. `connection_made()` is scheduled already.
    pub fn start(event_loop: &Bound<'_, PyAny>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let coroutine = AcceptTask { transport: ClassData::new(transport.clone().unbind()) };
        event_loop.call_method1(&names(event_loop.py())?.create_task, (coroutine,)).map(drop)
    }
}

impl Coroutine for AcceptTask {
    fn step<'py>(&self, _: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Err(PyStopIteration::new_err(()))
    }

    /// Closes the transport: the task was cancelled.
    fn before_throw(&self, py: Python<'_>) -> PyResult<()> {
        self.transport.bind(py).call_method0("close").map(drop)
    }

    fn close(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

coroutine_class! {
impl AcceptTask {
    /// The name in the task's repr().
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

    fn send<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        catch_unwind(|| self.step(value.py()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.transport.get().map_or(Ok(()), |transport| visit.call(transport))
    }
}
}
