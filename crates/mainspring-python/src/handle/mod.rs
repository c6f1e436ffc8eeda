//! `Handle` and `TimerHandle`: asyncio's own, made and run natively.
//!
//! Both are heap types on top of `asyncio.Handle` and `asyncio.TimerHandle`, and keep everything in the slots of
//! those, so `repr()`, `_run()` and every tool that looks at `_callback` or `_args` works as it does there. Ours are
//! the constructor, `cancel()`, and for timers the key of the engine's timer.

mod gc;
mod thread_safe;

pub use thread_safe::new_shared_handle;

use crate::errors::merge_outcomes;
use crate::event_loop::NativeLoop;
use crate::python::free_list::FreeList;
use crate::python::heap_type::{NativeType, Slot, Spec};
use crate::python::method::{self, enter};
use crate::python::object::Obj;
use mainspring_engine::timers::TimerKey;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::ffi::c_void;
use thread_safe::SharedHandles;

/// The two types and the places of their slots.
pub struct HandleTypes {
    handle: NativeType,
    timer: NativeType,
    /// From Python 3.14 on: what `call_soon_threadsafe()` gives.
    shared: Option<SharedHandles>,
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
    /// These two.
    timer_slots: [Slot; 2],
}

static TYPES: PyOnceLock<HandleTypes> = PyOnceLock::new();

