//! `Handle`, `TimerHandle` and `ThreadSafeHandle` objects: their types and slots, and how instances are created.
//!
//! They derive from the classes of the same names in `asyncio.events` and store everything in the slots of those, so
//! `repr()`, `_run()` and every tool that reads `_callback` or `_args` work as with asyncio. Timers have one field of
//! their own: the key of the engine's timer.
//!
//! Python code can set and delete the slots. So each of them can hold any object, or none.

use super::memory::{create_type, dealloc_handle, dealloc_thread_safe, dealloc_timer};
use crate::python::free_list::FreeList;
use crate::python::heap_type::{NativeType, Slot};
use crate::python::method::{Class, Method};
use crate::python::object::Obj;
use mainspring_engine::timers::TimerKey;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// A reference to an instance of one of the three types.
#[derive(Clone)]
#[repr(transparent)]
pub struct Handle(Obj);

/// The class that the methods of handles belong to: each of the three types.
pub struct HandleClass;

impl Class for HandleClass {
    type Data = Handle;

    #[inline]
    unsafe fn data<'a>(_: Python<'_>, this: &'a Obj) -> PyResult<&'a Handle> {
        // SAFETY: a transparent wrapper; the caller passes an instance of one of the types, none of which can be
        // derived from.
        Ok(unsafe { &*std::ptr::from_ref(this).cast::<Handle>() })
    }
}

/// The values of a new handle's slots.
#[derive(Clone, Copy)]
pub struct HandleArgs<'a> {
    pub event_loop: &'a Obj,
    pub callback: &'a Obj,
    pub args: &'a [Obj],
    pub context: &'a Obj,
    /// Set in debug mode.
    pub source_traceback: Option<&'a Obj>,
}

/// The methods of the types. What is not among them is asyncio's.
pub struct HandleMethods {
    pub handle: Vec<Method<HandleClass>>,
    pub timer: Vec<Method<HandleClass>>,
    pub thread_safe: Vec<Method<HandleClass>>,
}

/// The types, and the offsets of their slots.
pub struct HandleTypes {
    handle: NativeType,
    timer: NativeType,
    /// From Python 3.14 on.
    pub(super) thread_safe: Option<ThreadSafe>,
    pub(super) free_handles: FreeList,
    pub(super) free_timers: FreeList,
    callback: Slot,
    args: Slot,
    cancelled: Slot,
    event_loop: Slot,
    source_traceback: Slot,
    repr: Slot,
    context: Slot,
    when: Slot,
    scheduled: Slot,
    /// `when` and `scheduled`.
    pub(super) timer_slots: [Slot; 2],
}

/// `asyncio.events._ThreadSafeHandle`: a handle with a lock that is held while its callback runs, so that a thread that
/// cancels the handle knows whether the callback ran.
pub(super) struct ThreadSafe {
    native: NativeType,
    pub(super) lock: Slot,
    pub(super) free: FreeList,
}

pub(super) static TYPES: PyOnceLock<HandleTypes> = PyOnceLock::new();

