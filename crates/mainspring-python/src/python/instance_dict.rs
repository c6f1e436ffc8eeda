//! `InstanceDict`: the attributes of an instance, without a lookup in its class.

use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ptr::null_mut;

/// The `__dict__` of an object.
pub struct InstanceDict(Obj);

impl InstanceDict {
    /// Raises `AttributeError` if the object has none.
    #[inline]
    pub fn of(py: Python<'_>, object: &Obj) -> PyResult<Self> {
        // SAFETY: a live object; returns a new reference to a dictionary, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyObject_GenericGetDict(object.as_ptr(), null_mut())).map(Self) }
    }

    /// The number of attributes.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: a live dictionary.
        unsafe { ffi::PyDict_Size(self.0.as_ptr()) as usize }
    }

    /// `None` if there is no such attribute.
    #[inline]
    pub fn get(&self, py: Python<'_>, name: &Py<PyString>) -> PyResult<Option<Obj>> {
        // SAFETY: a live dictionary and key. Returns a borrowed reference, or null, which may come with an exception.
        unsafe {
            let value = ffi::PyDict_GetItemWithError(self.0.as_ptr(), name.as_ptr());
            if !value.is_null() {
                return Ok(Some(Obj::from_borrowed(value)));
            }
            PyErr::take(py).map_or(Ok(None), Err)
        }
    }

    #[inline]
    pub fn contains(&self, py: Python<'_>, name: &Py<PyString>) -> PyResult<bool> {
        // SAFETY: a live dictionary and key; a negative result comes with an exception.
        match unsafe { ffi::PyDict_Contains(self.0.as_ptr(), name.as_ptr()) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// Sets an attribute. The drop of its former value may run Python code.
    #[inline]
    pub fn set(&self, py: Python<'_>, name: &Py<PyString>, value: &Obj) -> PyResult<()> {
        // SAFETY: a live dictionary, key and value.
        match unsafe { ffi::PyDict_SetItem(self.0.as_ptr(), name.as_ptr(), value.as_ptr()) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
