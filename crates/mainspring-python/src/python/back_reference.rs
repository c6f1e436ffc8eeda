//! `BackReference`: a pointer from a part of an object to the object itself.

use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ptr::NonNull;

/// A pointer from a part of an object to the object itself, which does not keep it alive.
///
/// Rule: a `BackReference` is stored in the native data of the object that it refers to, or is removed from where it is
/// stored when that data is dropped (the engine's table of fd owners), or refers to an object that the running function
/// holds, and is removed before that function returns. So the memory of the object is there while the pointer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BackReference(NonNull<ffi::PyObject>);

impl BackReference {
    pub fn new(object: &Bound<'_, PyAny>) -> Self {
        // SAFETY: the pointer of a reference is not null.
        BackReference(unsafe { NonNull::new_unchecked(object.as_ptr()) })
    }

    /// A pointer to an object that the caller holds for as long as the pointer is stored.
    #[inline]
    pub fn to_held(object: &Obj) -> Self {
        // SAFETY: the pointer of a reference is not null.
        BackReference(unsafe { NonNull::new_unchecked(object.as_ptr()) })
    }

    /// A new reference; `None` if the object is being deallocated. A weak reference's callback can run at that moment,
    /// and must not revive the object.
    #[inline]
    pub fn get(self) -> Option<Obj> {
        // SAFETY: the memory of the object is there, by the rule of this type.
        unsafe { (ffi::Py_REFCNT(self.0.as_ptr()) > 0).then(|| Obj::from_borrowed(self.0.as_ptr())) }
    }

    /// As [`BackReference::get`], as a PyO3 reference.
    #[inline]
    pub fn bind<'py>(self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: `get` returned an owned reference, which is passed on.
        self.get().map(|object| unsafe { Bound::from_owned_ptr(py, object.into_ptr()) })
    }

    /// The class of the object, and the class's version tag: CPython changes it with every change of the class or of one
    /// of its bases. 0 if the class has none.
    #[inline]
    pub fn class_version(self) -> (usize, u32) {
        // SAFETY: the memory of the object is there, by the rule of this type; the object holds its class.
        unsafe {
            let class = ffi::Py_TYPE(self.0.as_ptr());
            (class as usize, (*class).tp_version_tag)
        }
    }
}
