//! `PyHost`: the engine's interface to Python.
//!
//! Calls are handle objects; sources are transport and listener objects. Exceptions of user code go through
//! `mainspring._reports`, which builds asyncio's messages, to the loop's exception handler. Only `KeyboardInterrupt` and
//! `SystemExit` end the run, as in asyncio.

use super::source::Source;
use super::{NativeLoop, lanes, tasks, virtual_time};
use crate::errors;
use crate::handle::{self, Callback, Handle, HandleTypes};
use crate::names::names;
use crate::python::back_reference::BackReference;
use crate::python::interpreter::{attached, detached};
use crate::python::object::Obj;
use crate::tls::{self, SharedBuffer};
use crate::transport::channel::PyChannel;
use crate::transport::write_data::PyChunk;
use mainspring_engine::ready_queue::Lane;
use mainspring_engine::transport::{DeferredCall, TransportHost};
use mainspring_engine::{Host, Readiness};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyAttributeError, PyException, PyMemoryError, PyOSError};
use pyo3::prelude::*;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// A reader, a writer or a signal handler.
#[derive(Clone)]
pub struct Watch {
    pub handle: Handle,
    /// The object that was passed to `add_reader()`, unless it was a number. As in asyncio's selector, the watch keeps it
    /// alive, and `remove_reader()` finds the watch by it when the object is closed and has no number any more.
    pub file: Option<Obj>,
}

impl Watch {
    /// Calls `cancel()` of the handle.
    pub fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.as_obj().bind(py).call_method0("cancel").map(drop)
    }
}

impl From<Handle> for Watch {
    fn from(handle: Handle) -> Self {
        Watch { handle, file: None }
    }
}

impl From<Watch> for Call {
    fn from(watch: Watch) -> Self {
        Call::Handle(watch.handle)
    }
}

/// What the loop runs.
pub enum Call {
    /// A handle object.
    Handle(Handle),
    /// The fd of a transport or listener is ready.
    Io(Obj, Readiness),
}

impl Call {
    /// The handle object, unless the call serves I/O.
    pub fn handle(&self) -> Option<&Handle> {
        match self {
            Call::Handle(handle) => Some(handle),
            Call::Io(..) => None,
        }
    }

    /// The object that the call keeps alive.
    pub fn object(&self) -> &Obj {
        match self {
            Call::Handle(handle) => handle.as_obj(),
            Call::Io(source, _) => source,
        }
    }
}

impl From<Handle> for Call {
    fn from(handle: Handle) -> Self {
        Call::Handle(handle)
    }
}

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
    /// Whether the callback of a timeout runs.
    delivers_timeout: Cell<bool>,
    /// Whether the current run is a nested one.
    is_nested: Cell<bool>,
    /// Handles whose context was entered already when a nested run reached them. They run after the nested run.
    postponed: Cell<Vec<Call>>,
    types: &'static HandleTypes,
    ciphertext_buffer: SharedBuffer,
    plaintext_buffer: SharedBuffer,
}

