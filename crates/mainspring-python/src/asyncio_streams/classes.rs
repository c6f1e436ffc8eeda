//! The classes of `mainspring._streams`, and whether the methods that they replace are asyncio's own.
//!
//! A program can replace a method of `asyncio.StreamReader` at any time, for instance with `mock.patch.object()`. CPython
//! then changes the version tag of the class and of the classes derived from it. Native code compares the tag before it
//! does the work of a method.

use crate::python::class_version;
use crate::python::object::Obj;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyMapping, PyType};
use std::sync::atomic::{AtomicU64, Ordering};

/// A class of `mainspring._streams`.
pub struct StreamClass {
    class: Py<PyType>,
    /// The class of asyncio that it derives from.
    base: Py<PyType>,
    /// The version at the last check, shifted by one, and the result in the lowest bit. The interpreter lock orders all
    /// accesses.
    checked: AtomicU64,
}

impl StreamClass {
    fn new(module: &Bound<'_, PyModule>, name: &str) -> PyResult<Self> {
        let class = module.getattr(name)?.cast_into::<PyType>()?;
        let base = class.getattr(intern!(module.py(), "__base__"))?.cast_into::<PyType>()?;
        Ok(StreamClass { class: class.unbind(), base: base.unbind(), checked: AtomicU64::new(0) })
    }

    /// Whether the object is an instance of this class itself, and no method was replaced in the class or its bases.
    #[inline]
    pub fn is_native(&self, py: Python<'_>, object: &Obj) -> PyResult<bool> {
        Ok(class_version::is_exact(object, &self.class) && self.is_unchanged(py)?)
    }

    #[inline]
    fn is_unchanged(&self, py: Python<'_>) -> PyResult<bool> {
        let version = class_version::of(&self.class);
        let checked = self.checked.load(Ordering::Relaxed);
        // 0 is no version: such a class is checked every time.
        if version != 0 && checked >> 1 == u64::from(version) {
            return Ok(checked & 1 == 1);
        }
        self.check(py)
    }

    /// Compares the methods with those at import.
    #[cold]
    fn check(&self, py: Python<'_>) -> PyResult<bool> {
        let module = py.import(intern!(py, "mainspring._streams"))?;
        let is_unchanged = module.call_method1(intern!(py, "is_unchanged"), (&self.class,))?.is_truthy()?;
        // A class that was changed has no version before the next lookup.
        self.class.bind(py).getattr(intern!(py, "__init__"))?;
        let version = class_version::of(&self.class);
        self.checked.store(u64::from(version) << 1 | u64::from(is_unchanged), Ordering::Relaxed);
        // Without a version a later change would not be detected.
        Ok(is_unchanged && version != 0)
    }
}

/// The three classes.
pub struct StreamClasses {
    pub reader: StreamClass,
    pub protocol: StreamClass,
    pub writer: StreamClass,
}

static CLASSES: PyOnceLock<StreamClasses> = PyOnceLock::new();

impl StreamClasses {
    /// The classes, imported on first use.
    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        CLASSES.get_or_try_init(py, || {
            let module = py.import(intern!(py, "mainspring._streams"))?;
            Ok(StreamClasses {
                reader: StreamClass::new(&module, "StreamReader")?,
                protocol: StreamClass::new(&module, "StreamReaderProtocol")?,
                writer: StreamClass::new(&module, "StreamWriter")?,
            })
        })
    }

    /// Whether an object is a stream's protocol with our class.
    pub fn is_stream_protocol(&self, object: &Obj) -> bool {
        class_version::is_exact(object, &self.protocol.class)
    }
}

/// Gives a stream's protocol and its reader our classes. Does nothing if the class of one of them is not asyncio's own,
/// or if a method of a class was replaced.
pub fn adopt(py: Python<'_>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
    let classes = StreamClasses::get(py)?;
    if !protocol.get_type().is(&classes.protocol.base)
        || !classes.reader.is_unchanged(py)?
        || !classes.protocol.is_unchanged(py)?
    {
        return Ok(());
    }
    let reader = protocol.getattr(intern!(py, "_stream_reader"))?;
    if !reader.get_type().is(&classes.reader.base) {
        return Ok(());
    }
    set_class(&reader, &classes.reader)?;
    set_class(protocol, &classes.protocol)
}

/// `object.__class__ = class`.
///
/// After that CPython stores the attributes in a dictionary that shares its keys with other instances, and does not
/// specialize attribute lookups in such a dictionary. A copy has keys of its own. Without it a read of a line takes a
/// third more instructions (row `C.readline`).
fn set_class(object: &Bound<'_, PyAny>, class: &StreamClass) -> PyResult<()> {
    let py = object.py();
    object.setattr(intern!(py, "__class__"), &class.class)?;
    let attributes = PyDict::new(py);
    attributes.update(object.getattr(intern!(py, "__dict__"))?.cast::<PyMapping>()?)?;
    object.setattr(intern!(py, "__dict__"), attributes)
}
