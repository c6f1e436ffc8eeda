//! `PyHost`: the engine's interface to Python.
//!
//! Calls are handle objects; sources are transport and listener objects. Exceptions of user code go through
//! `mainspring._reports`, which builds asyncio's messages, to the loop's exception handler. Only `KeyboardInterrupt` and
//! `SystemExit` end the run, as in asyncio.

mod call;
mod nested;
mod running;
mod transports;

pub use call::{Call, Watch};

use super::source::Source;
use super::{NativeLoop, lanes, tasks, virtual_time};
use crate::errors;
use crate::handle::{Handle, HandleTypes};
use crate::names::names;
use crate::python::back_reference::BackReference;
use crate::python::interpreter::{attached, detached};
use crate::python::object::Obj;
use crate::tls::SharedBuffer;
use mainspring_engine::ready_queue::Lane;
use mainspring_engine::transport::TransportHost;
use mainspring_engine::{Host, Readiness};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// See the module comment. Part of the loop object.
pub struct PyHost {
    /// The loop object. `None` before the loop is bound.
    event_loop: Cell<Option<BackReference>>,
    debug: Cell<bool>,
    /// Whether `running` is set during each call.
    shows_running: Cell<bool>,
    /// Whether debug mode is on or `shows_running` is set: one check for each call.
    observed: Cell<bool>,
    /// The handle or source of the call that runs.
    running: Cell<Option<BackReference>>,
    /// Whether the garbage collector knows new handles: see `handle/object.rs`.
    tracks_handles: Cell<bool>,
    /// Whether the callback of a timeout runs.
    delivers_timeout: Cell<bool>,
    /// Whether the current run is a nested one.
    is_nested: Cell<bool>,
    /// Handles whose context was entered already when a nested run reached them. They run after the nested run.
    postponed: Cell<Vec<Call>>,
    types: &'static HandleTypes,
    ciphertext_buffer: SharedBuffer,
}

impl PyHost {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(PyHost {
            event_loop: Cell::new(None),
            debug: Cell::new(false),
            shows_running: Cell::new(false),
            observed: Cell::new(false),
            running: Cell::new(None),
            tracks_handles: Cell::new(true),
            delivers_timeout: Cell::new(false),
            is_nested: Cell::new(false),
            postponed: Cell::default(),
            types: HandleTypes::get(py)?,
            ciphertext_buffer: SharedBuffer::default(),
        })
    }

    /// The buffer that TLS receives into.
    pub fn ciphertext_buffer(&self) -> &SharedBuffer {
        &self.ciphertext_buffer
    }

    /// Sets the loop object that this host is part of.
    pub fn bind(&self, event_loop: &Bound<'_, PyAny>) {
        self.event_loop.set(Some(BackReference::new(event_loop)));
    }

    /// Whether `bind` was called, by the loop's `__init__()`.
    #[inline]
    pub fn is_bound(&self) -> bool {
        self.event_loop.get().is_some()
    }

    /// The loop object.
    pub fn event_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.event_loop.get().and_then(|event_loop| event_loop.bind(py)).ok_or_else(unbound)
    }

    pub fn types(&self) -> &'static HandleTypes {
        self.types
    }

    /// Whether the garbage collector knows new handles: not while the loop runs.
    #[inline]
    pub fn tracks_handles(&self) -> bool {
        self.tracks_handles.get()
    }

    /// Sets [`PyHost::tracks_handles`]. Returns the former value.
    pub fn set_tracks_handles(&self, tracks_handles: bool) -> bool {
        self.tracks_handles.replace(tracks_handles)
    }

    /// Whether the callback of a timeout runs: see [`lanes`].
    pub fn delivers_timeout(&self) -> bool {
        self.delivers_timeout.get()
    }

    /// Runs the callback of a timeout.
    pub fn while_delivering_timeout<R>(&self, run: impl FnOnce() -> R) -> R {
        let outer = self.delivers_timeout.replace(true);
        let result = run();
        self.delivers_timeout.set(outer);
        result
    }

    /// Reports the exception of a hook to the loop's exception handler. `Err` for an exception that ends the run.
    fn run_hook<'py>(&self, name: &str, arguments: impl PyCallArgs<'py>, py: Python<'py>) -> PyResult<()> {
        let event_loop = self.event_loop(py)?;
        let Err(error) = event_loop.call_method1(name, arguments) else { return Ok(()) };
        let error = pass_exit_exceptions(py, error)?;
        let arguments = (event_loop, name, error.into_value(py));
        names(py)?.reports.bind(py).call_method1("hook_failed", arguments).map(drop)
    }

    /// The traceback that a new handle stores in debug mode.
    pub fn source_traceback(&self, py: Python<'_>) -> PyResult<Option<Obj>> {
        if !self.debug.get() {
            return Ok(None);
        }
        let names = names(py)?;
        names.reports.bind(py).call_method0(&names.source_traceback).map(|traceback| Some(traceback.into()))
    }
}

