//! `UnderlyingTransport`: the transport that carries the ciphertext. A `StreamTransport` is called directly, any other
//! transport through Python.

use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::interpreter::attached;
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::stream::{self, StreamData};
use crate::transport::write_data::PyChunk;
use mainspring_engine::tls::LowerTransport;
use mainspring_engine::transport::Cx;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// See the module comment.
#[derive(Clone)]
pub enum UnderlyingTransport {
    Stream(Obj),
    /// A transport of another library, or TLS again.
    Other(Obj),
}

impl UnderlyingTransport {
    pub fn new(py: Python<'_>, transport: Obj) -> PyResult<Self> {
        let is_stream = native_data::<StreamData>(py, &transport)?.is_some();
        Ok(if is_stream {
            UnderlyingTransport::Stream(transport)
        } else {
            UnderlyingTransport::Other(transport)
        })
    }

    pub fn object(&self) -> &Obj {
        let (UnderlyingTransport::Stream(object) | UnderlyingTransport::Other(object)) = self;
        object
    }

    fn call(&self, name: &Py<PyString>) -> PyResult<()> {
        self.object().bind(attached()).call_method0(name).map(drop)
    }
}

impl LowerTransport<PyHost> for UnderlyingTransport {
    fn write(&self, _: Cx<'_, PyHost>, chunk: PyChunk) -> PyResult<()> {
        let py = attached();
        match self {
            UnderlyingTransport::Stream(stream) => stream::write_chunk(py, stream, &chunk),
            UnderlyingTransport::Other(other) => {
                let bytes = chunk.to_bytes(py)?;
                other.call_method(py, &names(py)?.write, [bytes.as_obj()]).map(drop)
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
