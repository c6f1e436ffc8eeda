//! What the loop runs.

use crate::handle::Handle;
use crate::python::object::Obj;
use mainspring_engine::Readiness;
use pyo3::prelude::*;

/// A reader, a writer or a signal handler.
#[derive(Clone)]
pub struct Watch {
    pub handle: Handle,
    /// The object that was passed to `add_reader()`, unless it was a number. As in asyncio's selector, the watch keeps it
    /// alive, and `remove_reader()` finds the watch by it when the object is closed and has no number any more.
    pub file: Option<Obj>,
}

impl Watch {
    /// Calls `cancel()` of the handle.
    pub fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.as_obj().bind(py).call_method0("cancel").map(drop)
    }
}

impl From<Handle> for Watch {
    fn from(handle: Handle) -> Self {
        Watch { handle, file: None }
    }
}

impl From<Watch> for Call {
    fn from(watch: Watch) -> Self {
        Call::Handle(watch.handle)
    }
}

/// What the loop runs.
pub enum Call {
    /// A handle object.
    Handle(Handle),
    /// The fd of a transport or listener is ready.
    Io(Obj, Readiness),
}

impl Call {
    /// The handle object, unless the call serves I/O.
    pub fn handle(&self) -> Option<&Handle> {
        match self {
            Call::Handle(handle) => Some(handle),
            Call::Io(..) => None,
        }
    }

    /// The object that the call keeps alive.
    pub fn object(&self) -> &Obj {
        match self {
            Call::Handle(handle) => handle.as_obj(),
            Call::Io(source, _) => source,
        }
    }
}

impl From<Handle> for Call {
    fn from(handle: Handle) -> Self {
        Call::Handle(handle)
    }
}