/// The exception of a loop whose `__init__()` was not called. Its type is asyncio's.
#[cold]
pub fn unbound() -> PyErr {
    PyAttributeError::new_err("the event loop's __init__() was not called")
}

/// `Err` for an exception that ends the run.
fn pass_exit_exceptions(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    if errors::ends_the_run(py, &error) { Err(error) } else { Ok(error) }
}

impl Host for PyHost {
    type Call = Call;
    type Handle = Handle;
    type Watch = Watch;
    type Source = Obj;
    type Owner = BackReference;
    type Inbound = Handle;
    type Error = PyErr;

    fn run_call(&self, call: Call) -> PyResult<()> {
        let py = attached();
        let handle = match call {
            Call::Handle(handle) => handle,
            Call::Io(source, readiness) => return self.serve_io(py, &source, readiness),
        };
        self.types.unschedule(&handle);
        let result = match self.observed.get() {
            true => self.run_observed(py, &handle),
            false => self.run_and_report(py, &handle),
        };
        self.types.release(handle);
        result
    }

    #[inline]
    fn lane(&self, call: &Call) -> Lane {
        match call {
            Call::Handle(handle) if lanes::in_use() => lanes::of_handle(self.types, handle),
            _ => Lane::Normal,
        }
    }

    fn max_overdue(&self, call: &Call) -> Option<Duration> {
        lanes::max_overdue(self.types, call.handle()?)
    }

    fn io_ready(&self, source: Obj, readiness: Readiness) -> Option<Call> {
        Some(Call::Io(source, readiness))
    }

    fn scope_ended(&self, source: Obj) -> PyResult<()> {
        let py = attached();
        match Source::of(py, &source)?.scope_ended(py, &source) {
            Ok(()) => Ok(()),
            Err(error) => self.report(&source, error, "Exception while handling I/O"),
        }
    }

    fn displaced(&self, watch: Watch) {
        let py = attached();
        if let Err(error) = watch.cancel(py) {
            // There is no caller to raise this to.
            error.write_unraisable(py, Some(&watch.handle.as_obj().bind(py)));
        }
    }

    fn receive(&self, handle: Handle) -> Option<Call> {
        Some(handle.into())
    }

    fn may_shuffle(&self, call: &Call) -> bool {
        let task = call.handle().map(|handle| tasks::task_of(attached(), self.types, handle));
        matches!(task, Some(Ok(Some(_))))
    }

    fn waits_for_threads(&self) -> bool {
        virtual_time::waits_for_threads(attached(), self)
    }

    fn deadlocked(&self) -> PyResult<()> {
        let py = attached();
        self.event_loop(py)?.call_method0("_deadlocked").map(drop)
    }

    fn schedules(&self, call: &Call) -> PyResult<bool> {
        let Call::Handle(handle) = call else { return Ok(false) };
        let py = attached();
        let event_loop = Obj::from(self.event_loop(py)?);
        match NativeLoop::of(py, &event_loop) {
            Some(native) if native.overrides().affect_transports(py)? => {
                let arguments = (event_loop.bind(py), handle.as_obj().bind(py));
                names(py)?.reports.bind(py).call_method1("call_soon", arguments).map(|_| true)
            }
            _ => Ok(false),
        }
    }

    fn on_iteration_begin(&self) -> PyResult<()> {
        self.run_hook("on_iteration_begin", (), attached())
    }

    fn on_iteration_end(&self) -> PyResult<()> {
        self.run_hook("on_iteration_end", (), attached())
    }

    fn on_idle(&self, timeout: Option<Duration>) -> PyResult<()> {
        self.run_hook("on_idle", (timeout.map(|timeout| timeout.as_secs_f64()),), attached())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        detached(wait);
    }

    fn interrupted(&self) -> PyResult<()> {
        attached().check_signals()
    }

    fn os_error(&self, error: io::Error) -> PyErr {
        errors::os_error(attached(), error)
    }

    fn merge_errors(&self, first: PyErr, second: PyErr) -> PyErr {
        errors::merge(attached(), first, second)
    }
}