impl PyHost {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(PyHost {
            event_loop: Cell::new(None),
            debug: Cell::new(false),
            shows_running: Cell::new(false),
            observed: Cell::new(false),
            running: Cell::new(None),
            delivers_timeout: Cell::new(false),
            is_nested: Cell::new(false),
            postponed: Cell::default(),
            types: HandleTypes::get(py)?,
            ciphertext_buffer: SharedBuffer::default(),
            plaintext_buffer: SharedBuffer::default(),
        })
    }

    /// The buffer that TLS receives into.
    pub fn ciphertext_buffer(&self) -> &SharedBuffer {
        &self.ciphertext_buffer
    }

    /// The buffer that TLS decrypts into.
    pub fn plaintext_buffer(&self) -> &SharedBuffer {
        &self.plaintext_buffer
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

    pub fn types(&self) -> &'static HandleTypes {
        self.types
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

    /// Runs a handle in debug mode, or while other threads may ask for it.
    #[cold]
    fn run_observed(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        self.while_shown(handle.as_obj(), || match self.debug.get() {
            true => self.run_in_debug_mode(py, handle),
            false => self.run_and_report(py, handle),
        })
    }

    #[inline(always)]
    fn run_and_report(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        match self.run_handle(py, handle) {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(py, handle, error),
        }
    }

    /// A run begins. Returns whether the one around it is nested, for [`PyHost::end_run`].
    pub fn begin_run(&self, is_nested: bool) -> bool {
        self.is_nested.replace(is_nested)
    }

    /// A run ends. Returns the calls that it has postponed.
    pub fn end_run(&self, was_nested: bool) -> Vec<Call> {
        self.is_nested.set(was_nested);
        self.postponed.take()
    }

    /// Runs a handle in its context.
    fn run_handle(&self, py: Python<'_>, handle: &Handle) -> PyResult<()> {
        let is_postponed = |refused| self.postpones(py, handle, refused);
        lanes::run(self, handle, || handle::run(py, self.types, handle, is_postponed))
    }

    /// The context of a handle is entered already. In a nested run it was entered by a callback that waits for this run.
    /// The step of a task is then postponed; other callbacks run in a copy of the context. Otherwise this is an error, as
    /// in asyncio.
    #[cold]
    fn postpones(&self, py: Python<'_>, handle: &Handle, refused: PyErr) -> PyResult<bool> {
        if !self.is_nested.get() {
            return Err(refused);
        }
        if tasks::task_of(py, self.types, handle)?.is_none() {
            return Ok(false);
        }
        let mut postponed = self.postponed.take();
        let has_room = postponed.try_reserve(1).is_ok();
        if has_room {
            postponed.push(handle.clone().into());
        }
        self.postponed.set(postponed);
        if has_room { Ok(true) } else { Err(out_of_memory()) }
    }

    /// Reports the exception of a hook to the loop's exception handler. `Err` for an exception that ends the run.
    fn run_hook<'py>(&self, name: &str, arguments: impl PyCallArgs<'py>, py: Python<'py>) -> PyResult<()> {
        let event_loop = self.event_loop(py)?;
        let Err(error) = event_loop.call_method1(name, arguments) else { return Ok(()) };
        let error = pass_exit_exceptions(py, error)?;
        let arguments = (event_loop, name, error.into_value(py));
        names(py)?.reports.bind(py).call_method1("hook_failed", arguments).map(drop)
    }

    pub fn is_debug(&self) -> bool {
        self.debug.get()
    }

    pub fn set_debug(&self, enabled: bool) {
        self.debug.set(enabled);
        self.update_observed();
    }

    /// The loop object.
    pub fn event_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.event_loop.get().and_then(|event_loop| event_loop.bind(py)).ok_or_else(unbound)
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

    fn serve_io(&self, py: Python<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
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

    /// Logs an event of a transport in debug mode.
    pub fn log(&self, source: &Obj, event: &str) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.log_event, (source.bind(py), event)).map(drop)
    }

    /// Logs in debug mode that the other end of a pipe was closed.
    fn log_closed_by_peer(&self, source: &Obj) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.closed_by_peer, (source.bind(py),)).map(drop)
    }

    /// A handle for a deferred call.
    fn deferred_handle(
        &self,
        source: &Obj,
        deferred: DeferredCall,
        argument: Option<Obj>,
    ) -> PyResult<Handle> {
        let py = attached();
        let event_loop = Obj::from(self.event_loop(py)?);
        if let Some(native) = NativeLoop::of(py, &event_loop) {
            // As asyncio's call_soon(): a closed loop would never run the handle.
            native.check_closed()?;
        }
        let kind = Source::of(py, source)?;
        let callback = Obj::from(kind.deferred_method(py, source, deferred)?);
        let traceback = self.source_traceback(py)?;
        Callback {
            event_loop: &event_loop,
            callback: &callback,
            args: argument.as_slice(),
            context: kind.deferred_context(),
            source_traceback: traceback.as_ref(),
        }
        .new_handle(py)
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

/// A system error as Python raises it: the subclass of `OSError` for its number, with the number in `errno`, which PyO3's
/// own conversion leaves out.
pub fn os_error(py: Python<'_>, error: io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        let is_memory_error = error.kind() == io::ErrorKind::OutOfMemory;
        return if is_memory_error { out_of_memory() } else { error.into() };
    };
    match py.import("os").and_then(|os| os.call_method1("strerror", (number,))) {
        Ok(text) => PyOSError::new_err((number, text.unbind())),
        Err(failure) => failure,
    }
}

/// `MemoryError`.
pub fn out_of_memory() -> PyErr {
    PyMemoryError::new_err(())
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
        if self.observed.get() {
            return self.run_observed(py, &handle);
        }
        self.run_and_report(py, &handle)
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

    fn receive(&self, handle: Handle) -> Call {
        handle.into()
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
        os_error(attached(), error)
    }

    fn merge_errors(&self, first: PyErr, second: PyErr) -> PyErr {
        errors::merge(attached(), first, second)
    }
}

impl TransportHost for PyHost {
    type Channel = PyChannel;
    type Chunk = PyChunk;

    fn owner(&self, source: &Obj) -> Option<BackReference> {
        Some(BackReference::new(&source.bind(attached())))
    }

    fn deferred_call(&self, source: &Obj, deferred: DeferredCall) -> PyResult<Handle> {
        if deferred == DeferredCall::EofReceived {
            self.log_closed_by_peer(source)?;
        }
        let argument = (deferred == DeferredCall::ConnectionMade).then(|| source.clone());
        self.deferred_handle(source, deferred, argument)
    }

    fn deferred_connection_lost(&self, source: &Obj, error: Option<&PyErr>) -> PyResult<Handle> {
        let py = attached();
        let error = match error {
            Some(error) => {
                errors::prepare_for_traverse(py, error);
                Obj::from(error.value(py))
            }
            None => Obj::none(),
        };
        self.deferred_handle(source, DeferredCall::ConnectionLost, Some(error))
    }

    fn report(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<()> {
        let py = attached();
        let error = pass_exit_exceptions(py, error)?;
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, source.bind(py), error.into_value(py), message);
        names.reports.bind(py).call_method1(&names.transport_failed, arguments).map(drop)
    }

    fn report_fatal(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<PyErr> {
        let py = attached();
        let error = pass_exit_exceptions(py, error)?;
        if !error.is_instance_of::<PyException>(py) && tls::is_tls_transport(py, source)? {
            // As in asyncio, TLS passes a `BaseException` to the underlying transport, which reports it.
            return Err(error);
        }
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, source.bind(py), error.value(py), message);
        names.reports.bind(py).call_method1(&names.fatal_transport_error, arguments)?;
        Ok(error)
    }

    fn warn_write_after_loss(&self, source: &Obj) -> PyResult<()> {
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.warn_write_after_loss, (source.bind(py),)).map(drop)
    }
}
