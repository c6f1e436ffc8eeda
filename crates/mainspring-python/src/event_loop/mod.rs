//! `NativeLoop`: the object that holds the engine, base of the Python class `mainspring.Loop`.
//!
//! Scheduling is in `scheduling.rs`, called by hand-made entry points; what is here runs rarely enough for PyO3's
//! own. `mainspring.Loop` derives from this class and from `asyncio.BaseEventLoop`, in that order.

pub mod clock;
pub mod create_task;
pub mod fd_owners;
pub mod host;
mod loop_method;
pub mod overrides;
pub mod scheduling;
pub mod source;

use crate::event_loop::clock::LoopClock;
use crate::event_loop::fd_owners::FdOwners;
use crate::event_loop::host::{PyHost, Watch, os_error};
use crate::event_loop::overrides::Overrides;
use crate::event_loop::source::Source;
use crate::handle::{self, CallParts, HandleTypes};
use crate::python::dealloc::ClassData;
use crate::python::method::{catch, guarded};
use crate::python::object::Obj;
use crate::python::thread_exit;
use mainspring_engine::{Direction, Engine, Held, Readiness};
use pyo3::PyTraverseError;
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyTuple};
use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;

/// The engine and what the face remembers beside it.
struct LoopState {
    engine: Engine<PyHost>,
    /// The thread that runs the loop at this moment, as the interpreter numbers them.
    running_in: Cell<Option<u64>>,
    overrides: Rc<Overrides>,
    owners: Rc<FdOwners>,
}

// SAFETY: the interpreter lock is held by every thread that gets here, and is let go of only in `PyHost::blocking`,
// while no part of the engine is borrowed (the engine's own rule). So the cells are used by one thread at a time, and
// the lock orders their uses.
unsafe impl Send for LoopState {}
// SAFETY: as above.
unsafe impl Sync for LoopState {}

/// See the module's text.
#[pyclass(module = "mainspring._mainspring", subclass, frozen)]
pub struct NativeLoop {
    state: ClassData<LoopState>,
}

impl NativeLoop {
    pub fn engine(&self) -> &Engine<PyHost> {
        &self.state.engine
    }

    pub fn is_debug(&self) -> bool {
        self.engine().host().is_debug()
    }

    /// Whether another thread than this one runs the loop.
    pub fn runs_elsewhere(&self) -> bool {
        self.state.running_in.get().is_some_and(|thread| thread != current_thread())
    }

    /// Runs the engine on this thread. While it runs, calls from other threads go through the inbox, which wakes it.
    fn run_here(&self, py: Python<'_>, run: impl FnOnce(&Engine<PyHost>) -> PyResult<()>) -> PyResult<()> {
        let outer = self.state.running_in.replace(Some(current_thread()));
        let result = catch(py, || run(self.engine()));
        self.state.running_in.set(outer);
        result
    }

    /// What Python code replaced of the loop.
    pub fn overrides(&self) -> &Overrides {
        &self.state.overrides
    }

    /// Which transport has which descriptor.
    pub fn owners(&self) -> &Rc<FdOwners> {
        &self.state.owners
    }

    /// `RuntimeError` if the loop is closed, `AttributeError` if its `__init__()` was not called.
    pub fn check_closed(&self) -> PyResult<()> {
        self.check_initialized()?;
        if self.engine().is_closed() {
            return Err(PyRuntimeError::new_err("Event loop is closed"));
        }
        Ok(())
    }

    /// `AttributeError` if `__init__()` was not called: asyncio's loop has none of its attributes then.
    pub fn check_initialized(&self) -> PyResult<()> {
        if self.engine().host().is_bound() { Ok(()) } else { Err(unbound()) }
    }

