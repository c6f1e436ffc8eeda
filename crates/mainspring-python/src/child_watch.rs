//! `ChildWatch`: the engine's watch of one child process, for Python.

use crate::event_loop::host::os_error;
use crate::python::method::guarded;
use crate::python::thread_exit;
use mainspring_engine::child::{ChildExit, ChildWatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// The engine's watch, until it is closed.
struct Watch(RefCell<Option<ChildWatch>>);

// SAFETY: the interpreter lock is held by every thread that gets here and orders all uses, as for the loop's own state
// (`loop_object.rs`).
unsafe impl Send for Watch {}
// SAFETY: as above.
unsafe impl Sync for Watch {}

/// Its descriptor is readable when the child has ended.
#[pyclass(name = "ChildWatch", module = "mainspring._mainspring", frozen)]
pub struct PyChildWatch {
    #[pyo3(get)]
    pid: i32,
    watch: Watch,
}

impl PyChildWatch {
    fn with<R>(&self, py: Python<'_>, ask: impl FnOnce(&ChildWatch) -> std::io::Result<R>) -> PyResult<R> {
        match &*self.watch.0.borrow() {
            Some(watch) => ask(watch).map_err(|error| os_error(py, error)),
            None => Err(PyValueError::new_err("the watch is closed")),
        }
    }
}

#[pymethods]
impl PyChildWatch {
    /// Watches the child `pid`.
    #[new]
    fn new(py: Python<'_>, pid: i32) -> PyResult<Self> {
        guarded(|| {
            let watch = ChildWatch::open(pid).map_err(|error| os_error(py, error))?;
            Ok(PyChildWatch { pid, watch: Watch(RefCell::new(Some(watch))) })
        })
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        guarded(|| self.with(py, |watch| Ok(watch.as_fd().as_raw_fd())))
    }

    /// None while the child runs; then whether it is there to be waited for, by the one who asks.
    fn look(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        guarded(|| {
            let exit = self.with(py, ChildWatch::look)?;
            Ok(exit.map(|exit| exit != ChildExit::Unknown))
        })
    }

    /// Closes the descriptor.
    fn close(&self) {
        thread_exit::guard();
        self.watch.0.take();
    }
}
