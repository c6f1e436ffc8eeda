//! `PyHost`: the engine's view of Python.
//!
//! Calls are handle objects, sources are transport and listener objects. Everything user code raises is put into
//! asyncio's words by `mainspring._reports` and given to the loop's exception handler; only what asyncio lets through
//! (`KeyboardInterrupt`, `SystemExit`) ends the run.

use crate::errors;
use crate::event_loop::NativeLoop;
use crate::event_loop::source::Source;
use crate::handle::{self, CallParts, HandleTypes};
use crate::names::names;
use crate::python::object::Obj;
use crate::tls::{self, RoomCell};
use crate::transport::channel::{PyChannel, PyChunk};
use mainspring_engine::transport::{Notice, TransportHost};
use mainspring_engine::{Host, Readiness};
use pyo3::exceptions::{PyAttributeError, PyException, PyMemoryError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::io;
use std::time::Instant;

/// What watches a descriptor or a signal.
#[derive(Clone)]
pub struct Watch {
    /// The call.
    pub handle: Obj,
    /// The object that the descriptor was given as, unless it was a number. The watch keeps it alive, as asyncio's
    /// selector does, and is found by it when the object is closed and knows its number no more.
    pub file: Option<Obj>,
}

impl From<Obj> for Watch {
    fn from(handle: Obj) -> Self {
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
    Handle(Obj),
    /// The fd of a transport or listener is ready.
    Io(Obj, Readiness),
}

impl Call {
    /// The handle object, unless the call serves I/O.
    pub fn handle(&self) -> Option<&Obj> {
        match self {
            Call::Handle(handle) => Some(handle),
            Call::Io(..) => None,
        }
    }

    /// The object that the call keeps alive.
    pub fn object(&self) -> &Obj {
        match self {
            Call::Handle(object) | Call::Io(object, _) => object,
        }
    }
}

impl From<Obj> for Call {
    fn from(handle: Obj) -> Self {
        Call::Handle(handle)
    }
}

/// The face as the engine sees it. It lives inside the loop object.
pub struct PyHost {
    /// The loop object around this host: borrowed, since it cannot outlive that. Null before the loop is bound.
    event_loop: Cell<*mut ffi::PyObject>,
    debug: Cell<bool>,
    types: &'static HandleTypes,
    cipher_room: RoomCell,
    plain_room: RoomCell,
}

impl PyHost {
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(PyHost {
            event_loop: Cell::new(std::ptr::null_mut()),
            debug: Cell::new(false),
            types: HandleTypes::get(py)?,
            cipher_room: RoomCell::default(),
            plain_room: RoomCell::default(),
        })
    }

    /// Where TLS receives.
    pub fn cipher_room(&self) -> &RoomCell {
        &self.cipher_room
    }

    /// Where TLS decrypts.
    pub fn plain_room(&self) -> &RoomCell {
        &self.plain_room
    }

    /// Tells the host which object it lives in.
    pub fn bind(&self, event_loop: &Bound<'_, PyAny>) {
        self.event_loop.set(event_loop.as_ptr());
    }

    /// Whether `bind` was called, by the loop's `__init__()`.
    #[inline]
    pub fn is_bound(&self) -> bool {
        !self.event_loop.get().is_null()
    }

    pub fn is_debug(&self) -> bool {
        self.debug.get()
    }

    pub fn set_debug(&self, enabled: bool) {
        self.debug.set(enabled);
    }

    /// The loop object.
    pub fn event_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the pointer was set by the object this host lives in, and that object is alive.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, self.event_loop.get()) }.ok_or_else(unbound)
    }

    /// Says what a callback raised, in asyncio's words, to the exception handler. `Err` for what ends the loop.
    fn callback_failed(&self, py: Python<'_>, handle: &Obj, error: PyErr) -> PyResult<()> {
        let error = let_through(py, error)?;
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, handle.bind(py), error.into_value(py));
        names.reports.bind(py).call_method1(&names.callback_failed, arguments).map(drop)
    }

    fn run_in_debug_mode(&self, py: Python<'_>, handle: &Obj) -> PyResult<()> {
        let event_loop = self.event_loop(py)?;
        let names = names(py)?;
        event_loop.setattr(&names._current_handle, handle.bind(py))?;
        let started = Instant::now();
        let result = handle::run(py, self.types, handle);
        let seconds = started.elapsed().as_secs_f64();
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(py, handle, error),
        };
        errors::merge_outcomes(py, result, event_loop.setattr(&names._current_handle, py.None()))?;
        if self.is_slow(py, seconds)? {
            names.reports.bind(py).call_method1(&names.slow_callback, (handle.bind(py), seconds))?;
        }
        Ok(())
    }

    /// Whether debug mode has a word to say of what took so long.
    fn is_slow(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit: f64 = self.event_loop(py)?.getattr(&names(py)?.slow_callback_duration)?.extract()?;
        Ok(seconds >= limit)
    }

    fn serve_io(&self, py: Python<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        let kind = Source::of(py, source)?;
        if self.debug.get() {
            return self.serve_in_debug_mode(py, &kind, source, readiness);
        }
        self.serve(py, &kind, source, readiness)
    }

    fn serve(&self, py: Python<'_>, kind: &Source<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        match kind.io_ready(py, source, readiness) {
            Ok(()) => Ok(()),
            // As for any callback of asyncio's: one source's failure is no reason to stop serving the others.
            Err(error) => self.report(source, error, "Exception while handling I/O"),
        }
    }

    /// Each direction by itself: in asyncio they are two callbacks.
    #[cold]
    fn serve_in_debug_mode(
        &self,
        py: Python<'_>,
        kind: &Source<'_>,
        source: &Obj,
        readiness: Readiness,
    ) -> PyResult<()> {
        let inbound = readiness.inbound.then_some((Readiness::INBOUND, kind.reading_step()));
        let outbound = readiness.outbound.then_some((Readiness::OUTBOUND, "_write_ready"));
        for (direction, step) in inbound.into_iter().chain(outbound) {
            if direction.inbound && kind.waits_for_its_readers_end() {
                self.note_closed_by_peer(source)?;
            }
            let started = Instant::now();
            self.serve(py, kind, source, direction)?;
            let seconds = started.elapsed().as_secs_f64();
            if self.is_slow(py, seconds)? {
                let names = names(py)?;
                let arguments = (source.bind(py), step, seconds);
                names.reports.bind(py).call_method1(&names.slow_io, arguments)?;
            }
        }
        Ok(())
    }

    /// In debug mode, tells the log what a transport does or has met with.
    pub fn note(&self, source: &Obj, what: &str) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.note, (source.bind(py), what)).map(drop)
    }

    /// In debug mode, tells the log of a pipe whose other end is gone.
    fn note_closed_by_peer(&self, source: &Obj) -> PyResult<()> {
        if !self.debug.get() {
            return Ok(());
        }
        let py = attached();
        let names = names(py)?;
        names.reports.bind(py).call_method1(&names.closed_by_peer, (source.bind(py),)).map(drop)
    }

    /// A call of a deferred step.
    fn step(&self, source: &Obj, notice: Notice, argument: Option<Bound<'_, PyAny>>) -> PyResult<Obj> {
        let py = attached();
        // SAFETY: the loop object this host lives in is alive.
        if let Some(native) = unsafe { NativeLoop::from_ptr(py, self.event_loop.get()) } {
            // asyncio's call_soon() refuses: nobody would ever run it.
            native.check_closed()?;
        }
        let kind = Source::of(py, source)?;
        let callback = kind.step(py, source, notice)?;
        let argument = argument.as_ref().map(Bound::as_ptr);
        let traceback = self.source_traceback(py)?;
        let call = CallParts {
            event_loop: self.event_loop(py)?.as_ptr(),
            callback: callback.as_ptr(),
            args: argument.as_slice(),
            context: kind.context_for_steps(),
            source_traceback: traceback.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr),
        };
        // SAFETY: all are live objects, held by the bindings above.
        unsafe { handle::new_handle(py, call) }
    }

    /// Where the program stands, in debug mode: what a handle remembers.
    pub fn source_traceback<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !self.debug.get() {
            return Ok(None);
        }
        let names = names(py)?;
        names.reports.bind(py).call_method0(&names.source_traceback).map(Some)
    }
}

