//! `NativeLoop`: the object that holds the engine, and the base of the Python class `mainspring.Loop`.
//!
//! `mainspring.Loop` derives from this class and from `asyncio.BaseEventLoop`, in that order. The methods in this file
//! are called rarely, and PyO3 parses their arguments; those of `scheduling.rs` and `create_task.rs` run per callback.

mod clock;
pub mod create_task;
mod guest;
pub mod host;
pub mod lanes;
mod lookups;
pub mod monitoring;
mod overrides;
pub mod readers;
pub mod scheduling;
mod source;
mod tasks;
mod views;
mod virtual_time;

use crate::errors::os_error;
use crate::handle::{Callback, Handle, HandleTypes};
use crate::python::dealloc::ClassData;
use crate::python::gc;
use crate::python::guard::{catch_panic, catch_unwind};
use crate::python::interpreter::thread_ident;
use crate::python::object::{Obj, generic_setattr};
use crate::python::thread_exit;
use clock::{BaseClock, LoopClock};
use host::{Call, PyHost, Watch, unbound};
use mainspring_engine::name_lookup::LookupRules;
use mainspring_engine::{Direction, Engine, GcReference};
use monitoring::PyStallWatch;
use overrides::Overrides;
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

struct LoopState {
    engine: Engine<PyHost>,
    /// The identifier of the thread that runs the loop.
    running_in: Cell<Option<u64>>,
    overrides: Rc<Overrides>,
    base_clock: Rc<BaseClock>,
    /// See `create_task.rs`.
    task_keywords: Cell<Option<Py<PyDict>>>,
    lookup_rules: RefCell<LookupRules>,
}

/// See the module comment.
#[pyclass(module = "mainspring._mainspring", subclass, frozen)]
pub struct NativeLoop {
    state: ClassData<LoopState>,
}

impl NativeLoop {
    #[inline]
    pub fn engine(&self) -> &Engine<PyHost> {
        &self.state.engine
    }

    #[inline]
    pub fn is_debug(&self) -> bool {
        self.engine().host().is_debug()
    }

    /// Whether another thread runs the loop.
    pub fn runs_elsewhere(&self) -> bool {
        self.state.running_in.get().is_some_and(|thread| thread != thread_ident())
    }

