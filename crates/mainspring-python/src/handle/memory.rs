//! The functions that CPython calls for the memory of handles: deallocation, traversal and clearing.

use super::data::HandleData;
use super::object::{HandleClass, HandleTypes, TYPES};
use crate::python::attribute::{self, Attribute};
use crate::python::dealloc;
use crate::python::guard::{catch_traverse, catch_unraisable};
use crate::python::heap_type::{NativeType, Slot, Spec};
use crate::python::method::Method;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::{CStr, c_int, c_void};

/// Creates one of the types.
pub(super) fn create_type(
    name: &'static CStr,
    base: &Bound<'_, PyType>,
    min_offset: usize,
    methods: Vec<Method<HandleClass>>,
    args: Attribute<HandleClass>,
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
    // SAFETY: the functions below are written for the three types. The methods and the attribute belong to `HandleClass`,
    // which is any of the types.
    unsafe { spec.create() }
}

unsafe extern "C" fn dealloc(this: *mut ffi::PyObject) {
    // SAFETY: CPython calls this once, for an instance of one of the types, without references.
    unsafe { ffi::PyObject_GC_UnTrack(this.cast()) };
    dealloc::bounded(move || {
        // SAFETY: CPython deallocates objects on attached threads.
        let py = unsafe { Python::assume_attached() };
        let Some(types) = TYPES.get(py) else { return };
        // SAFETY: as above; nothing refers to the handle any more.
        unsafe {
            if types.has_weak_references(this) {
                ffi::PyObject_ClearWeakRefs(this);
            }
            recycle(types, this);
        }
    });
}

/// Empties a handle and puts it on the free list of its type.
///
/// # Safety
/// No other code has a reference to the handle, or can get one: it has no weak references, and the garbage collector does
/// not track it.
#[inline]
pub(super) unsafe fn recycle(types: &HandleTypes, this: *mut ffi::PyObject) {
    // SAFETY: the slots are those of the type. Emptied, the object is dead as the free list demands; it drops the
    // reference to its type that every instance of a heap type has.
    unsafe {
        let class = ffi::Py_TYPE(this);
        let (free, own_slots) = types.memory_of(class);
        empty(types, this, own_slots);
        free.put(this);
        ffi::Py_DECREF(class.cast());
    }
}

/// Drops everything that a handle refers to, but for its type.
///
/// # Safety
/// `this` is a live instance of one of the types, and `own_slots` are those of its type.
#[inline]
unsafe fn empty(types: &HandleTypes, this: *mut ffi::PyObject, own_slots: &[Slot]) {
    // SAFETY: passed on.
    unsafe {
        types.data_of(&this).drop_args();
        // Two plain loops: an iterator over both takes 60 instructions more.
        for slot in types.slots() {
            slot.set(this, None);
        }
        for slot in own_slots {
            slot.set(this, None);
        }
    }
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
            for slots in [&types.slots()[..], types.memory_of(class).1] {
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
            empty(types, this, types.memory_of(ffi::Py_TYPE(this)).1);
        }
    });
    0
}
