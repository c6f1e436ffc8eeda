//! Handles that other threads share: what `call_soon_threadsafe()` gives from Python 3.14 on.

use super::{CallParts, HandleTypes, fill, new_handle};
use crate::python::free_list::FreeList;
use crate::python::heap_type::{NativeType, Slot, Spec};
use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::{c_int, c_void};

/// `asyncio.events._ThreadSafeHandle`: holds a lock while its callback runs, so that another thread that cancels it
/// knows whether it ran.
pub struct SharedHandles {
    native: NativeType,
    pub(super) lock: Slot,
    pub(super) free: FreeList,
    /// `threading.RLock`.
    make_lock: Py<PyAny>,
}

impl SharedHandles {
    pub(super) fn load(
        events: &Bound<'_, PyModule>,
        slots: Vec<(c_int, *mut c_void)>,
    ) -> PyResult<Option<Self>> {
        let Ok(base) = events.getattr("_ThreadSafeHandle") else { return Ok(None) };
        let base = base.cast_into::<PyType>()?;
        let native = Spec {
            name: c"mainspring._mainspring.ThreadSafeHandle",
            bases: std::slice::from_ref(&base),
            extra: 0,
            // Cancelling is the base's own, under the lock.
            methods: vec![],
            slots,
            is_base: false,
        }
        .create()?;
        Ok(Some(SharedHandles {
            native,
            lock: Slot::find(&base, "_lock")?,
            free: FreeList::new(),
            make_lock: events.py().import("threading")?.getattr("RLock")?.unbind(),
        }))
    }

    /// Whether `class` is this kind's.
    pub(super) fn is_class(&self, class: *mut ffi::PyTypeObject) -> bool {
        class == self.native.as_type_ptr()
    }

    /// The lock of a handle, if it is of this kind.
    ///
    /// # Safety
    /// `handle` is a live object.
    pub(super) unsafe fn lock_of(&self, handle: *mut ffi::PyObject) -> Option<Obj> {
        // SAFETY: the slot belongs to the type, which is compared first.
        unsafe {
            let lock = if ffi::Py_TYPE(handle) == self.native.as_type_ptr() {
                self.lock.get(handle)
            } else {
                std::ptr::null_mut()
            };
            (!lock.is_null()).then(|| Obj::from_borrowed(lock))
        }
    }
}

/// Makes the handle of a call from another thread.
///
/// # Safety
/// As [`new_handle`].
pub unsafe fn new_shared_handle(py: Python<'_>, call: CallParts<'_>) -> PyResult<Obj> {
    let types = HandleTypes::get(py)?;
    // SAFETY: passed on; the slot is empty in a new instance.
    unsafe {
        let Some(shared) = &types.shared else { return new_handle(py, call) };
        let lock = shared.make_lock.bind(py).call0()?;
        let handle = fill(py, types, &shared.native, &shared.free, call)?;
        shared.lock.fill(handle.as_ptr(), lock.into_ptr());
        Ok(handle)
    }
}
