//! How the interpreter shows handles to its garbage collector, and ends them.

use super::{HandleTypes, TYPES};
use crate::python::dealloc;
use crate::python::free_list::FreeList;
use crate::python::heap_type::Slot;
use crate::python::thread_exit;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};

pub(super) unsafe extern "C" fn dealloc_handle(this: *mut ffi::PyObject) {
    // SAFETY: called once, by the interpreter, for an object of the handle type that nobody refers to any more.
    unsafe {
        dealloc(this, move |types| {
            empty(types, this, &[]);
            bury(&types.free_handles, this);
        });
    }
}

pub(super) unsafe extern "C" fn dealloc_timer(this: *mut ffi::PyObject) {
    // SAFETY: as above, for the timer type.
    unsafe {
        dealloc(this, move |types| {
            empty(types, this, &types.timer_slots);
            bury(&types.free_timers, this);
        });
    }
}

pub(super) unsafe extern "C" fn dealloc_shared(this: *mut ffi::PyObject) {
    // SAFETY: as above, for the type that other threads share.
    unsafe {
        dealloc(this, move |types| {
            if let Some(shared) = &types.shared {
                empty(types, this, &[shared.lock]);
                bury(&shared.free, this);
            }
        });
    }
}

/// Ends an object of one of our types by `body`.
unsafe fn dealloc(this: *mut ffi::PyObject, body: impl FnOnce(&HandleTypes) + 'static) {
    // SAFETY: the caller passes an object that is tracked and that nobody refers to any more.
    unsafe { ffi::PyObject_GC_UnTrack(this.cast()) };
    dealloc::bounded(move || {
        // SAFETY: the interpreter calls for the end of an object on a thread that is attached.
        if let Some(types) = TYPES.get(unsafe { Python::assume_attached() }) {
            body(types);
        }
    });
}

/// Empties an object that is about to go.
unsafe fn empty(types: &HandleTypes, this: *mut ffi::PyObject, more: &[Slot]) {
    // SAFETY: the object is one of ours, and `more` are slots of its type.
    unsafe {
        ffi::PyObject_ClearWeakRefs(this);
        for slot in types.slots().iter().chain(more) {
            slot.set(this, std::ptr::null_mut());
        }
    }
}

/// Gives up the memory, and the reference to the type that every instance of a heap type has.
unsafe fn bury(free: &FreeList, this: *mut ffi::PyObject) {
    // SAFETY: the object was emptied before.
    unsafe {
        let class = ffi::Py_TYPE(this);
        free.put(this);
        ffi::Py_DECREF(class.cast());
    }
}

/// Shows the garbage collector what a handle holds.
pub(super) unsafe extern "C" fn traverse(
    this: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes an instance of one of our types; nothing is counted up or down.
    unsafe {
        let Some(types) = TYPES.get(Python::assume_attached()) else { return 0 };
        let class = ffi::Py_TYPE(this);
        // Plain loops: the collector calls this several times for each of a hundred thousand handles.
        for slots in [&types.slots()[..], types.own_slots(class)] {
            for slot in slots {
                let object = slot.get(this);
                if !object.is_null() {
                    let result = visit(object, argument);
                    if result != 0 {
                        return result;
                    }
                }
            }
        }
        visit(class.cast(), argument)
    }
}

/// Breaks the cycles a handle is part of.
pub(super) unsafe extern "C" fn clear(this: *mut ffi::PyObject) -> c_int {
    thread_exit::guard();
    // SAFETY: the collector passes an instance of one of our types.
    unsafe {
        let Some(types) = TYPES.get(Python::assume_attached()) else { return 0 };
        for slot in types.slots().iter().chain(types.own_slots(ffi::Py_TYPE(this))) {
            slot.set(this, std::ptr::null_mut());
        }
        0
    }
}