impl HandleTypes {
    fn load(py: Python<'_>) -> PyResult<Self> {
        let events = py.import("asyncio.events")?;
        let handle_base = events.getattr("Handle")?.cast_into::<PyType>()?;
        let timer_base = events.getattr("TimerHandle")?.cast_into::<PyType>()?;
        let cancel =
            |function| vec![method::method_noargs(c"cancel", function, c"Cancel the call; it will not run.")];
        let slots = |dealloc: ffi::destructor| {
            vec![
                (ffi::Py_tp_dealloc, dealloc as *mut c_void),
                (ffi::Py_tp_traverse, gc::traverse as *mut c_void),
                (ffi::Py_tp_clear, gc::clear as *mut c_void),
            ]
        };
        Ok(HandleTypes {
            handle: Spec {
                name: c"mainspring._mainspring.Handle",
                bases: std::slice::from_ref(&handle_base),
                extra: 0,
                methods: cancel(cancel_handle),
                slots: slots(gc::dealloc_handle),
                is_base: false,
            }
            .create()?,
            timer: Spec {
                name: c"mainspring._mainspring.TimerHandle",
                bases: std::slice::from_ref(&timer_base),
                extra: size_of::<u64>(),
                methods: cancel(cancel_timer),
                slots: slots(gc::dealloc_timer),
                is_base: false,
            }
            .create()?,
            shared: SharedHandles::load(&events, slots(gc::dealloc_shared))?,
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

    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        TYPES.get_or_try_init(py, || HandleTypes::load(py))
    }

    /// What a handle holds beside what all handles do.
    fn own_slots(&self, class: *mut ffi::PyTypeObject) -> &[Slot] {
        if class == self.timer.as_type_ptr() {
            return &self.timer_slots;
        }
        match &self.shared {
            Some(shared) if shared.is_class(class) => std::slice::from_ref(&shared.lock),
            _ => &[],
        }
    }

    /// What every handle holds.
    fn slots(&self) -> [Slot; 7] {
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

    pub fn handle_class(&self) -> &Py<PyType> {
        &self.handle.class
    }

    pub fn timer_class(&self) -> &Py<PyType> {
        &self.timer.class
    }
}

/// A call as a user gave it: all references are borrowed.
#[derive(Clone, Copy)]
pub struct CallParts<'a> {
    pub event_loop: *mut ffi::PyObject,
    pub callback: *mut ffi::PyObject,
    pub args: &'a [*mut ffi::PyObject],
    /// Null or `None`: a copy of the current context.
    pub context: *mut ffi::PyObject,
    /// Null: none, as always outside of debug mode.
    pub source_traceback: *mut ffi::PyObject,
}

/// Makes a `Handle`.
///
/// # Safety
/// The pointers in `call` are live objects, or null where their text allows it.
pub unsafe fn new_handle(py: Python<'_>, call: CallParts<'_>) -> PyResult<Obj> {
    let types = HandleTypes::get(py)?;
    // SAFETY: passed on; the type is one of the two.
    unsafe { fill(py, types, &types.handle, &types.free_handles, call) }
}

/// Makes a `TimerHandle` that is not in the engine's queue yet.
///
/// # Safety
/// As [`new_handle`]; `when` is a live object.
pub unsafe fn new_timer(py: Python<'_>, when: *mut ffi::PyObject, call: CallParts<'_>) -> PyResult<Obj> {
    let types = HandleTypes::get(py)?;
    // SAFETY: passed on; the slots are empty in a new instance.
    unsafe {
        let timer = fill(py, types, &types.timer, &types.free_timers, call)?;
        ffi::Py_INCREF(when);
        types.when.fill(timer.as_ptr(), when);
        types.scheduled.fill(timer.as_ptr(), new_bool(true));
        Ok(timer)
    }
}

/// Tells a timer its place in the engine's queue.
///
/// # Safety
/// `timer` is an object of [`new_timer`].
pub unsafe fn set_timer_key(py: Python<'_>, timer: &Obj, key: TimerKey) -> PyResult<()> {
    let types = HandleTypes::get(py)?;
    // SAFETY: instances of the timer type have eight bytes of ours at the offset.
    unsafe { *key_place(types, timer.as_ptr()) = key.to_bits() };
    Ok(())
}

unsafe fn key_place(types: &HandleTypes, timer: *mut ffi::PyObject) -> *mut u64 {
    // SAFETY: the caller passes an instance of the timer type, whose own data begins at the offset.
    unsafe { timer.byte_add(types.timer.offset).cast() }
}

fn new_bool(value: bool) -> *mut ffi::PyObject {
    // SAFETY: the two booleans live as long as the interpreter.
    unsafe {
        let object = if value { ffi::Py_True() } else { ffi::Py_False() };
        ffi::Py_INCREF(object);
        object
    }
}

unsafe fn fill(
    py: Python<'_>,
    types: &HandleTypes,
    class: &NativeType,
    free: &FreeList,
    call: CallParts<'_>,
) -> PyResult<Obj> {
    // SAFETY: `class` is one of our two types, so its instances have the slots; they are empty in a new one. The
    // pointers in `call` are live objects (the caller's promise), and each slot gets a reference of its own. The
    // collector may look at the half-filled handle: empty slots are null, which it skips.
    unsafe {
        let context = if call.context.is_null() || call.context == ffi::Py_None() {
            Obj::from_call(py, ffi::PyContext_CopyCurrent())?
        } else {
            Obj::from_borrowed(call.context)
        };
        let args = Obj::from_call(py, ffi::PyTuple_New(call.args.len() as ffi::Py_ssize_t))?;
        for (index, &argument) in call.args.iter().enumerate() {
            ffi::Py_INCREF(argument);
            ffi::PyTuple_SET_ITEM(args.as_ptr(), index as ffi::Py_ssize_t, argument);
        }
        let reused = free.take(class.as_type_ptr());
        let handle = if reused.is_null() {
            Obj::from_call(py, ffi::PyType_GenericAlloc(class.as_type_ptr(), 0))?
        } else {
            Obj::from_call(py, reused)?
        };
        let this = handle.as_ptr();
        types.callback.fill(this, Obj::from_borrowed(call.callback).into_ptr());
        types.args.fill(this, args.into_ptr());
        types.cancelled.fill(this, new_bool(false));
        types.event_loop.fill(this, Obj::from_borrowed(call.event_loop).into_ptr());
        let traceback = if call.source_traceback.is_null() { ffi::Py_None() } else { call.source_traceback };
        types.source_traceback.fill(this, Obj::from_borrowed(traceback).into_ptr());
        types.repr.fill(this, Obj::from_borrowed(ffi::Py_None()).into_ptr());
        types.context.fill(this, context.into_ptr());
        if !reused.is_null() {
            ffi::PyObject_GC_Track(this.cast());
        }
        Ok(handle)
    }
}

/// Runs a handle's callback in its context, unless it was cancelled. `Err` is what the callback raised.
pub fn run(py: Python<'_>, types: &HandleTypes, handle: &Obj) -> PyResult<()> {
    // SAFETY: a live object.
    let lock = types.shared.as_ref().and_then(|shared| unsafe { shared.lock_of(handle.as_ptr()) });
    let Some(lock) = lock else { return run_unlocked(py, types, handle) };
    let lock = lock.bind(py);
    lock.call_method0("acquire")?;
    let result = run_unlocked(py, types, handle);
    merge_outcomes(py, result, lock.call_method0("release").map(drop))
}

fn run_unlocked(py: Python<'_>, types: &HandleTypes, handle: &Obj) -> PyResult<()> {
    let this = handle.as_ptr();
    // SAFETY: the engine's calls are objects of `new_handle` and `new_timer`, so they have the slots. The callback
    // may empty them (by cancelling), so what is used meanwhile is held by references of our own. The arguments
    // of the call are the items of a tuple that is kept alive, and of no other use during the call.
    unsafe {
        let (callback, args, context) =
            (types.callback.get(this), types.args.get(this), types.context.get(this));
        if types.cancelled.get(this) == ffi::Py_True() || callback.is_null() || args.is_null() {
            return Ok(());
        }
        if ffi::PyTuple_Check(args) == 0 || context.is_null() {
            // Somebody put something else into the slots by hand; asyncio's own code then knows what to say.
            return handle.bind(py).call_method0("_run").map(drop);
        }
        let callback = Obj::from_borrowed(callback);
        let args = Obj::from_borrowed(args);
        let context = Obj::from_borrowed(context);
        if ffi::PyContext_Enter(context.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        let result = ffi::PyObject_Call(callback.as_ptr(), args.as_ptr(), std::ptr::null_mut());
        let result = Obj::from_call(py, result);
        if ffi::PyContext_Exit(context.as_ptr()) != 0 {
            return merge_outcomes(py, result.map(drop), Err(PyErr::fetch(py)));
        }
        result.map(drop)
    }
}

/// A timer leaves the engine's queue: it is about to run.
pub fn unschedule(types: &HandleTypes, handle: &Obj) {
    // SAFETY: the slot belongs to the timer type, which is compared first.
    unsafe {
        if ffi::Py_TYPE(handle.as_ptr()) == types.timer.as_type_ptr() {
            types.scheduled.set(handle.as_ptr(), new_bool(false));
        }
    }
}

extern "C" fn cancel_handle(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        let types = HandleTypes::get(py)?;
        // SAFETY: the interpreter calls this with an instance of the handle type.
        unsafe { cancel(py, types, this) }?;
        Ok(py.None().into_ptr())
    })
}

extern "C" fn cancel_timer(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        let types = HandleTypes::get(py)?;
        // SAFETY: the interpreter calls this with an instance of the timer type.
        unsafe {
            let was_scheduled = types.scheduled.get(this) == ffi::Py_True();
            cancel(py, types, this)?;
            if was_scheduled && let Some(event_loop) = NativeLoop::from_ptr(py, types.event_loop.get(this)) {
                types.scheduled.set(this, new_bool(false));
                let key = TimerKey::from_bits(*key_place(types, this));
                // Whether it is scheduled, in which loop, and under which key is written in slots that anybody may set:
                // what is cancelled is this timer or none.
                let waiting =
                    event_loop.engine().cancel_timer_if(key, |waiting| waiting.object().as_ptr() == this);
                drop(waiting);
            }
        }
        Ok(py.None().into_ptr())
    })
}

/// asyncio: a cancelled handle lets go of its callback and arguments at once; in debug mode it remembers how it looked.
unsafe fn cancel(py: Python<'_>, types: &HandleTypes, this: *mut ffi::PyObject) -> PyResult<()> {
    // SAFETY: the caller passes an instance of one of our types.
    unsafe {
        if types.cancelled.get(this) == ffi::Py_True() {
            return Ok(());
        }
        types.cancelled.set(this, new_bool(true));
        if NativeLoop::from_ptr(py, types.event_loop.get(this)).is_some_and(|native| native.is_debug()) {
            let repr = Bound::from_borrowed_ptr(py, this).repr()?;
            types.repr.set(this, repr.into_ptr());
        }
        types.callback.set(this, Obj::from_borrowed(ffi::Py_None()).into_ptr());
        types.args.set(this, Obj::from_borrowed(ffi::Py_None()).into_ptr());
        Ok(())
    }
}
