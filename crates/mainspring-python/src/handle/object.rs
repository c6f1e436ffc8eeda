//! `Handle`, `TimerHandle` and `ThreadSafeHandle` objects: their types and slots, and how instances are created.
//!
//! They derive from the classes of the same names in `asyncio.events` and store everything in the slots of those, so
//! `repr()`, `_run()` and every tool that reads `_callback` or `_args` work as with asyncio. Arguments are stored in the
//! native data (`data.rs`).
//!
//! While a loop runs, the garbage collector does not know new handles, so that it need not traverse them (half of the
//! time of the row `A.call_soon.fanout`). The running loop is alive, and so is everything that waits in it. A handle that
//! leaves the engine while other code refers to it, or that waits when the run ends, becomes known: it can be part of a
//! cycle.
//!
//! Python code can set and delete the slots. So each of them can hold any object, or none.

use super::data::{HandleData, MAX_INLINE};
use super::memory::{create_type, recycle};
use crate::python::attribute::Attribute;
use crate::python::free_list::FreeList;
use crate::python::heap_type::{NativeType, Slot, weak_references};
use crate::python::method::{Class, Method};
use crate::python::object::Obj;
use mainspring_engine::timers::TimerKey;
use pyo3::exceptions::PyAttributeError;
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
    /// Whether the garbage collector knows the handle from the beginning.
    pub is_tracked: bool,
}

/// The methods of the types. What is not among them is asyncio's.
pub struct HandleMethods {
    pub handle: Vec<Method<HandleClass>>,
    pub timer: Vec<Method<HandleClass>>,
    pub thread_safe: Vec<Method<HandleClass>>,
    /// The attribute `_args` of all of them.
    pub args: fn() -> Attribute<HandleClass>,
}

/// The types, and the offsets of their slots.
pub struct HandleTypes {
    handle: NativeType,
    timer: NativeType,
    /// From Python 3.14 on.
    thread_safe: Option<ThreadSafe>,
    free_handles: FreeList,
    free_timers: FreeList,
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
    timer_slots: [Slot; 2],
    weak_references: Slot,
    /// The offset of the native data, the same in all types.
    data: usize,
}

