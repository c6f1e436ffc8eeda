//! The contexts in which a protocol is called.
//!
//! Before Python 3.15 each reader and writer handle of asyncio has a copy of the context that was current when it was
//! added, and a transport here does the same. From 3.15 on a transport is given one context for all its calls.

use super::Open;
use super::engine_transport::EngineTransport;
use crate::errors::merge_outcomes;
use crate::python::context;
use crate::python::object::Obj;
use pyo3::prelude::*;
use std::cell::RefCell;

/// The contexts of a transport.
#[derive(Default)]
pub struct Contexts {
    /// The context for the whole life of the transport.
    given: Option<Obj>,
    /// For received data: a copy of the context in which reading began.
    pub(super) reading: CapturedContext,
    /// For flushing the write buffer and `resume_writing()`: a copy of the context of the first write that was buffered.
    pub(super) writing: CapturedContext,
}

impl Contexts {
    pub(super) fn new(given: Option<Obj>) -> Self {
        Contexts { given, ..Contexts::default() }
    }

    /// Received data is delivered in the current context from now on.
    pub(super) fn capture_for_reading(&self, py: Python<'_>) -> PyResult<()> {
        self.capture(py, &self.reading)
    }

    /// Stores the given context, or a copy of the current one.
    fn capture(&self, py: Python<'_>, captured: &CapturedContext) -> PyResult<()> {
        let context = match &self.given {
            Some(given) => given.clone(),
            None => context::copy_current(py)?,
        };
        let former = captured.0.replace(Some(context));
        drop(former);
        Ok(())
    }

    /// The context of deferred calls; `None` for a copy of the current one.
    pub(super) fn for_deferred(&self) -> Option<&Obj> {
        self.given.as_ref()
    }

    /// Drops the copies.
    pub(super) fn clear(&self) {
        for captured in [&self.reading, &self.writing] {
            let former = captured.0.take();
            drop(former);
        }
    }

    pub(super) fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        self.given.iter().for_each(&mut *visit);
        for captured in [&self.reading, &self.writing] {
            if let Ok(context) = captured.0.try_borrow() {
                context.iter().for_each(&mut *visit);
            }
        }
    }
}

/// A `contextvars.Context`, or none yet.
#[derive(Default)]
pub struct CapturedContext(RefCell<Option<Obj>>);

impl CapturedContext {
    /// Runs `body` in the context, or in the current one if there is none.
    #[inline]
    pub(super) fn run(&self, py: Python<'_>, body: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
        let context = self.0.borrow().clone();
        match context {
            Some(context) => context::run_in(py, &context, body),
            None => body(),
        }
    }
}

/// Runs `write`. If it is the first write that is buffered, the buffer is flushed in the current context.
#[inline]
pub fn write_in_context<M: EngineTransport>(
    py: Python<'_>,
    open: &Open<M>,
    write: impl FnOnce() -> PyResult<()>,
) -> PyResult<()> {
    let was_waiting = open.machine.interest().is_outbound();
    let result = write();
    if was_waiting || !open.machine.interest().is_outbound() {
        return result;
    }
    merge_outcomes(py, result, open.contexts.capture(py, &open.contexts.writing))
}
