//! `AcceptTask`: the coroutine of an accepted connection whose `connection_made()` was not called yet.
//!
//! asyncio accepts each connection in a task that ends after `connection_made()`. A program that cancels all tasks
//! cancels this one too, and the task then closes the connection; otherwise `Server.wait_closed()` would wait for a
//! connection that no other task closes. The coroutine here runs after `connection_made()`: its only step ends it, and an
//! exception that is thrown into it closes the transport.

use crate::names::names;
use crate::python::dealloc::ClassData;
use crate::python::guard::catch_unwind;
use crate::python::thread_exit;
use crate::socket_ops::thrown_exception;
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

#[pymethods]
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

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        thread_exit::guard();
        slf
    }

    fn __next__(&self) -> PyResult<()> {
        catch_unwind(|| Err(PyStopIteration::new_err(())))
    }

    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        catch_unwind(|| self.__next__())
    }

    /// Closes the transport: the task was cancelled.
    #[pyo3(signature = (kind, value=None, _traceback=None))]
    fn throw(
        &self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        _traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        catch_unwind(|| {
            self.transport.bind(kind.py()).call_method0("close")?;
            Err(thrown_exception(kind, value)?)
        })
    }

    fn close(&self) {
        thread_exit::guard();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.transport.get().map_or(Ok(()), |transport| visit.call(transport))
    }
}