/// The exception of a loop whose `__init__()` was not called. Its type is asyncio's.
#[cold]
pub fn unbound() -> PyErr {
    PyAttributeError::new_err("the event loop's __init__() was not called")
}

/// The failures that asyncio lets through the loop come back as `Err`.
fn let_through(py: Python<'_>, error: PyErr) -> PyResult<PyErr> {
    if errors::ends_the_loop(py, &error) { Err(error) } else { Ok(error) }
}

/// A failure of the system's as Python raises it: the subclass of `OSError` that belongs to its number, with the
/// number in `errno`, which PyO3's own conversion leaves out.
pub fn os_error(py: Python<'_>, error: io::Error) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        let is_of_memory = error.kind() == io::ErrorKind::OutOfMemory;
        return if is_of_memory { out_of_memory() } else { error.into() };
    };
    match py.import("os").and_then(|os| os.call_method1("strerror", (number,))) {
        Ok(text) => PyOSError::new_err((number, text.unbind())),
        Err(failure) => failure,
    }
}

/// What there is no memory for.
pub fn out_of_memory() -> PyErr {
    PyMemoryError::new_err(())
}

/// The engine calls the host only on a thread that is attached: everything that runs the engine is called by the
/// interpreter.
fn attached<'py>() -> Python<'py> {
    // SAFETY: see above.
    unsafe { Python::assume_attached() }
}

