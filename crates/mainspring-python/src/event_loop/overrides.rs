//! Methods of the loop that Python code has replaced, in a derived class, on the class or on the instance.
//!
//! asyncio calls `call_at()` and `time()` from `call_later()`, `time()` for every deadline, and `call_soon()` for the
//! callbacks of transports. The native code skips these calls unless a method was replaced. It also skips
//! `BaseEventLoop.create_task()`, unless that was replaced (by a tool that counts tasks, for instance). The loop has no
//! hooks (`on_idle()` and its relatives) of its own; they are called if Python code defines them.
//!
//! Attributes of the instance are set and deleted through `__setattr__` and `__delattr__`, which call
//! [`Overrides::instance_changed`]. The instance's `__dict__` is not read: it is created on first use, and without it
//! Python looks up methods of the loop faster (row `A.call_soon.chain`). A change of the class
//! (`mock.patch.object(Loop, "time")`, `loop.__class__ = ...`) is detected by the version tag of the type, which CPython
//! changes with every change of the type or of one of its bases.

use super::NativeLoop;
use crate::names::names;
use crate::python::back_reference::BackReference;
use mainspring_engine::Hooks;
use pyo3::prelude::*;
use std::cell::Cell;

const METHODS: [&str; 6] =
    ["time", "call_at", "call_soon", "on_iteration_begin", "on_iteration_end", "on_idle"];

/// See the module comment.
#[derive(Default)]
pub struct Overrides {
    /// The loop object that this is part of. `None` before the loop is bound.
    event_loop: Cell<Option<BackReference>>,
    /// The class of the loop and its version at the last update.
    class_version: Cell<(usize, u32)>,
    /// Which of `METHODS` are attributes of the instance.
    on_instance: [Cell<bool>; METHODS.len()],
    time: Cell<bool>,
    call_at: Cell<bool>,
    call_soon: Cell<bool>,
    /// Of `BaseEventLoop`.
    create_task: Cell<bool>,
    hooks: Cell<Hooks>,
}

/// What a class says about the methods.
#[derive(Clone, Copy, Default)]
struct Class {
    /// The class and its version.
    version: (usize, u32),
    /// Which of `METHODS` it replaces. For a hook: whether it defines it.
    replaces: [bool; METHODS.len()],
    /// Whether `BaseEventLoop.create_task()` was replaced.
    replaces_create_task: bool,
}

thread_local! {
    /// The class that was looked at last. Most programs have loops of one class; to look at it again for each loop takes
    /// 5 % of the row `C.run_noop`.
    static LATEST: Cell<Class> = Cell::default();
}

impl Class {
    fn of(event_loop: &Bound<'_, PyAny>) -> PyResult<Self> {
        let latest = LATEST.get();
        let version = BackReference::new(event_loop).class_version();
        // 0 is no version.
        if version.1 != 0 && latest.version == version {
            return Ok(latest);
        }
        let (class, native) = (event_loop.get_type(), event_loop.py().get_type::<NativeLoop>());
        let mut replaces = [false; METHODS.len()];
        for (method, is_replaced) in METHODS.iter().zip(&mut replaces) {
            // A `__getattr__()` method does not count.
            *is_replaced = match native.hasattr(method)? {
                true => !class.getattr(method)?.is(&native.getattr(method)?),
                false => class.hasattr(method)?,
            };
        }
        let names = names(event_loop.py())?;
        let create_task = names.base_event_loop.bind(event_loop.py()).getattr(&names.create_task)?;
        let found = Class {
            replaces,
            replaces_create_task: !create_task.is(&names.base_create_task),
            // After the lookups: a class that was changed has no version before the next lookup.
            version: BackReference::new(event_loop).class_version(),
        };
        LATEST.set(found);
        Ok(found)
    }
}

impl Overrides {
    /// Sets the loop object that this is part of.
    pub fn bind(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        self.event_loop.set(Some(BackReference::new(event_loop)));
        self.update(event_loop)
    }

    /// An attribute of the instance was set, or deleted. Returns whether it is one of the methods.
    pub fn instance_changed(
        &self,
        event_loop: &Bound<'_, PyAny>,
        name: &Bound<'_, PyAny>,
        is_set: bool,
    ) -> PyResult<bool> {
        let name = name.extract::<&str>().unwrap_or_default();
        let Some(method) = METHODS.iter().position(|method| *method == name) else { return Ok(false) };
        self.on_instance[method].set(is_set);
        self.update(event_loop)?;
        Ok(true)
    }

    /// Looks the methods up again.
    fn update(&self, event_loop: &Bound<'_, PyAny>) -> PyResult<()> {
        let class = Class::of(event_loop)?;
        let mut is_replaced = class.replaces;
        for (is_replaced, on_instance) in is_replaced.iter_mut().zip(&self.on_instance) {
            *is_replaced |= on_instance.get();
        }
        let [time, call_at, call_soon, iteration_begin, iteration_end, idle] = is_replaced;
        self.time.set(time);
        self.call_at.set(call_at);
        self.call_soon.set(call_soon);
        self.create_task.set(class.replaces_create_task);
        self.hooks.set(Hooks { iteration_begin, iteration_end, idle });
        self.class_version.set(class.version);
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

    /// Whether `create_task()` has to call that of `BaseEventLoop`.
    #[inline]
    pub fn affect_create_task(&self, py: Python<'_>) -> PyResult<bool> {
        self.refresh(py)?;
        Ok(self.create_task.get())
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
