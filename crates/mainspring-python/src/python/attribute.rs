//! Attributes of heap types that are computed: CPython's "getset" descriptors.
//!
//! As for [`Method`](super::method::Method), the functions are safe, and belong to a class whose type CPython has checked.

use super::guard::{attach, catch_panic, enter};
use super::method::{Class, Receiver, trampoline};
use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;

/// An attribute of class `C`.
pub struct Attribute<C>(ffi::PyGetSetDef, PhantomData<C>);

impl<C: Class> Attribute<C> {
    /// `get` returns the value; `set` gets the new one, or `None` for `del`.
    pub const fn new<G, S>(name: &'static CStr, get: G, set: S, doc: &'static CStr) -> Self
    where
        G: Fn(Receiver<'_, C::Data>) -> PyResult<Obj> + Copy + 'static,
        S: Fn(Receiver<'_, C::Data>, Option<&Obj>) -> PyResult<()> + Copy + 'static,
    {
        trampoline::check_function(&get);
        trampoline::check_function(&set);
        let definition = ffi::PyGetSetDef {
            name: name.as_ptr(),
            get: Some(getter::<C, G>),
            set: Some(setter::<C, S>),
            doc: doc.as_ptr(),
            closure: null_mut(),
        };
        Attribute(definition, PhantomData)
    }
}

/// The array that `Py_tp_getset` needs. It lives for ever, as the type does.
pub fn definitions<C>(attributes: Vec<Attribute<C>>) -> *mut c_void {
    let mut definitions: Vec<_> = attributes.into_iter().map(|attribute| attribute.0).collect();
    definitions.push(ffi::PyGetSetDef::default());
    Vec::leak(definitions).as_mut_ptr().cast()
}

unsafe extern "C" fn getter<C, G>(this: *mut ffi::PyObject, _: *mut c_void) -> *mut ffi::PyObject
where
    C: Class,
    G: Fn(Receiver<'_, C::Data>) -> PyResult<Obj> + Copy + 'static,
{
    enter(|py| {
        // SAFETY: CPython calls this for an attribute of `C`, has checked the type of `this`, and keeps it alive.
        let (this, data) = unsafe {
            let this = Obj::from_ptr_ref(&this);
            (this, C::data(py, this)?)
        };
        trampoline::function::<G>()(Receiver { py, this, data })
    })
}

unsafe extern "C" fn setter<C, S>(
    this: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    _: *mut c_void,
) -> c_int
where
    C: Class,
    S: Fn(Receiver<'_, C::Data>, Option<&Obj>) -> PyResult<()> + Copy + 'static,
{
    attach(|py| {
        let set = || {
            // SAFETY: as in `getter`; the value is alive for the call, or null.
            let (this, data, value) = unsafe {
                let this = Obj::from_ptr_ref(&this);
                let value = if value.is_null() { None } else { Some(Obj::from_ptr_ref(&value)) };
                (this, C::data(py, this)?, value)
            };
            trampoline::function::<S>()(Receiver { py, this, data }, value)
        };
        match catch_panic(py, set) {
            Ok(()) => 0,
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}