impl Host for PyHost {
    type Call = Call;
    type Watch = Watch;
    type Source = Obj;
    type Inbound = Obj;
    type Error = PyErr;

    fn run_call(&self, call: Call) -> PyResult<()> {
        let py = attached();
        let handle = match call {
            Call::Handle(handle) => handle,
            Call::Io(source, readiness) => return self.serve_io(py, &source, readiness),
        };
        handle::unschedule(self.types, &handle);
        if self.debug.get() {
            return self.run_in_debug_mode(py, &handle);
        }
        match handle::run(py, self.types, &handle) {
            Ok(()) => Ok(()),
            Err(error) => self.callback_failed(py, &handle, error),
        }
    }

    fn io_ready(&self, source: Obj, readiness: Readiness) -> Option<Call> {
        Some(Call::Io(source, readiness))
    }

    fn turn_ended(&self, source: Obj) -> PyResult<()> {
        let py = attached();
        match Source::of(py, &source)?.turn_ended(py, &source) {
            Ok(()) => Ok(()),
            Err(error) => self.report(&source, error, "Exception while handling I/O"),
        }
    }

    fn displaced(&self, watch: Watch) {
        let handle = watch.handle.bind(attached());
        if let Err(error) = handle.call_method0("cancel") {
            // Nobody has asked for this; the interpreter shows it.
            error.write_unraisable(attached(), Some(&handle));
        }
    }

    fn receive(&self, inbound: Obj) -> Call {
        inbound.into()
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        // SAFETY: the thread is attached, and is again when this returns; `wait` touches no Python object. It
        // does not unwind: it is the engine's park, a system call.
        unsafe {
            let state = ffi::PyEval_SaveThread();
            wait();
            ffi::PyEval_RestoreThread(state);
        }
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

    fn notice(&self, source: &Obj, notice: Notice) -> PyResult<Call> {
        if notice == Notice::EofReceived {
            self.note_closed_by_peer(source)?;
        }
        let argument = (notice == Notice::ConnectionMade).then(|| source.bind(attached()));
        self.step(source, notice, argument).map(Call::Handle)
    }

    fn lost_notice(&self, source: &Obj, error: Option<&PyErr>) -> PyResult<Call> {
        let py = attached();
        let error = match error {
            Some(error) => {
                errors::keep(py, error);
                error.value(py).clone().into_any()
            }
            None => py.None().into_bound(py),
        };
        self.step(source, Notice::ConnectionLost, Some(error)).map(Call::Handle)
    }

    fn report(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<()> {
        let py = attached();
        let error = let_through(py, error)?;
        let names = names(py)?;
        let arguments = (self.event_loop(py)?, source.bind(py), error.into_value(py), message);
        names.reports.bind(py).call_method1(&names.transport_failed, arguments).map(drop)
    }

    fn report_fatal(&self, source: &Obj, error: PyErr, message: &str) -> PyResult<PyErr> {
        let py = attached();
        let error = let_through(py, error)?;
        if !error.is_instance_of::<PyException>(py) && tls::is_tls_transport(py, source)? {
            // As in asyncio: what is no `Exception` passes TLS, and is the transport's below, which reports it.
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
