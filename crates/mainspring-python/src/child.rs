//! `ChildWatch`: the engine's watch of one child process, for Python.

use crate::host::os_error;
use mainspring::child::{ChildExit, ChildWatch};
use pyo3::prelude::*;
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// The engine's watch.
struct Watch(ChildWatch);

// SAFETY: the interpreter lock is held by every thread that gets here and orders all uses, as for the loop's own state
// (`loop_object.rs`).
unsafe impl Send for Watch {}
// SAFETY: as above.
unsafe impl Sync for Watch {}

/// Its descriptor is readable when the child has ended.
#[pyclass(name = "ChildWatch", module = "mainspring._mainspring", frozen)]
pub struct PyChildWatch {
    watch: Watch,
}

#[pymethods]
impl PyChildWatch {
    /// Watches the child `pid`.
    #[new]
    fn new(py: Python<'_>, pid: i32) -> PyResult<Self> {
        match ChildWatch::open(pid) {
            Ok(watch) => Ok(PyChildWatch { watch: Watch(watch) }),
            Err(error) => Err(os_error(py, error)),
        }
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.watch.0.pid()
    }

    fn fileno(&self) -> RawFd {
        self.watch.0.as_fd().as_raw_fd()
    }

    /// None while the child runs; then whether it is there to be waited for, by the one who asks.
    fn look(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        let exit = self.watch.0.look().map_err(|error| os_error(py, error))?;
        Ok(exit.map(|exit| exit != ChildExit::Unknown))
    }
}