    /// The native part of a loop object; `None` for an object of another kind.
    ///
    /// # Safety
    /// `event_loop` is null or a live object that outlives `'a`.
    pub unsafe fn from_ptr<'a>(py: Python<'a>, event_loop: *mut ffi::PyObject) -> Option<&'a NativeLoop> {
        // SAFETY: the caller's promise. The class is frozen, so a shared reference is all there ever is.
        unsafe {
            let object = Borrowed::from_ptr_or_opt(py, event_loop)?;
            let native = object.cast::<NativeLoop>().ok()?.get();
            Some(&*std::ptr::from_ref(native))
        }
    }

    /// A handle for a call that I/O or a signal makes ready, again and again.
    pub fn new_call(
        slf: &Bound<'_, Self>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Obj> {
        let py = slf.py();
        let args: Vec<_> = args.iter_borrowed().map(|argument| argument.as_ptr()).collect();
        let traceback = slf.get().engine().host().source_traceback(py)?;
        let call = CallParts {
            event_loop: slf.as_ptr(),
            callback: callback.as_ptr(),
            args: &args,
            context: std::ptr::null_mut(),
            source_traceback: traceback.as_ref().map_or(std::ptr::null_mut(), Bound::as_ptr),
        };
        // SAFETY: live objects, borrowed from the arguments of this call, and a traceback that is held above.
        unsafe { handle::new_handle(py, call) }
    }

    fn watch(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        direction: Direction,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Obj> {
        let py = slf.py();
        let this = slf.get();
        this.check_closed()?;
        let file = (!fd.is_instance_of::<PyInt>()).then(|| Obj::from(fd.clone()));
        let fd = file_descriptor(fd)?;
        this.owners().check_free(py, this.engine(), fd)?;
        let handle = Self::new_call(slf, callback, args)?;
        let watch = Watch { handle: handle.clone(), file };
        let replaced = match this.engine().watch(fd, direction, watch) {
            Ok(replaced) => replaced,
            Err(error) => return Err(watch_error(py, this.engine(), fd, error)?),
        };
        if let Some(replaced) = replaced {
            replaced.handle.bind(py).call_method0("cancel")?;
        }
        Ok(handle)
    }

    /// The descriptor that is watched as this object, which may be closed by now.
    fn watched_as(&self, file: &Bound<'_, PyAny>) -> Option<RawFd> {
        let mut found = None;
        self.engine().for_each_registered(&mut |fd, _, held| {
            if let Held::Watch(Watch { file: Some(watched), .. }) = held
                && watched.as_ptr() == file.as_ptr()
            {
                found = Some(fd);
            }
        });
        found
    }

    fn unwatch(slf: &Bound<'_, Self>, fd: &Bound<'_, PyAny>, direction: Direction) -> PyResult<bool> {
        let this = slf.get();
        if this.engine().is_closed() {
            return Ok(false);
        }
        let fd = match file_descriptor(fd) {
            Ok(fd) => fd,
            // Too large to be open, so nobody watches it.
            Err(error) if error.is_instance_of::<PyOverflowError>(slf.py()) => return Ok(false),
            Err(error) if error.is_instance_of::<PyValueError>(slf.py()) => {
                this.watched_as(fd).ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        this.owners().check_free(slf.py(), this.engine(), fd)?;
        match this.engine().unwatch(fd, direction) {
            Ok(Some(watch)) => watch.handle.bind(slf.py()).call_method0("cancel").map(|_| true),
            Ok(None) => Ok(false),
            Err(error) => Err(watch_error(slf.py(), this.engine(), fd, error)?),
        }
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
        guarded(|| {
            let backend = mainspring_engine::poller::open_epoll().map_err(|error| os_error(py, error))?;
            let overrides = Rc::<Overrides>::default();
            let clock = LoopClock::new(overrides.clone());
            let engine = Engine::new(PyHost::new(py)?, backend, Box::new(clock));
            let engine = engine.map_err(|error| os_error(py, error))?;
            let state = LoopState { engine, running_in: Cell::new(None), overrides, owners: Rc::default() };
            Ok(NativeLoop { state: ClassData::new(state) })
        })
    }

    /// Ties the engine to this object. Called once, by `Loop.__init__`.
    fn _bind(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| {
            slf.get().engine().host().bind(slf.as_any());
            slf.get().overrides().bind(slf.as_any())
        })
    }

    fn __setattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            overrides::set_attribute(slf, name, value.as_ptr())?;
            if Overrides::concern(name) { slf.get().overrides().look(slf.as_any()) } else { Ok(()) }
        })
    }

    fn __delattr__(slf: &Bound<'_, Self>, name: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            overrides::set_attribute(slf, name, std::ptr::null_mut())?;
            if Overrides::concern(name) { slf.get().overrides().look(slf.as_any()) } else { Ok(()) }
        })
    }

    /// Runs passes until `stop()`; `run_forever()` without what asyncio does around it.
    fn _run_native(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| {
            slf.get().check_closed()?;
            slf.get().run_here(slf.py(), Engine::run_forever)
        })
    }

    /// One pass of the loop, for those who drive it by hand.
    fn _run_once(slf: &Bound<'_, Self>) -> PyResult<()> {
        guarded(|| slf.get().run_here(slf.py(), Engine::run_once))
    }

    /// Lets go of everything the engine holds; the loop is closed from here on.
    fn _close_native(&self) {
        thread_exit::guard();
        drop(self.engine().close());
    }

    /// Parts the loop from the one of the process that forked this one.
    fn _after_fork(&self, py: Python<'_>) -> PyResult<()> {
        guarded(|| {
            self.engine()
                .after_fork(mainspring_engine::poller::open_epoll)
                .map_err(|error| os_error(py, error))
        })
    }

    /// Stop run_forever() after the pass that is under way.
    fn stop(&self) {
        thread_exit::guard();
        self.engine().stop();
    }

    /// Tells the engine whether debug mode is on.
    fn _set_debug_native(&self, enabled: bool) {
        thread_exit::guard();
        self.engine().host().set_debug(enabled);
    }

    /// The descriptor that signal.set_wakeup_fd() is given.
    fn _signal_fd(&self) -> PyResult<RawFd> {
        guarded(|| {
            self.check_closed()?;
            let pipe = self.engine().signal_pipe();
            pipe.map(|pipe| pipe.write_fd()).ok_or_else(|| PyRuntimeError::new_err("Event loop is closed"))
        })
    }

    /// Calls `callback(*args)` in the loop for each `signal` that comes through the descriptor; gives the handle.
    #[pyo3(signature = (signal, callback, *args))]
    fn _set_signal(
        slf: &Bound<'_, Self>,
        signal: i32,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        guarded(|| {
            let handle = Self::new_call(slf, callback, args)?;
            drop(slf.get().engine().set_signal(signal, handle.clone().into()));
            Ok(handle.bind(slf.py()).unbind())
        })
    }

    /// Forgets the callback for a signal; whether there was one.
    fn _remove_signal(&self, signal: i32) -> bool {
        thread_exit::guard();
        self.engine().remove_signal(signal).is_some()
    }

    /// Start watching the file descriptor for read availability and call the callback then.
    #[pyo3(signature = (fd, callback, *args))]
    fn _add_reader(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        guarded(|| {
            Self::watch(slf, fd, Direction::Inbound, callback, args)
                .map(|handle| handle.bind(slf.py()).unbind())
        })
    }

    /// Start watching the file descriptor for write availability and call the callback then.
    #[pyo3(signature = (fd, callback, *args))]
    fn _add_writer(
        slf: &Bound<'_, Self>,
        fd: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        guarded(|| {
            Self::watch(slf, fd, Direction::Outbound, callback, args)
                .map(|handle| handle.bind(slf.py()).unbind())
        })
    }

    /// Stop watching the file descriptor for read availability; whether it was watched.
    fn _remove_reader(slf: &Bound<'_, Self>, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        guarded(|| Self::unwatch(slf, fd, Direction::Inbound))
    }

    /// Stop watching the file descriptor for write availability; whether it was watched.
    fn _remove_writer(slf: &Bound<'_, Self>, fd: &Bound<'_, PyAny>) -> PyResult<bool> {
        guarded(|| Self::unwatch(slf, fd, Direction::Outbound))
    }

    /// Raises `RuntimeError` if a transport that is not closing has the descriptor.
    fn _ensure_fd_no_transport(&self, fd: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| {
            self.check_initialized()?;
            match file_number(fd)?.extract() {
                Ok(number) => self.owners().check_free_named(self.engine(), number, fd),
                // No descriptor has such a number.
                Err(_) => Ok(()),
            }
        })
    }

    /// The handles of the calls that are ready, in the order in which they run.
    fn _ready_handles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        guarded(|| {
            let mut handles = Vec::new();
            self.engine().for_each_ready(&mut |held| {
                let handle = match held {
                    Held::Call(call) => call.handle(),
                    Held::Inbound(handle) => Some(handle),
                    Held::Watch(_) | Held::Source(_) => None,
                };
                handles.extend(handle.cloned());
            });
            list(py, handles)
        })
    }

    /// The handles of the calls that wait for their time, in no order.
    fn _timer_handles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        guarded(|| {
            let mut handles = Vec::new();
            self.engine().for_each_timer(&mut |call| handles.extend(call.handle().cloned()));
            list(py, handles)
        })
    }

    /// What the kernel is asked about: descriptors, whether to write, the file objects they were given as, and the handles
    /// or transports that are served.
    fn _registrations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        guarded(|| {
            let mut found = Vec::new();
            self.engine().for_each_registered(&mut |fd, direction, held| {
                let (file, object) = match held {
                    Held::Watch(Watch { handle, file }) => (file.clone(), handle.clone()),
                    Held::Call(call) => (None, call.object().clone()),
                    Held::Source(object) | Held::Inbound(object) => (None, object.clone()),
                };
                found.push((fd, direction == Direction::Outbound, file, object));
            });
            let entries = found.iter().map(|(fd, writes, file, object)| {
                let file = file.as_ref().map(|file| file.bind(py));
                (*fd, *writes, file, object.bind(py)).into_pyobject(py)
            });
            PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)
        })
    }

    /// Serves a transport as if the kernel had told that it can be read, or written.
    fn _serve(&self, transport: &Bound<'_, PyAny>, writes: bool) -> PyResult<()> {
        guarded(|| {
            let py = transport.py();
            let source = Obj::from(transport.clone());
            let readiness = if writes { Readiness::OUTBOUND } else { Readiness::INBOUND };
            Source::of(py, &source)?.io_ready(py, &source, readiness)
        })
    }

    /// Forgets every call that is ready.
    fn _clear_ready(&self) {
        thread_exit::guard();
        drop(self.engine().take_ready());
    }

    /// Forgets every call that waits for its time.
    fn _clear_timers(&self) {
        thread_exit::guard();
        drop(self.engine().take_timers());
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

    /// How many calls are ready, timers wait, and descriptors are registered.
    fn _counts(&self) -> (usize, usize, usize) {
        thread_exit::guard();
        let engine = self.engine();
        (engine.ready_len(), engine.timers_len(), engine.registered_len())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(state) = self.state.get() else { return Ok(()) };
        let mut result = Ok(());
        state.engine.for_each_held(&mut |held| {
            let (object, file) = match held {
                Held::Call(call) => (call.object(), None),
                Held::Source(object) | Held::Inbound(object) => (object, None),
                Held::Watch(Watch { handle, file }) => (handle, file.as_ref()),
            };
            for object in std::iter::once(object).chain(file) {
                if result.is_ok() {
                    result = visit_obj(&visit, object);
                }
            }
        });
        result
    }

    fn __clear__(&self) {
        thread_exit::guard();
        if let Some(state) = self.state.get() {
            drop(state.engine.close());
        }
    }
}