/// From Python 3.14 on: see `thread_safe.rs`.
struct ThreadSafe {
    native: NativeType,
    lock: Slot,
    free: FreeList,
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
        let thread_safe_base = base("_ThreadSafeHandle").ok();
        let bases = [Some(&handle_base), Some(&timer_base), thread_safe_base.as_ref()];
        // SAFETY: live type objects.
        let sizes = bases.into_iter().flatten().map(|base| unsafe { (*base.as_type_ptr()).tp_basicsize });
        let data = sizes.max().unwrap_or_default() as usize;
        let thread_safe = match &thread_safe_base {
            Some(base) => Some(ThreadSafe {
                native: create_type(
                    c"mainspring._mainspring.ThreadSafeHandle",
                    base,
                    data,
                    methods.thread_safe,
                    (methods.args)(),
                )?,
                lock: Slot::find(base, "_lock")?,
                free: FreeList::new(),
            }),
            None => None,
        };
        let handle = create_type(
            c"mainspring._mainspring.Handle",
            &handle_base,
            data,
            methods.handle,
            (methods.args)(),
        )?;
        let timer = create_type(
            c"mainspring._mainspring.TimerHandle",
            &timer_base,
            data,
            methods.timer,
            (methods.args)(),
        )?;
        Ok(HandleTypes {
            data: handle.offset,
            weak_references: weak_references(&handle_base),
            handle,
            timer,
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

    /// The free list of one of the types, and its slots beside those of every handle.
    #[inline]
    pub(super) fn memory_of(&self, class: *mut ffi::PyTypeObject) -> (&FreeList, &[Slot]) {
        if class == self.timer.as_type_ptr() {
            return (&self.free_timers, &self.timer_slots);
        }
        match &self.thread_safe {
            Some(own) if class == own.native.as_type_ptr() => (&own.free, std::slice::from_ref(&own.lock)),
            _ => (&self.free_handles, &[]),
        }
    }

    pub fn handle_class(&self) -> &Py<PyType> {
        &self.handle.class
    }

    pub fn timer_class(&self) -> &Py<PyType> {
        &self.timer.class
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

    /// A `ThreadSafeHandle`; before Python 3.14 a `Handle`.
    pub fn new_thread_safe(&self, py: Python<'_>, args: HandleArgs<'_>) -> PyResult<Handle> {
        let Some(own) = &self.thread_safe else { return self.new_handle(py, args) };
        // SAFETY: the list holds dead instances of this type.
        unsafe { self.new_instance(py, &own.native, &own.free, args) }
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
        let tuple = if args.args.len() > MAX_INLINE { Some(Obj::tuple(py, args.args)?) } else { None };
        // SAFETY: instances of the type have the slots, which are empty in a new one. The collector can traverse the
        // handle while they are being set: it skips empty slots.
        unsafe {
            let reused = free.take(class.as_type_ptr());
            let is_reused = !reused.is_null();
            let object = if is_reused { reused } else { ffi::PyType_GenericAlloc(class.as_type_ptr(), 0) };
            let handle = Handle(Obj::from_call(py, object)?);
            self.callback.initialize(object, args.callback.clone());
            match tuple {
                Some(tuple) => self.args.initialize(object, tuple),
                None => self.data(&handle).set_args(args.args),
            }
            self.cancelled.initialize(object, Obj::bool(false));
            self.event_loop.initialize(object, args.event_loop.clone());
            let traceback = args.source_traceback.map_or_else(Obj::none, Obj::clone);
            self.source_traceback.initialize(object, traceback);
            self.repr.initialize(object, Obj::none());
            self.context.initialize(object, args.context.clone());
            self.data(&handle).is_untracked.set(!args.is_tracked);
            match (is_reused, args.is_tracked) {
                (true, true) => ffi::PyObject_GC_Track(object.cast()),
                (false, false) => ffi::PyObject_GC_UnTrack(object.cast()),
                _ => {}
            }
            Ok(handle)
        }
    }

    /// The native data of a handle.
    #[inline]
    pub(super) fn data<'a>(&self, handle: &'a Handle) -> &'a HandleData {
        // SAFETY: instances of all types have their data at this offset. It is initialized with zeros, and lives as long
        // as the handle.
        unsafe { &*handle.0.as_ptr().byte_add(self.data).cast::<HandleData>() }
    }

    /// As [`HandleTypes::data`].
    ///
    /// # Safety
    /// `this` points to an instance of one of the types, which lives as long as the reference.
    #[inline]
    pub(super) unsafe fn data_of<'a>(&self, this: &'a *mut ffi::PyObject) -> &'a HandleData {
        // SAFETY: `Handle` is a transparent pointer to such an instance.
        self.data(unsafe { &*std::ptr::from_ref(this).cast::<Handle>() })
    }

    /// Makes a handle known to the garbage collector.
    pub fn track(&self, handle: &Handle) {
        if self.data(handle).is_untracked.take() {
            // SAFETY: a live object that is not tracked, whose slots the collector can traverse.
            unsafe { ffi::PyObject_GC_Track(handle.0.as_ptr().cast()) };
        }
    }

    /// The engine does not need this reference to a handle any more.
    #[inline]
    pub fn release(&self, handle: Handle) {
        let object = handle.0.as_ptr();
        // SAFETY: a live object.
        if unsafe { ffi::Py_REFCNT(object) } > 1 {
            self.track(&handle);
        // SAFETY: as above.
        } else if self.data(&handle).is_untracked.get() && !unsafe { self.has_weak_references(object) } {
            // Without the way through CPython's deallocation: rows `A.call_soon.*`.
            std::mem::forget(handle);
            // SAFETY: this was the only reference.
            unsafe { recycle(self, object) };
        }
    }

    /// # Safety
    /// `this` is a live instance of one of the types.
    #[inline]
    pub(super) unsafe fn has_weak_references(&self, this: *mut ffi::PyObject) -> bool {
        // SAFETY: passed on.
        unsafe { !self.weak_references.get(this).is_null() }
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

    /// The content of the slot `_args`. `None` if the arguments are in the native data.
    #[inline]
    pub fn args(&self, handle: &Handle) -> Option<Obj> {
        handle.get(self.args)
    }

    /// `callback(*args)`, with the arguments of the native data.
    #[inline]
    pub fn call(&self, py: Python<'_>, handle: &Handle, callback: &Obj) -> PyResult<Obj> {
        self.data(handle).call(py, callback)
    }

    /// Whether Python code has deleted `_args`.
    #[inline]
    pub fn has_no_args(&self, handle: &Handle) -> bool {
        self.data(handle).has_no_args()
    }

    /// The value of `_args`; `AttributeError` if Python code has deleted it.
    pub fn args_tuple(&self, py: Python<'_>, handle: &Handle) -> PyResult<Obj> {
        if let Some(args) = self.args(handle) {
            return Ok(args);
        }
        if self.has_no_args(handle) {
            return Err(PyAttributeError::new_err("_args"));
        }
        let args = self.data(handle).tuple(py)?;
        self.set_args(handle, args.clone());
        Ok(args)
    }

    /// Sets `_args`.
    pub fn set_args(&self, handle: &Handle, args: Obj) {
        handle.set(self.args, args);
        self.data(handle).drop_args();
    }

    /// Deletes `_args`.
    pub fn delete_args(&self, handle: &Handle) {
        self.data(handle).delete_args();
        // SAFETY: a slot of every handle.
        unsafe { self.args.set(handle.0.as_ptr(), None) };
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

    /// Whether a handle belongs to `call_soon_threadsafe()` of Python 3.14 or later.
    #[inline]
    pub fn is_thread_safe(&self, handle: &Handle) -> bool {
        self.thread_safe.as_ref().is_some_and(|own| handle.class() == own.native.as_type_ptr())
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
        self.set_args(handle, Obj::none());
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
        self.is_timer(handle).then(|| TimerKey::from_bits(self.data(handle).word.get()))
    }

    #[inline]
    pub fn set_timer_key(&self, timer: &Handle, key: TimerKey) {
        self.data(timer).word.set(key.to_bits());
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