    /// Runs the engine on this thread. Meanwhile calls from other threads go through the inbox, which wakes the loop.
    pub fn run_here<R>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&Engine<PyHost>) -> PyResult<R>,
    ) -> PyResult<R> {
        let engine = self.engine();
        engine.set_hooks(self.overrides().hooks(py)?);
        let outer = self.state.running_in.replace(Some(thread_ident()));
        let was_nested = engine.host().begin_run(engine.run_depth() > 0);
        let result = catch_panic(py, || run(engine));
        engine.put_back(engine.host().end_run(was_nested));
        self.state.running_in.set(outer);
        result
    }

    /// As [`NativeLoop::run_here`], and the garbage collector does not know new handles before the end of the run.
    fn run_to_end<R>(&self, py: Python<'_>, run: impl FnOnce(&Engine<PyHost>) -> PyResult<R>) -> PyResult<R> {
        let is_outermost = self.engine().host().set_tracks_handles(false);
        let result = self.run_here(py, run);
        if is_outermost {
            self.track_handles();
        }
        result
    }

    /// Makes all handles known to the garbage collector.
    fn track_handles(&self) {
        let host = self.engine().host();
        host.set_tracks_handles(true);
        self.engine().for_each_gc_reference(&mut |held| match held {
            GcReference::Call(Call::Handle(handle))
            | GcReference::Timer(handle)
            | GcReference::Inbound(handle) => host.types().track(handle),
            _ => {}
        });
    }

    /// Methods of the loop that Python code has replaced.
    pub fn overrides(&self) -> &Overrides {
        &self.state.overrides
    }

    /// The keywords that `create_task()` keeps for its next call.
    fn task_keywords(&self) -> &Cell<Option<Py<PyDict>>> {
        &self.state.task_keywords
    }

    /// The clock without a replaced `time()`.
    #[inline]
    pub fn base_clock(&self) -> &BaseClock {
        &self.state.base_clock
    }

    /// `RuntimeError` if the loop is closed, `AttributeError` if its `__init__()` was not called.
    #[inline]
    pub fn check_closed(&self) -> PyResult<()> {
        self.check_initialized()?;
        if self.engine().is_closed() {
            return Err(PyRuntimeError::new_err("Event loop is closed"));
        }
        Ok(())
    }

    /// `AttributeError` if `__init__()` was not called: asyncio's loop has none of its attributes then.
    #[inline]
    pub fn check_initialized(&self) -> PyResult<()> {
        if self.engine().host().is_bound() { Ok(()) } else { Err(unbound()) }
    }

    /// The native part of a loop object; `None` for an object of another type.
    #[inline]
    pub fn of<'a>(py: Python<'_>, event_loop: &'a Obj) -> Option<&'a NativeLoop> {
        event_loop.get_pyclass(py)
    }

    /// A handle for a reader, a writer or a signal handler, which is run many times.
    pub fn new_handle(
        slf: &Bound<'_, Self>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Handle> {
        let py = slf.py();
        let args: Vec<Obj> = args.iter().map(Obj::from).collect();
        let traceback = slf.get().engine().host().source_traceback(py)?;
        Callback {
            event_loop: &slf.into(),
            callback: &callback.into(),
            args: &args,
            context: None,
            source_traceback: traceback.as_ref(),
            is_tracked: true,
        }
        .new_handle(py)
    }

    /// An attribute of the instance was set, or deleted.
    fn instance_changed(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>, is_set: bool) -> PyResult<()> {
        let overrides = slf.get().overrides();
        if overrides.instance_changed(slf.as_any(), name, is_set)? {
            slf.get().engine().set_hooks(overrides.hooks(slf.py())?);
        }
        Ok(())
    }
}

