//! How a call runs: with or without debug mode, and visible to other threads or not.

use super::{PyHost, pass_exit_exceptions};
use crate::errors;
use crate::event_loop::lanes;
use crate::event_loop::source::Source;
use crate::handle::{self, Handle};
use crate::names::names;
use crate::python::back_reference::BackReference;
use crate::python::object::Obj;
use mainspring_engine::Readiness;
use mainspring_engine::transport::TransportHost;
use pyo3::prelude::*;
use std::cell::Cell;
use std::time::Instant;

impl PyHost {
    pub fn is_debug(&self) -> bool {
        self.debug.get()
    }

    pub fn set_debug(&self, enabled: bool) {
        self.debug.set(enabled);
        self.update_observed();
    }

    /// The handle or source of the call that runs, for other threads.
    pub fn running_call<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.running.get()?.bind(py)
    }

    /// Lets other threads ask for the running call from now on.
    pub fn show_running_calls(&self) {
        self.shows_running.set(true);
        self.update_observed();
    }

    fn update_observed(&self) {
        self.observed.set(self.debug.get() || self.shows_running.get());
    }

    /// Shows `object`, which the caller holds, as the running call while `run` runs.
    fn while_shown<R>(&self, object: &Obj, run: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Cell<Option<BackReference>>, Option<BackReference>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let outer = self.running.replace(Some(BackReference::to_held(object)));
        let _restore = Restore(&self.running, outer);
        run()
    }

    #[inline(always)]
    pub(super) fn run_and_report(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        match self.run_handle(py, handle) {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(py, handle, error),
        }
    }

    /// Runs a handle in debug mode, or while other threads may ask for it.
    #[cold]
    pub(super) fn run_observed(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        self.while_shown(handle.as_obj(), || match self.debug.get() {
            true => self.run_in_debug_mode(py, handle),
            false => self.run_and_report(py, handle),
        })
    }

    /// Runs a handle in its context.
    fn run_handle(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        let is_postponed = |refused| self.postpones(py, handle, refused);
        lanes::run(self, handle, || handle::run(py, self.types, handle, is_postponed))
    }

    /// Reports the exception of a callback to the loop's exception handler. `Err` for an exception that ends the run.
    #[cold]
    fn callback_failed(&self, py: Python<'_>, handle: &Handle, error: PyErr) -> PyResult<()> {
        let error = pass_exit_exceptions(py, error)?;
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, handle.as_obj().bind(py), error.into_value(py));
        names.reports.bind(py).call_method1(&names.callback_failed, arguments).map(drop)
    }

    #[cold]
    fn run_in_debug_mode(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        let event_loop = self.event_loop(py)?;
        let names = names(py)?;
        let object = handle.as_obj().bind(py);
        event_loop.setattr(&names._current_handle, &object)?;
        let started = Instant::now();
        let result = self.run_handle(py, handle);
        let seconds = started.elapsed().as_secs_f64();
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(py, handle, error),
        };
        errors::merge_outcomes(py, result, event_loop.setattr(&names._current_handle, py.None()))?;
        if self.is_slow(py, seconds)? {
            names.reports.bind(py).call_method1(&names.slow_callback, (object, seconds))?;
        }
        Ok(())
    }

    /// Whether debug mode warns of a callback that took this long.
    fn is_slow(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit: f64 = self.event_loop(py)?.getattr(&names(py)?.slow_callback_duration)?.extract()?;
        Ok(seconds >= limit)
    }

    pub(super) fn serve_io(&self, py: Python<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        let kind = Source::of(py, source)?;
        if self.observed.get() {
            return self.while_shown(source, || match self.debug.get() {
                true => self.serve_in_debug_mode(py, &kind, source, readiness),
                false => self.serve(py, &kind, source, readiness),
            });
        }
        self.serve(py, &kind, source, readiness)
    }

    fn serve(&self, py: Python<'_>, kind: &Source<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        match kind.io_ready(py, source, readiness) {
            Ok(()) => Ok(()),
            // As for asyncio's callbacks, the failure of one source does not end the run.
            Err(error) => self.report(source, error, "Exception while handling I/O"),
        }
    }

    /// Serves and times the directions separately: in asyncio they are two callbacks.
    #[cold]
    fn serve_in_debug_mode(
        &self,
        py: Python<'_>,
        kind: &Source<'_>,
        source: &Obj,
        readiness: Readiness,
    ) -> PyResult<()> {
        let inbound = readiness.inbound.then_some((Readiness::INBOUND, kind.reading_method()));
        let outbound = readiness.outbound.then_some((Readiness::OUTBOUND, "_write_ready"));
        for (direction, method) in inbound.into_iter().chain(outbound) {
            if direction.inbound && kind.watches_for_closed_reader() {
                self.log_closed_by_peer(source)?;
            }
            let started = Instant::now();
            self.serve(py, kind, source, direction)?;
            let seconds = started.elapsed().as_secs_f64();
            if self.is_slow(py, seconds)? {
                let names = names(py)?;
                let arguments = (source.bind(py), method, seconds);
                names.reports.bind(py).call_method1(&names.slow_io, arguments)?;
            }
        }
        Ok(())
    }
}