impl HandleTypes {
    /// `methods` returns the methods of the three types.
    #[inline]
    pub(super) fn get_or_create(py: Python<'_>, methods: fn() -> HandleMethods) -> PyResult<&'static Self> {
        TYPES.get_or_try_init(py, || HandleTypes::create(py, methods()))
    }

    fn create(py: Python<'_>, methods: HandleMethods) -> PyResult<Self> {
        let events = py.import("asyncio.events")?;
        let base = |name: &str| Ok::<_, PyErr>(events.getattr(name)?.cast_into::<PyType>()?);
        let (handle_base, timer_base) = (base("Handle")?, base("TimerHandle")?);
        let thread_safe = match base("_ThreadSafeHandle") {
            Ok(base) => Some(ThreadSafe {
                native: create_type(
                    c"mainspring._mainspring.ThreadSafeHandle",
                    &base,
                    0,
                    methods.thread_safe,
                    dealloc_thread_safe,
                )?,
                lock: Slot::find(&base, "_lock")?,
                free: FreeList::new(),
            }),
            Err(_) => None,
        };
        Ok(HandleTypes {
            handle: create_type(
                c"mainspring._mainspring.Handle",
                &handle_base,
                0,
                methods.handle,
                dealloc_handle,
            )?,
            timer: create_type(
                c"mainspring._mainspring.TimerHandle",
                &timer_base,
                size_of::<u64>(),
                methods.timer,
                dealloc_timer,
            )?,
            thread_safe,
            free_handles: FreeList::new(),
            free_timers: FreeList::new(),
            callback: Slot::find(&handle_base, "_callback")?,
            args: Slot::find(&handle_base, "_args")?,
            cancelled: Slot::find(&handle_base, "_cancelled")?,
            event_loop: Slot::find(&handle_base, "_loop")?,
            source_traceback: Slot::find(&handle_base, "_source_traceback")?,
            repr: Slot::find(&handle_base, "_repr")?,
            context: Slot::find(&handle_base, "_context")?,
            when: Slot::find(&timer_base, "_when")?,
            scheduled: Slot::find(&timer_base, "_scheduled")?,
            timer_slots: [Slot::find(&timer_base, "_when")?, Slot::find(&timer_base, "_scheduled")?],
        })
    }

    /// The slots of every handle.
    pub(super) fn slots(&self) -> [Slot; 7] {
        [
            self.callback,
            self.args,
            self.cancelled,
            self.event_loop,
            self.source_traceback,
            self.repr,
            self.context,
        ]
    }

    /// The slots of one type beside those of every handle.
    pub(super) fn own_slots(&self, class: *mut ffi::PyTypeObject) -> &[Slot] {
        if class == self.timer.as_type_ptr() {
            return &self.timer_slots;
        }
        match &self.thread_safe {
            Some(own) if class == own.native.as_type_ptr() => std::slice::from_ref(&own.lock),
            _ => &[],
        }
    }

    pub fn handle_class(&self) -> &Py<PyType> {
        &self.handle.class
    }

    pub fn timer_class(&self) -> &Py<PyType> {
        &self.timer.class
    }

    /// Whether `call_soon_threadsafe()` returns handles of a type of their own.
    pub fn has_thread_safe(&self) -> bool {
        self.thread_safe.is_some()
    }

    #[inline]
    pub fn new_handle(&self, py: Python<'_>, args: HandleArgs<'_>) -> PyResult<Handle> {
        // SAFETY: the list holds dead instances of this type.
        unsafe { self.new_instance(py, &self.handle, &self.free_handles, args) }
    }

    /// A `TimerHandle` that is not in the engine's queue yet.
    #[inline]
    pub fn new_timer(&self, py: Python<'_>, when: &Obj, args: HandleArgs<'_>) -> PyResult<Handle> {
        // SAFETY: the list holds dead instances of this type, whose slots are empty in a new instance.
        unsafe {
            let timer = self.new_instance(py, &self.timer, &self.free_timers, args)?;
            self.when.initialize(timer.0.as_ptr(), when.clone());
            self.scheduled.initialize(timer.0.as_ptr(), Obj::bool(true));
            Ok(timer)
        }
    }

    /// A `ThreadSafeHandle`; before Python 3.14 a `Handle`, and the lock is not used.
    pub fn new_thread_safe(&self, py: Python<'_>, lock: Obj, args: HandleArgs<'_>) -> PyResult<Handle> {
        let Some(own) = &self.thread_safe else { return self.new_handle(py, args) };
        // SAFETY: the list holds dead instances of this type, whose slot is empty in a new instance.
        unsafe {
            let handle = self.new_instance(py, &own.native, &own.free, args)?;
            own.lock.initialize(handle.0.as_ptr(), lock);
            Ok(handle)
        }
    }

    /// # Safety
    /// `class` is one of the types, and every object on `free` was an instance of it.
    #[inline]
    unsafe fn new_instance(
        &self,
        py: Python<'_>,
        class: &NativeType,
        free: &FreeList,
        args: HandleArgs<'_>,
    ) -> PyResult<Handle> {
        let tuple = Obj::tuple(py, args.args)?;
        // SAFETY: instances of the type have the slots, which are empty in a new one. The collector can traverse the
        // handle while they are being set: it skips empty slots.
        unsafe {
            let reused = free.take(class.as_type_ptr());
            let is_reused = !reused.is_null();
            let object = if is_reused { reused } else { ffi::PyType_GenericAlloc(class.as_type_ptr(), 0) };
            let handle = Handle(Obj::from_call(py, object)?);
            self.callback.initialize(object, args.callback.clone());
            self.args.initialize(object, tuple);
            self.cancelled.initialize(object, Obj::bool(false));
            self.event_loop.initialize(object, args.event_loop.clone());
            let traceback = args.source_traceback.map_or_else(Obj::none, Obj::clone);
            self.source_traceback.initialize(object, traceback);
            self.repr.initialize(object, Obj::none());
            self.context.initialize(object, args.context.clone());
            if is_reused {
                ffi::PyObject_GC_Track(object.cast());
            }
            Ok(handle)
        }
    }

    /// Whether a handle is a timer.
    #[inline]
    pub fn is_timer(&self, handle: &Handle) -> bool {
        handle.class() == self.timer.as_type_ptr()
    }

    #[inline]
    pub fn callback(&self, handle: &Handle) -> Option<Obj> {
        handle.get(self.callback)
    }

    #[inline]
    pub fn args(&self, handle: &Handle) -> Option<Obj> {
        handle.get(self.args)
    }

    #[inline]
    pub fn context(&self, handle: &Handle) -> Option<Obj> {
        handle.get(self.context)
    }

    pub fn event_loop(&self, handle: &Handle) -> Option<Obj> {
        handle.get(self.event_loop)
    }

    #[inline]
    pub fn is_cancelled(&self, handle: &Handle) -> bool {
        handle.is_true(self.cancelled)
    }

    /// The lock of a thread-safe handle.
    #[inline]
    pub fn lock(&self, handle: &Handle) -> Option<Obj> {
        let own = self.thread_safe.as_ref()?;
        if handle.class() == own.native.as_type_ptr() { handle.get(own.lock) } else { None }
    }

    pub fn set_cancelled(&self, handle: &Handle) {
        handle.set(self.cancelled, Obj::bool(true));
    }

    pub fn set_repr(&self, handle: &Handle, repr: Obj) {
        handle.set(self.repr, repr);
    }

    /// Replaces the callback and its arguments by `None`.
    pub fn drop_callback(&self, handle: &Handle) {
        handle.set(self.callback, Obj::none());
        handle.set(self.args, Obj::none());
    }

    /// Whether `_scheduled` of a timer is true; `false` for another handle.
    #[inline]
    pub fn is_scheduled(&self, handle: &Handle) -> bool {
        self.is_timer(handle) && handle.is_true(self.scheduled)
    }

    /// Sets `_scheduled` of a timer to `False`. Does nothing for another handle.
    #[inline]
    pub fn unschedule(&self, handle: &Handle) {
        if self.is_timer(handle) {
            handle.set(self.scheduled, Obj::bool(false));
        }
    }

    /// The key of a timer in the engine's queue.
    pub fn timer_key(&self, handle: &Handle) -> Option<TimerKey> {
        // SAFETY: see `key_place`.
        self.key_place(handle).map(|place| TimerKey::from_bits(unsafe { place.read() }))
    }

    #[inline]
    pub fn set_timer_key(&self, handle: &Handle, key: TimerKey) {
        if let Some(place) = self.key_place(handle) {
            // SAFETY: see `key_place`.
            unsafe { place.write(key.to_bits()) };
        }
    }

    /// The field for the key: eight aligned bytes in an instance of the timer type, used under the interpreter lock.
    #[inline]
    fn key_place(&self, handle: &Handle) -> Option<*mut u64> {
        // SAFETY: the offset is within every instance of the timer type.
        self.is_timer(handle).then(|| unsafe { handle.0.as_ptr().byte_add(self.timer.offset).cast() })
    }
}

impl Handle {
    #[inline]
    pub fn as_obj(&self) -> &Obj {
        &self.0
    }

    #[inline]
    fn class(&self) -> *mut ffi::PyTypeObject {
        // SAFETY: a live object.
        unsafe { ffi::Py_TYPE(self.0.as_ptr()) }
    }

    /// A new reference to the content of a slot of this handle's type.
    #[inline]
    fn get(&self, slot: Slot) -> Option<Obj> {
        // SAFETY: `HandleTypes` passes slots of every handle, or of the type that it has compared. The content of a slot
        // is alive.
        unsafe {
            let content = slot.get(self.0.as_ptr());
            (!content.is_null()).then(|| Obj::from_borrowed(content))
        }
    }

    #[inline]
    fn is_true(&self, slot: Slot) -> bool {
        // SAFETY: as in `get`.
        unsafe { slot.get(self.0.as_ptr()) == ffi::Py_True() }
    }

    #[inline]
    fn set(&self, slot: Slot, value: Obj) {
        // SAFETY: as in `get`.
        unsafe { slot.set(self.0.as_ptr(), Some(value)) }
    }
}

impl From<Handle> for Obj {
    #[inline]
    fn from(handle: Handle) -> Self {
        handle.0
    }
}
