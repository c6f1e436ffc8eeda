//! How the interpreter makes, shows to its garbage collector, and ends a `StreamTransport`.

use super::{TYPE, TransportData, data, transport_type};
use crate::channel::PyChunk;
use crate::fastcall::enter;
use crate::obj::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::OnceCell;
use std::ffi::{c_int, c_void};

pub(super) unsafe extern "C" fn new(
    class: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        let types = transport_type(py)?;
        // SAFETY: the interpreter passes the type or one derived from it; our data lies at the offset and is
        // zeroed memory that is written before anybody looks at it.
        unsafe {
            let object = Obj::from_call(py, ffi::PyType_GenericAlloc(class, 0))?;
            let place: *mut TransportData = object.as_ptr().byte_add(types.native.offset).cast();
            place.write(TransportData { open: OnceCell::new() });
            Ok(object.into_ptr())
        }
    })
}

pub(super) unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    Python::attach(|py| {
        // SAFETY: called once, by the interpreter, for an object nobody refers to any more. Our data is dropped,
        // then what the base's slots hold; the memory goes back, and the reference to the type that every instance of a
        // heap type has.
        unsafe {
            ffi::PyObject_GC_UnTrack(object.cast());
            if let Ok(types) = transport_type(py) {
                let place: *mut TransportData = object.byte_add(types.native.offset).cast();
                place.drop_in_place();
                types.base_slots.iter().for_each(|slot| slot.set(object, std::ptr::null_mut()));
            }
            let class = ffi::Py_TYPE(object);
            if let Some(free) = (*class).tp_free {
                free(object.cast());
            }
            ffi::Py_DECREF(class.cast());
        }
    });
}

pub(super) unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes an instance; the types are loaded, or there would be none. Nothing is counted up
    // or down here.
    unsafe {
        let py = Python::assume_attached();
        let Some(types) = TYPE.get(py) else { return 0 };
        let mut result = 0;
        let mut show = |object: *mut ffi::PyObject| {
            if result == 0 && !object.is_null() {
                result = visit(object, argument);
            }
        };
        show(ffi::Py_TYPE(object).cast());
        types.base_slots.iter().for_each(|slot| show(slot.get(object)));
        if let Some(open) = data(types, object).open.get() {
            show(open.event_loop.as_ptr());
            open.stream.upper().for_each_held(&mut |held| show(held.as_ptr()));
            open.contexts.show(&mut show);
            open.stream.for_each_chunk(&mut |chunk| {
                if let PyChunk::Bytes(bytes) = chunk {
                    show(bytes.as_ptr());
                }
            });
        }
        result
    }
}

pub(super) unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector passes an instance.
    unsafe {
        let py = Python::assume_attached();
        let Some(types) = TYPE.get(py) else { return 0 };
        if let Some(open) = data(types, object).open.get() {
            open.stream.upper().clear();
            open.contexts.forget();
        }
        types.base_slots.iter().for_each(|slot| slot.set(object, std::ptr::null_mut()));
    }
    0
}
