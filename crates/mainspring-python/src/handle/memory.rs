//! The functions that CPython calls for the memory of handles: deallocation, traversal and clearing.

use super::data::HandleData;
use super::object::{HandleClass, HandleTypes, TYPES};
use crate::python::attribute::{self, Attribute};
use crate::python::dealloc;
use crate::python::free_list::FreeList;
use crate::python::guard::{catch_traverse, catch_unraisable};
use crate::python::heap_type::{NativeType, Slot, Spec};
use crate::python::method::Method;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::{CStr, c_int, c_void};

/// Creates one of the types. `dealloc` is its function below.
pub(super) fn create_type(
    name: &'static CStr,
    base: &Bound<'_, PyType>,
    min_offset: usize,
    methods: Vec<Method<HandleClass>>,
    args: Attribute<HandleClass>,
    dealloc: ffi::destructor,
) -> PyResult<NativeType> {
    let spec = Spec {
        name,
        bases: std::slice::from_ref(base),
        extra: size_of::<HandleData>(),
        min_offset,
        methods: methods.into_iter().map(Method::into_def).collect(),
        slots: vec![
            (ffi::Py_tp_dealloc, dealloc as *mut c_void),
            (ffi::Py_tp_traverse, traverse as *mut c_void),
            (ffi::Py_tp_clear, clear as *mut c_void),
            (ffi::Py_tp_getset, attribute::definitions(vec![args])),
        ],
        is_base: false,
    };
    // SAFETY: the functions below are written for the three types, and `dealloc` is the one of this type. The methods
    // and the attribute belong to `HandleClass`, which is any of the types.
    unsafe { spec.create() }
}

pub(super) unsafe extern "C" fn dealloc_handle(this: *mut ffi::PyObject) {
    // SAFETY: CPython calls this once, for a tracked instance of `Handle` without references.
    unsafe { dealloc(this, |types| Some((&types.free_handles, &[]))) }
}

pub(super) unsafe extern "C" fn dealloc_timer(this: *mut ffi::PyObject) {
    // SAFETY: as above, for `TimerHandle`.
    unsafe { dealloc(this, |types| Some((&types.free_timers, &types.timer_slots))) }
}

pub(super) unsafe extern "C" fn dealloc_thread_safe(this: *mut ffi::PyObject) {
    // SAFETY: as above, for `ThreadSafeHandle`.
    unsafe {
        dealloc(this, |types| {
            types.thread_safe.as_ref().map(|own| (&own.free, std::slice::from_ref(&own.lock)))
        });
    }
}

/// Deallocates a handle: empties it and puts it on the free list of its type.
///
/// # Safety
/// `this` is a tracked instance without references; `own` returns the free list and the own slots of its type.
#[inline]
unsafe fn dealloc(
    this: *mut ffi::PyObject,
    own: impl for<'a> Fn(&'a HandleTypes) -> Option<(&'a FreeList, &'a [Slot])> + 'static,
) {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyObject_GC_UnTrack(this.cast()) };
    dealloc::bounded(move || {
        // SAFETY: CPython deallocates objects on attached threads.
        let py = unsafe { Python::assume_attached() };
        let Some(types) = TYPES.get(py) else { return };
        let Some((free, slots)) = own(types) else { return };
        // SAFETY: the slots are those of the type. Emptied, the object is dead as the free list demands; it drops the
        // reference to its type that every instance of a heap type has.
        unsafe {
            if !types.weak_references.get(this).is_null() {
                ffi::PyObject_ClearWeakRefs(this);
            }
            types.data_of(&this).drop_args();
            for slot in types.slots().iter().chain(slots) {
                slot.set(this, None);
            }
            let class = ffi::Py_TYPE(this);
            free.put(this);
            ffi::Py_DECREF(class.cast());
        }
    });
}

unsafe extern "C" fn traverse(this: *mut ffi::PyObject, visit: ffi::visitproc, data: *mut c_void) -> c_int {
    catch_traverse(|| {
        // SAFETY: the collector passes an instance of one of the types. No reference count changes.
        unsafe {
            let Some(types) = TYPES.get(Python::assume_attached()) else { return 0 };
            let class = ffi::Py_TYPE(this);
            let mut result = 0;
            types.data_of(&this).visit_args(&mut |argument| {
                if result == 0 {
                    result = visit(argument.as_ptr(), data);
                }
            });
            if result != 0 {
                return result;
            }
            // Plain loops: the collector calls this several times for each of a hundred thousand handles.
            for slots in [&types.slots()[..], types.own_slots(class)] {
                for slot in slots {
                    let object = slot.get(this);
                    if !object.is_null() {
                        let result = visit(object, data);
                        if result != 0 {
                            return result;
                        }
                    }
                }
            }
            visit(class.cast(), data)
        }
    })
}

unsafe extern "C" fn clear(this: *mut ffi::PyObject) -> c_int {
    catch_unraisable(|| {
        // SAFETY: the collector passes an instance of one of the types, on an attached thread.
        unsafe {
            let Some(types) = TYPES.get(Python::assume_attached()) else { return };
            types.data_of(&this).drop_args();
            for slot in types.slots().iter().chain(types.own_slots(ffi::Py_TYPE(this))) {
                slot.set(this, None);
            }
        }
    });
    0
}
