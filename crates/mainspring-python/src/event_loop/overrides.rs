//! Which of the loop's own methods were replaced, by a subclass, on the class or on the instance, where asyncio's code
//! calls them dynamically: `call_later()` goes through `call_at()` and `time()`, and every deadline is compared with
//! `time()`.
//!
//! The instance's attributes pass through `__setattr__`, which calls [`Overrides::look`]. A change of the class
//! (`mock.patch.object(Loop, "time")`, `loop.__class__ = ...`) does not: it is seen by the type's version tag, which
//! CPython changes with every change of the type or of one of its bases.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;
use std::os::raw::c_uint;

/// See the module's text.
#[derive(Default)]
pub struct Overrides {
    /// The loop object that this belongs to: borrowed, since it is part of that object. Null before the loop is bound.
    event_loop: Cell<*mut ffi::PyObject>,
    /// The class of the loop, and its version, when the two below were found out.
    seen: Cell<(*mut ffi::PyTypeObject, c_uint)>,
    time: Cell<bool>,
    call_at: Cell<bool>,
}

impl Overrides {
    /// Tells which object this is about.
    pub fn bind(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        self.event_loop.set(event_loop.as_ptr());
        self.look(event_loop)
    }

    /// Whether an attribute of this name matters here.
    pub fn concern(name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| matches!(name, "time" | "call_at"))
    }

    /// Looks again at what the loop object and its class have under those names.
    pub fn look(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        let native = event_loop.py().get_type::<crate::event_loop::NativeLoop>();
        self.time.set(is_replaced(event_loop, native.as_any(), "time")?);
        self.call_at.set(is_replaced(event_loop, native.as_any(), "call_at")?);
        // Last: a class that was changed has no version until something is looked up in it.
        self.seen.set(version(event_loop.as_ptr()));
        Ok(())
    }

    /// The loop object, if its `time()` is to be asked for the time.
    pub fn clock(&self, py: Python<'_>) -> PyResult<Option<*mut ffi::PyObject>> {
        self.refresh(py)?;
        Ok(self.time.get().then(|| self.event_loop.get()))
    }

    /// Whether `call_later()` has to go through what Python code put in the way.
    pub fn concern_call_later(&self, py: Python<'_>) -> PyResult<bool> {
        self.refresh(py)?;
        Ok(self.call_at.get() || self.time.get())
    }

    #[inline(always)]
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let event_loop = self.event_loop.get();
        if event_loop.is_null() {
            return Ok(());
        }
        let (class, tag) = version(event_loop);
        // No version is zero: a class that has none is looked at every time.
        if tag != 0 && self.seen.get() == (class, tag) {
            return Ok(());
        }
        // SAFETY: the object that this is part of, alive while its engine runs or a method of it is called.
        self.look(&unsafe { Bound::from_borrowed_ptr(py, event_loop) })
    }
}

/// The class of a live object, and its version tag: 0 for none.
fn version(object: *mut ffi::PyObject) -> (*mut ffi::PyTypeObject, c_uint) {
    // SAFETY: the callers hold the object, which holds its class.
    unsafe {
        let class = ffi::Py_TYPE(object);
        (class, (*class).tp_version_tag)
    }
}

/// Whether `event_loop.name` is not the method of the `native` class.
fn is_replaced(event_loop: &Bound<'_, PyAny>, native: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    if let Ok(attributes) = event_loop.getattr("__dict__").and_then(|it| Ok(it.cast_into::<PyDict>()?))
        && attributes.contains(name)?
    {
        return Ok(true);
    }
    Ok(!event_loop.get_type().getattr(name)?.is(&native.getattr(name)?))
}

/// Sets (or with null deletes) an attribute as any object does.
pub fn set_attribute(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
    value: *mut ffi::PyObject,
) -> PyResult<()> {
    // SAFETY: live objects, and a value that is alive or null.
    match unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(object.py())),
    }
}
