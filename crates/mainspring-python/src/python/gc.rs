//! Garbage collection of PyO3 classes.

use super::object::Obj;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use std::mem::ManuallyDrop;

/// Passes a reference to the garbage collector.
pub fn visit(visit: &PyVisit<'_>, object: &Obj) -> Result<(), PyTraverseError> {
    // SAFETY: a live object. The reference is never dropped, so no reference count changes, as the collector demands.
    let object = unsafe { Bound::from_owned_ptr(Python::assume_attached(), object.as_ptr()) };
    visit.call(&*ManuallyDrop::new(object.unbind()))
}
