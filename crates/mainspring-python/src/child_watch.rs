//! `ChildWatch`: the engine's watch of a child process as a Python object.

use crate::errors::os_error;
use crate::python::dealloc::ClassData;
use crate::python::guard::catch_unwind;
use crate::python::thread_exit;
use mainspring_engine::child::{ChildExit, ChildWatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// The file descriptor becomes readable when the child exits.
#[pyclass(name = "ChildWatch", module = "mainspring._mainspring", frozen)]
pub struct PyChildWatch {
    #[pyo3(get)]
    pid: i32,
    /// `None` after `close()`.
    watch: ClassData<RefCell<Option<ChildWatch>>>,
}

impl PyChildWatch {
    fn with<R>(&self, py: Python<'_>, body: impl FnOnce(&ChildWatch) -> std::io::Result<R>) -> PyResult<R> {
        match &*self.watch.borrow() {
            Some(watch) => body(watch).map_err(|error| os_error(py, error)),
            None => Err(PyValueError::new_err("the watch is closed")),
        }
    }
}

#[pymethods]
impl PyChildWatch {
    /// Watches the child `pid`.
    #[new]
    fn new(py: Python<'_>, pid: i32) -> PyResult<Self> {
        catch_unwind(|| {
            let watch = ChildWatch::open(pid).map_err(|error| os_error(py, error))?;
            Ok(PyChildWatch { pid, watch: ClassData::new(RefCell::new(Some(watch))) })
        })
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        catch_unwind(|| self.with(py, |watch| Ok(watch.as_fd().as_raw_fd())))
    }

    /// None while the child runs; afterwards whether waitpid() will return its exit status.
    fn check_exit(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        catch_unwind(|| {
            let exit = self.with(py, ChildWatch::look)?;
            Ok(exit.map(|exit| exit != ChildExit::Unknown))
        })
    }

    /// Close the file descriptor.
    fn close(&self) {
        thread_exit::guard();
        self.watch.take();
    }
}
