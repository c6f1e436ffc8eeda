//! Which of the loop's own methods were replaced, by a subclass or on the instance, where asyncio's code calls them
//! dynamically: `call_later()` goes through `call_at()` and `time()`, and every deadline is compared with `time()`.

use crate::clock::Teller;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;

/// See the module's text.
#[derive(Default)]
pub struct Overrides {
    teller: Teller,
    call_at: Cell<bool>,
}

impl Overrides {
    pub fn new(teller: Teller) -> Self {
        Overrides { teller, call_at: Cell::new(false) }
    }

    /// Whether an attribute of this name matters here.
    pub fn concern(name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| matches!(name, "time" | "call_at"))
    }

    /// Looks again at what the loop object and its class have under those names.
    pub fn look(&self, event_loop: &Bound<'_, PyAny>, native: &Bound<'_, PyAny>) -> PyResult<()> {
        let time = is_replaced(event_loop, native, "time")?;
        self.teller.set(if time { event_loop.as_ptr() } else { std::ptr::null_mut() });
        self.call_at.set(is_replaced(event_loop, native, "call_at")?);
        Ok(())
    }

    /// Whether `call_later()` has to go through what Python code put in the way.
    pub fn concern_call_later(&self) -> bool {
        self.call_at.get() || !self.teller.get().is_null()
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
