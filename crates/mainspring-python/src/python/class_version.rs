//! Changes of Python classes, by their version tags.

use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The version tag of a class: CPython changes it with every change of the class or of one of its bases. 0 if the class
/// has none, as before the first lookup in it.
#[inline]
pub fn of(class: &Py<PyType>) -> u32 {
    // SAFETY: a live type object.
    unsafe { (*class.as_ptr().cast::<ffi::PyTypeObject>()).tp_version_tag }
}

/// Whether the type of an object is `class` itself.
#[inline]
pub fn is_exact(object: &Obj, class: &Py<PyType>) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::Py_TYPE(object.as_ptr()).cast() == class.as_ptr() }
}
