//! Methods of the loop that Python code has replaced, in a derived class, on the class or on the instance.
//!
//! asyncio calls `call_at()` and `time()` from `call_later()`, `time()` for every deadline, and `call_soon()` for the
//! callbacks of transports. The native code skips these calls unless a method was replaced. The loop has no hooks
//! (`on_idle()` and its relatives) of its own; they are called if Python code defines them.
//!
//! Attributes of the instance are set through `__setattr__`, which calls [`Overrides::update`]. A change of the class
//! (`mock.patch.object(Loop, "time")`, `loop.__class__ = ...`) is detected by the version tag of the type, which CPython
//! changes with every change of the type or of one of its bases.

use super::NativeLoop;
use crate::python::back_reference::BackReference;
use mainspring_engine::Hooks;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::Cell;

/// See the module comment.
#[derive(Default)]
pub struct Overrides {
    /// The loop object that this is part of. `None` before the loop is bound.
    event_loop: Cell<Option<BackReference>>,
    /// The class of the loop and its version at the last update.
    class_version: Cell<(usize, u32)>,
    time: Cell<bool>,
    call_at: Cell<bool>,
    call_soon: Cell<bool>,
    hooks: Cell<Hooks>,
}

impl Overrides {
    /// Sets the loop object that this is part of.
    pub fn bind(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        self.event_loop.set(Some(BackReference::new(event_loop)));
        self.update(event_loop)
    }

    /// Whether an attribute of this name is one of the methods.
    pub fn includes(name: &Bound<'_, PyAny>) -> bool {
        let is_included = |name: &str| {
            matches!(
                name,
                "time" | "call_at" | "call_soon" | "on_iteration_begin" | "on_iteration_end" | "on_idle"
            )
        };
        name.extract::<&str>().is_ok_and(is_included)
    }

    /// Looks the methods up again.
    pub fn update(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        let native = event_loop.py().get_type::<NativeLoop>();
        self.time.set(is_replaced(event_loop, native.as_any(), "time")?);
        self.call_at.set(is_replaced(event_loop, native.as_any(), "call_at")?);
        self.call_soon.set(is_replaced(event_loop, native.as_any(), "call_soon")?);
        self.hooks.set(Hooks {
            iteration_begin: is_defined(event_loop, "on_iteration_begin")?,
            iteration_end: is_defined(event_loop, "on_iteration_end")?,
            idle: is_defined(event_loop, "on_idle")?,
        });
        // After the lookups: a class that was changed has no version before the next lookup.
        self.class_version.set(BackReference::new(event_loop).class_version());
        Ok(())
    }

    /// The loop object, if its `time()` was replaced.
    #[inline]
    pub fn replaced_clock<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.refresh(py)?;
        if !self.time.get() {
            return Ok(None);
        }
        Ok(self.event_loop.get().and_then(|event_loop| event_loop.bind(py)))
    }

    /// Whether `call_later()` has to call `time()` and `call_at()` of the loop object.
    #[inline]
    pub fn affect_call_later(&self, py: Python<'_>) -> PyResult<bool> {
        self.refresh(py)?;
        Ok(self.call_at.get() || self.time.get())
    }

    /// Whether a transport has to call `call_soon()` of the loop object.
    pub fn affect_transports(&self, py: Python<'_>) -> PyResult<bool> {
        self.refresh(py)?;
        Ok(self.call_soon.get())
    }

    /// The hooks that are defined.
    pub fn hooks(&self, py: Python<'_>) -> PyResult<Hooks> {
        self.refresh(py)?;
        Ok(self.hooks.get())
    }

    #[inline(always)]
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        let Some(event_loop) = self.event_loop.get() else { return Ok(()) };
        let (class, version) = event_loop.class_version();
        // 0 is no version: such a class is looked at every time.
        if version != 0 && self.class_version.get() == (class, version) {
            return Ok(());
        }
        event_loop.bind(py).map_or(Ok(()), |event_loop| self.update(&event_loop))
    }
}

/// Whether `event_loop.name` is not the method of the `native` class.
fn is_replaced(event_loop: &Bound<'_, PyAny>, native: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    if is_on_instance(event_loop, name)? {
        return Ok(true);
    }
    Ok(!event_loop.get_type().getattr(name)?.is(&native.getattr(name)?))
}

/// Whether the instance or the class has an attribute of this name. A `__getattr__()` method does not count.
fn is_defined(event_loop: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    Ok(is_on_instance(event_loop, name)? || event_loop.get_type().hasattr(name)?)
}

fn is_on_instance(event_loop: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    match event_loop.getattr("__dict__").and_then(|it| Ok(it.cast_into::<PyDict>()?)) {
        Ok(attributes) => attributes.contains(name),
        Err(_) => Ok(false),
    }
}
