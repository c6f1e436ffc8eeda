//! The contexts in which a protocol is called.
//!
//! Before Python 3.15, asyncio's reader and writer handles each have a copy of the context that was current when they
//! were added, and so has a transport here. From 3.15 on a transport is given one context for all its calls.

use super::Open;
use super::engine_transport::Machine;
use crate::errors::merge_outcomes;
use crate::python::context;
use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;

/// The contexts of a transport.
#[derive(Default)]
pub struct Contexts {
    /// Given for the transport's whole life.
    given: Option<Obj>,
    /// For data that arrives: a copy of the context in which reading began.
    pub reading: KeptContext,
    /// For sending what waits, and resuming the protocol: a copy of that of the first write that had to wait.
    pub writing: KeptContext,
}

impl Contexts {
    pub fn new(given: Option<Obj>) -> Self {
        Contexts { given, ..Contexts::default() }
    }

    /// The context for the next calls of one direction: the one that was given, or a copy of the current one.
    pub fn keep(&self, py: Python<'_>, kept: &KeptContext) -> PyResult<()> {
        let context = match &self.given {
            Some(given) => given.clone(),
            None => context::copy_current(py)?,
        };
        let former = kept.0.replace(Some(context));
        drop(former);
        Ok(())
    }

    /// The context that deferred steps are called in; null for a copy of the current one.
    pub fn for_steps(&self) -> *mut ffi::PyObject {
        self.given.as_ref().map_or(std::ptr::null_mut(), Obj::as_ptr)
    }

    /// Lets go of the copies.
    pub fn forget(&self) {
        for kept in [&self.reading, &self.writing] {
            let former = kept.0.take();
            drop(former);
        }
    }

    /// Shows the contexts to the garbage collector.
    pub fn show(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        if let Some(given) = &self.given {
            show(given.as_ptr());
        }
        for kept in [&self.reading, &self.writing] {
            if let Ok(context) = kept.0.try_borrow()
                && let Some(context) = &*context
            {
                show(context.as_ptr());
            }
        }
    }
}

/// A `contextvars.Context`, once there is one.
#[derive(Default)]
pub struct KeptContext(RefCell<Option<Obj>>);

impl KeptContext {
    /// Runs `body` in the context, or in the current one if none was kept.
    pub fn run(&self, py: Python<'_>, body: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
        let kept = self.0.borrow().clone();
        let Some(kept) = kept else { return body() };
        context::run_in(py, &kept, body)
    }
}

/// Runs a write; if it is the first that has to wait, its context is the one that what waits is sent in.
pub fn writing<M: Machine>(
    py: Python<'_>,
    open: &Open<M>,
    write: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let waited = open.machine.interest().is_outbound();
    let result = write();
    if waited || !open.machine.interest().is_outbound() {
        return result;
    }
    merge_outcomes(py, result, open.contexts.keep(py, &open.contexts.writing))
}