/// Why a descriptor cannot be watched: it is a transport's own, or what the system says.
pub fn watch_error(py: Python<'_>, engine: &Engine<PyHost>, fd: RawFd, error: io::Error) -> PyResult<PyErr> {
    if error.kind() != io::ErrorKind::ResourceBusy || error.raw_os_error().is_some() {
        return Ok(os_error(py, error));
    }
    let owner = match engine.source_of(fd) {
        Some(owner) => format!("transport {}", owner.bind(py).repr()?),
        // Nobody has its name while it asks for nothing: a listener that rests.
        None => "a server".to_owned(),
    };
    Ok(PyRuntimeError::new_err(format!("File descriptor {fd} is used by {owner}")))
}

fn list<'py>(py: Python<'py>, objects: Vec<Obj>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, objects.iter().map(|object| object.bind(py)))
}

/// Shows an `Obj` to the garbage collector.
pub fn visit_obj(visit: &PyVisit<'_>, object: &Obj) -> Result<(), PyTraverseError> {
    // SAFETY: `Py<PyAny>` is a transparent pointer to an object that is not null, as is `Obj`; the borrow ends
    // with this call, and the visitor takes no reference.
    let object = unsafe { &*std::ptr::from_ref(object).cast::<Py<PyAny>>() };
    visit.call(object)
}

