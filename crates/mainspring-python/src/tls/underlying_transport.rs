//! What carries the ciphertext: a `StreamTransport`, called directly, or any other transport, called as Python calls it.

use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::stream::{self as transport, TransportData};
use crate::transport::channel::PyChunk;
use mainspring_engine::tls::Lower;
use mainspring_engine::transport::Cx;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The transport below.
#[derive(Clone)]
pub enum PyLower {
    /// A `StreamTransport`.
    Stream(Obj),
    /// Somebody else's, or TLS again.
    Other(Obj),
}

fn attached<'py>() -> Python<'py> {
    // SAFETY: the engine runs only on threads that are attached.
    unsafe { Python::assume_attached() }
}

impl PyLower {
    pub fn new(py: Python<'_>, transport: Obj) -> PyResult<Self> {
        let is_ours = native_data::<TransportData>(py, &transport)?.is_some();
        Ok(if is_ours { PyLower::Stream(transport) } else { PyLower::Other(transport) })
    }

    pub fn object(&self) -> &Obj {
        let (PyLower::Stream(object) | PyLower::Other(object)) = self;
        object
    }

    fn call(&self, name: &Py<PyString>) -> PyResult<()> {
        self.object().bind(attached()).call_method0(name).map(drop)
    }
}

impl Lower<PyHost> for PyLower {
    fn write(&self, _: Cx<'_, PyHost>, chunk: PyChunk) -> PyResult<()> {
        let py = attached();
        match self {
            PyLower::Stream(stream) => transport::write_chunk(py, stream, chunk),
            PyLower::Other(other) => {
                let bytes = chunk.to_bytes(py)?;
                other.bind(py).call_method1(&names(py)?.write, (bytes.bind(py),)).map(drop)
            }
        }
    }

    fn pause_reading(&self, _: Cx<'_, PyHost>) -> PyResult<()> {
        self.call(&names(attached())?.pause_reading)
    }

    fn resume_reading(&self, _: Cx<'_, PyHost>) -> PyResult<()> {
        self.call(&names(attached())?.resume_reading)
    }

    fn close(&self, _: Cx<'_, PyHost>) -> PyResult<()> {
        self.call(&names(attached())?.close)
    }

    fn force_close(&self, _: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()> {
        let py = attached();
        let names = names(py)?;
        let transport = self.object().bind(py);
        if transport.hasattr(&names._force_close)? {
            let error = error.map(|error| error.into_value(py));
            transport.call_method1(&names._force_close, (error,)).map(drop)
        } else {
            transport.call_method0(&names.abort).map(drop)
        }
    }

    fn is_closing(&self, _: Cx<'_, PyHost>) -> PyResult<bool> {
        let py = attached();
        self.object().bind(py).call_method0(&names(py)?.is_closing)?.is_truthy()
    }
}