#[pymethods]
impl NativeLoop {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        catch_unwind(|| {
            let backend = mainspring_engine::poller::open_epoll().map_err(|error| os_error(py, error))?;
            let overrides = Rc::<Overrides>::default();
            let base_clock = Rc::<BaseClock>::default();
            let clock = LoopClock::new(base_clock.clone(), overrides.clone());
            let engine = Engine::new(PyHost::new(py)?, backend, Box::new(clock));
            let engine = engine.map_err(|error| os_error(py, error))?;
            let state = LoopState {
                engine,
                running_in: Cell::new(None),
                overrides,
                base_clock,
                task_keywords: Cell::default(),
                lookup_rules: RefCell::default(),
            };
            Ok(NativeLoop { state: ClassData::new(state) })
        })
    }

    /// Sets the loop object of the engine's host. Called once, by `Loop.__init__`.
    fn _bind(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| {
            slf.get().engine().host().bind(slf.as_any());
            slf.get().overrides().bind(slf.as_any())
        })
    }

    fn __setattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        catch_unwind(|| {
            generic_setattr(slf, name, Some(value))?;
            Self::instance_changed(slf, name, true)
        })
    }

    fn __delattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>) -> PyResult<()> {
        catch_unwind(|| {
            generic_setattr(slf, name, None)?;
            Self::instance_changed(slf, name, false)
        })
    }

    /// Runs iterations until stop(): the native part of run_forever().
    fn _run_native(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| {
            slf.get().check_closed()?;
            slf.get().run_to_end(slf.py(), Engine::run_forever)
        })
    }

    /// As `_run_native`, but returns True as soon as nothing is pending; False if it was stopped first.
    fn _run_native_until_idle(slf: &Bound<'_, Self>) -> PyResult<bool> {
        catch_unwind(|| {
            slf.get().check_closed()?;
            slf.get().run_to_end(slf.py(), Engine::run_until_idle)
        })
    }

    /// Runs one iteration of the loop.
    fn _run_once(slf: &Bound<'_, Self>) -> PyResult<()> {
        catch_unwind(|| slf.get().run_here(slf.py(), Engine::run_once))
    }

    /// The depth of the current run: 0 if the loop is not running, 2 or more in a nested run.
    fn _run_depth(&self) -> usize {
        thread_exit::guard();
        self.engine().run_depth()
    }

    /// Stops the run at this depth after its current iteration.
    fn _stop_run(&self, depth: usize) {
        thread_exit::guard();
        self.engine().stop_run(depth);
    }

    /// The file descriptor that is readable while the loop has an event. For a host that drives the loop.
    fn fileno(&self) -> PyResult<RawFd> {
        catch_unwind(|| guest::fileno(self))
    }

    /// How long a host may wait for fileno(), in seconds; None: without limit. Called before each wait.
    fn next_timeout(&self) -> PyResult<Option<f64>> {
        catch_unwind(|| guest::next_timeout(self))
    }

    /// Waits for events, at most for `timeout` seconds, and returns them for process_events().
    #[pyo3(signature = (timeout=None))]
    fn poll_events(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<(u64, u8)>> {
        catch_unwind(|| guest::poll_events(self, py, timeout))
    }

    /// Makes the callbacks of events ready.
    fn process_events(&self, py: Python<'_>, events: Vec<(u64, u8)>) -> PyResult<()> {
        catch_unwind(|| guest::process_events(self, py, &events))
    }

    /// Runs the callbacks that are ready now: the native part of process_ready(). False after stop().
    fn _process_ready(&self, py: Python<'_>) -> PyResult<bool> {
        catch_unwind(|| {
            self.check_closed()?;
            self.run_here(py, Engine::process_ready)
        })
    }

    /// Closes the engine, and drops everything that it holds.
    fn _close_native(&self) {
        thread_exit::guard();
        drop(self.task_keywords().take());
        drop(self.engine().close());
    }

    /// Separates the loop of a forked child from the loop of its parent.
    fn _after_fork(&self, py: Python<'_>) -> PyResult<()> {
        catch_unwind(|| {
            // The run may never end in the child.
            self.track_handles();
            self.engine()
                .after_fork(mainspring_engine::poller::open_epoll)
                .map_err(|error| os_error(py, error))
        })
    }

    /// Stop run_forever() after the current iteration.
    fn stop(&self) {
        thread_exit::guard();
        self.engine().stop();
    }

    /// Switches debug mode of the engine on or off.
    fn _set_debug_native(&self, enabled: bool) {
        thread_exit::guard();
        self.engine().host().set_debug(enabled);
    }

    /// The file descriptor for signal.set_wakeup_fd().
    fn _signal_fd(&self) -> PyResult<RawFd> {
        catch_unwind(|| {
            self.check_closed()?;
            let pipe = self.engine().signal_pipe();
            pipe.map(|pipe| pipe.write_fd()).ok_or_else(|| PyRuntimeError::new_err("Event loop is closed"))
        })
    }

    /// Calls `callback(*args)` in the loop for each `signal` that arrives through _signal_fd(). Returns the handle.
    #[pyo3(signature = (signal, callback, *args))]
    fn _set_signal(
        slf: &Bound<'_, Self>,
        signal: i32,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        catch_unwind(|| {
            let handle = Self::new_handle(slf, callback, args)?;
            drop(slf.get().engine().set_signal(signal, handle.clone().into()));
            Ok(handle.as_obj().bind(slf.py()).unbind())
        })
    }

    /// Removes the callback of a signal. Returns whether there was one.
    fn _remove_signal(&self, signal: i32) -> bool {
        thread_exit::guard();
        self.engine().remove_signal(signal).is_some()
    }

    /// Start watching the file descriptor for read availability, and call the callback then.
    #[pyo3(signature = (fd, callback, *args))]
    fn _add_reader(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        catch_unwind(|| readers::add(slf, fd, Direction::Inbound, callback, args))
    }

    /// Start watching the file descriptor for write availability, and call the callback then.
    #[pyo3(signature = (fd, callback, *args))]
    fn _add_writer(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        catch_unwind(|| readers::add(slf, fd, Direction::Outbound, callback, args))
    }

    /// Stop watching the file descriptor for read availability. Returns whether it was watched.
    fn _remove_reader(slf: &Bound<'_, Self>, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        catch_unwind(|| readers::remove(slf, fd, Direction::Inbound))
    }

    /// Stop watching the file descriptor for write availability. Returns whether it was watched.
    fn _remove_writer(slf: &Bound<'_, Self>, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        catch_unwind(|| readers::remove(slf, fd, Direction::Outbound))
    }

    /// Raises RuntimeError if a transport that is not closing uses the file descriptor.
    fn _ensure_fd_no_transport(&self, fd: &Bound<'_, PyAny>) -> PyResult<()> {
        catch_unwind(|| {
            self.check_initialized()?;
            readers::ensure_no_transport(self, fd)
        })
    }

    /// Whether socket.getaddrinfo() may wait for something with these arguments.
    fn _lookup_can_block(
        &self,
        host: &Bound<'_, PyAny>,
        port: &Bound<'_, PyAny>,
        family: &Bound<'_, PyAny>,
        flags: &Bound<'_, PyAny>,
    ) -> bool {
        thread_exit::guard();
        lookups::can_block(&self.state.lookup_rules, host, port, family, flags)
    }

    /// The handles of the ready queue, in the order in which they run.
    fn _ready_handles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        catch_unwind(|| views::ready_handles(self.engine(), py))
    }

    /// The handles of the timers, in no order.
    fn _timer_handles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        catch_unwind(|| views::timer_handles(self.engine(), py))
    }

    /// The registered file descriptors: (fd, is_writer, file object or None, handle or transport).
    fn _registrations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        catch_unwind(|| views::registrations(self.engine(), py))
    }

    /// Serves a transport as if the kernel had reported that it can be read, or written.
    fn _handle_io(&self, transport: &Bound<'_, PyAny>, writes: bool) -> PyResult<()> {
        catch_unwind(|| views::serve(transport, writes))
    }

    /// Whether I/O is served before each ready handle, not once per iteration.
    fn _set_io_first(&self, io_first: bool) {
        thread_exit::guard();
        self.engine().set_io_first(io_first);
    }

    /// A background task whose next step is queued was cancelled: moves the step to the normal lane.
    fn _recheck_background(&self) {
        thread_exit::guard();
        self.engine().recheck_background();
    }

    /// Replaces the clock by a virtual one that shows `start` seconds. Before the loop runs.
    fn _use_virtual_clock(&self, start: f64) -> PyResult<()> {
        catch_unwind(|| virtual_time::use_virtual_clock(self, start))
    }

    /// Moves the virtual clock.
    fn _advance_clock(&self, seconds: f64) -> PyResult<()> {
        catch_unwind(|| virtual_time::advance_clock(self, seconds))
    }

    /// Shuffles what asyncio leaves unordered, and with `ready` also the task steps of one iteration.
    fn _shuffle(&self, py: Python<'_>, seed: u64, ready: bool) -> PyResult<()> {
        catch_unwind(|| virtual_time::shuffle(py, self, seed, ready))
    }

    /// A job has begun in a thread or process: a virtual clock waits for it.
    fn _begin_work(&self) {
        thread_exit::guard();
        self.engine().inbox().begin_work();
    }

    /// Ends one _begin_work().
    fn _end_work(&self) {
        thread_exit::guard();
        self.engine().inbox().end_work();
    }

    /// Starts a watch for callbacks that take longer than `limit` seconds, and ends the former one.
    fn _new_stall_watch(&self, limit: f64) -> PyResult<PyStallWatch> {
        catch_unwind(|| {
            self.check_closed()?;
            self.engine().host().show_running_calls();
            match Duration::try_from_secs_f64(limit) {
                Ok(limit) if !limit.is_zero() => Ok(PyStallWatch::new(self.engine().watch_stalls(limit))),
                _ => Err(PyValueError::new_err(format!("limit must be a positive number, not {limit}"))),
            }
        })
    }

    /// Ends the watch for stalls.
    fn _end_stall_watch(&self) {
        thread_exit::guard();
        self.engine().unwatch_stalls();
    }

    /// Lets _running_call() return a value from now on.
    fn _show_running_calls(&self) {
        thread_exit::guard();
        self.engine().host().show_running_calls();
    }

    /// Whether the loop runs and does not wait for events.
    fn _is_awake(&self) -> bool {
        thread_exit::guard();
        self.engine().is_awake()
    }

    /// The handle or transport that the loop runs; None between two of them.
    fn _running_call<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        thread_exit::guard();
        self.engine().host().running_call(py)
    }

    /// The counters of the engine, by name.
    fn _counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        catch_unwind(|| monitoring::metrics(self.engine(), py))
    }

    /// The transports that own a file descriptor.
    fn _open_transports<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        catch_unwind(|| monitoring::transports(self.engine(), py))
    }

    /// Empties the ready queue.
    fn _clear_ready(&self) {
        thread_exit::guard();
        let types = self.engine().host().types();
        for call in self.engine().take_ready() {
            if let Call::Handle(handle) = call {
                types.release(handle);
            }
        }
    }

    /// Removes all timers.
    fn _clear_timers(&self) {
        thread_exit::guard();
        let types = self.engine().host().types();
        self.engine().take_timers().into_iter().for_each(|timer| types.release(timer));
    }

    /// Whether stop() was called and the run has not ended yet.
    #[getter(_stopping)]
    fn is_stopping(&self) -> bool {
        thread_exit::guard();
        self.engine().is_stopping()
    }

    #[setter(_stopping)]
    fn set_stopping(&self, stopping: bool) {
        thread_exit::guard();
        match stopping {
            true => self.engine().stop(),
            false => self.engine().cancel_stop(),
        }
    }

    /// The numbers of ready handles, timers and registered file descriptors.
    fn _counts(&self) -> (usize, usize, usize) {
        thread_exit::guard();
        let engine = self.engine();
        (engine.ready_len(), engine.timers_len(), engine.registered_len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(state) = self.state.get() else { return Ok(()) };
        if !state.engine.host().tracks_handles() {
            // The loop runs, so it is alive, and so is everything that it refers to.
            return Ok(());
        }
        let keywords = state.task_keywords.take();
        let mut result = keywords.as_ref().map_or(Ok(()), |keywords| visit.call(keywords));
        state.task_keywords.set(keywords);
        state.engine.for_each_gc_reference(&mut |held| {
            let (object, file) = match held {
                GcReference::Source(object) => (object, None),
                GcReference::Call(call) => (call.object(), None),
                GcReference::Timer(timer) => (timer.as_obj(), None),
                GcReference::Inbound(handle) => (handle.as_obj(), None),
                GcReference::Watch(Watch { handle, file }) => (handle.as_obj(), file.as_ref()),
            };
            for object in std::iter::once(object).chain(file) {
                if result.is_ok() {
                    result = gc::visit(&visit, object);
                }
            }
        });
        result
    }

    fn __clear__(&self) {
        thread_exit::guard();
        if let Some(state) = self.state.get() {
            drop(state.task_keywords.take());
            drop(state.engine.close());
        }
    }
}

/// Adds the handle types to the module.
pub fn add_handle_types(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let types = HandleTypes::get(module.py())?;
    module.add("Handle", types.handle_class())?;
    module.add("TimerHandle", types.timer_class())?;
    Ok(())
}