/// Shows an object that is referred to without an `Obj`, or nothing if the pointer is null.
pub fn visit_ptr(visit: &PyVisit<'_>, object: *mut ffi::PyObject) -> Result<(), PyTraverseError> {
    if object.is_null() {
        return Ok(());
    }
    // SAFETY: as above; the pointer is not null.
    let object = unsafe { &*(&raw const object).cast::<Py<PyAny>>() };
    visit.call(object)
}

fn current_thread() -> u64 {
    // SAFETY: always allowed.
    unsafe { ffi::PyThread_get_thread_ident() as u64 }
}

/// The number that is given, or that an object's `fileno()` gives; asyncio's errors for everything else.
fn file_number<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyInt>() {
        return Ok(object.clone());
    }
    let py = object.py();
    let number = object.call_method0("fileno").and_then(|number| py.get_type::<PyInt>().call1((number,)));
    number.or_else(|error| {
        if error.is_instance_of::<PyAttributeError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
        {
            return Err(PyValueError::new_err(format!("Invalid file object: {}", object.repr()?)));
        }
        Err(error)
    })
}

/// The descriptor that a number or an object with `fileno()` stands for.
pub fn file_descriptor(object: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let number = file_number(object)?;
    if number.lt(0)? {
        return Err(PyValueError::new_err(format!("Invalid file descriptor: {number}")));
    }
    number.extract()
}

/// Makes the handle types known to the module, by name.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let types = HandleTypes::get(module.py())?;
    module.add("Handle", types.handle_class())?;
    module.add("TimerHandle", types.timer_class())?;
    Ok(())
}
