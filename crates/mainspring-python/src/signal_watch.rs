//! `SignalWatch`: a signal that wakes a thread, whatever the main thread does.
//!
//! Python's own handlers run in the main thread, between two instructions of Python code. This one writes to a pipe, so
//! another thread notices the signal while the main thread is blocked in native code.

use crate::errors::os_error;
use crate::python::dealloc::ClassData;
use crate::python::guard::catch_unwind;
use crate::python::thread_exit;
use mainspring_engine::signals::{Installed, SignalPipe, install};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, RawFd};

struct State {
    pipe: SignalPipe,
    /// `None` after `close()`.
    installed: RefCell<Option<Installed>>,
}

/// The file descriptor becomes readable when the signal arrives, and when the watch is closed.
#[pyclass(name = "SignalWatch", module = "mainspring._mainspring", frozen)]
pub struct PySignalWatch {
    state: ClassData<State>,
}

#[pymethods]
impl PySignalWatch {
    /// Replaces the action of the signal until close().
    #[new]
    fn new(py: Python<'_>, signum: i32) -> PyResult<Self> {
        catch_unwind(|| {
            let pipe = SignalPipe::new().map_err(|error| os_error(py, error))?;
            let installed = install(signum, &pipe).map_err(|error| os_error(py, error))?;
            let state = State { pipe, installed: RefCell::new(Some(installed)) };
            Ok(PySignalWatch { state: ClassData::new(state) })
        })
    }

    fn fileno(&self) -> RawFd {
        thread_exit::guard();
        self.state.pipe.as_fd().as_raw_fd()
    }

    /// The number of signals that have arrived since the last call; None after close().
    fn take(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        catch_unwind(|| {
            let mut signums = Vec::new();
            self.state.pipe.read_pending(&mut signums).map_err(|error| os_error(py, error))?;
            Ok(self.state.installed.borrow().as_ref().map(|_| signums.len()))
        })
    }

    /// Restores the former action of the signal. The thread that waits for the file descriptor wakes up.
    fn close(&self) {
        thread_exit::guard();
        drop(self.state.installed.take());
        self.state.pipe.wake();
    }
}
