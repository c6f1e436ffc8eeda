//! Classes of ours that really are asyncio's: heap types on top of `asyncio.Handle`, `asyncio.Transport` and so on.
//!
//! Those are Python classes with `__slots__`, which PyO3 cannot extend. Here a type is made from a spec whose
//! instances begin with the base's whole layout, slots included, and go on with room for our own data. The base's
//! slots are found by their member descriptors, so both sides share them: what `handle._callback` shows is what
//! our code runs.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{CStr, c_int, c_uint, c_void};

/// Where a slot lies in an instance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot(ffi::Py_ssize_t);

/// The head of CPython's member descriptors, the objects that stand for `__slots__` in a class.
#[repr(C)]
struct MemberDescriptor {
    head: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut ffi::PyObject,
    qualname: *mut ffi::PyObject,
    member: *mut ffi::PyMemberDef,
}

impl Slot {
    /// The place of `class`'s slot `name`.
    pub fn find(class: &Bound<'_, PyType>, name: &str) -> PyResult<Self> {
        let descriptor = class.getattr(name)?;
        // SAFETY: the type object is a static of the interpreter.
        let member_type = &raw mut ffi::PyMemberDescr_Type;
        // SAFETY: the type was compared before the cast; the member definition of a live descriptor is alive.
        unsafe {
            if ffi::Py_TYPE(descriptor.as_ptr()) != member_type {
                return Err(PyTypeError::new_err(format!("{class}.{name} is not a slot")));
            }
            let member = (*descriptor.as_ptr().cast::<MemberDescriptor>()).member;
            Ok(Slot((*member).offset))
        }
    }

    /// The slot of an instance.
    ///
    /// # Safety
    /// `object` is a live instance of the class this slot was found in.
    pub unsafe fn of(self, object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
        // SAFETY: the slot lies inside the instance.
        unsafe { object.byte_offset(self.0).cast() }
    }

    /// A borrowed reference to what the slot holds; null if it is empty.
    ///
    /// # Safety
    /// As [`Slot::of`].
    pub unsafe fn get(self, object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: passed on.
        unsafe { *self.of(object) }
    }

    /// Fills a slot that is empty, in a new instance; takes over the reference.
    ///
    /// # Safety
    /// As [`Slot::of`], and the slot is empty.
    pub unsafe fn fill(self, object: *mut ffi::PyObject, value: *mut ffi::PyObject) {
        // SAFETY: passed on.
        unsafe { *self.of(object) = value }
    }

    /// Puts a value into the slot, takes over the reference, and drops what was there, last.
    ///
    /// # Safety
    /// As [`Slot::of`].
    pub unsafe fn set(self, object: *mut ffi::PyObject, value: *mut ffi::PyObject) {
        // SAFETY: passed on; the old value is dropped when the slot no longer holds it, since that may run code
        // that looks at the slot.
        unsafe {
            let old = std::mem::replace(&mut *self.of(object), value);
            ffi::Py_XDECREF(old);
        }
    }
}

/// All the slots that a class and its bases have, for dealing with instances as a whole.
pub fn all_slots(class: &Bound<'_, PyType>) -> PyResult<Vec<Slot>> {
    let mut slots = Vec::new();
    for base in class.mro() {
        let base = base.cast_into::<PyType>()?;
        let Ok(names) = base.getattr("__dict__")?.get_item("__slots__") else { continue };
        for name in names.try_iter()? {
            let name: String = name?.extract()?;
            slots.push(Slot::find(&base, &name)?);
        }
    }
    Ok(slots)
}

/// What a new type is made of.
pub struct Spec<'a, 'py> {
    /// Qualified name: `mainspring._mainspring.Handle`.
    pub name: &'static CStr,
    /// What it derives from, as in a class statement.
    pub bases: &'a [Bound<'py, PyType>],
    /// Bytes of our own data behind the base's layout, aligned to eight.
    pub extra: usize,
    pub methods: Vec<ffi::PyMethodDef>,
    /// Further slots; the function pointers have the types CPython's documentation gives.
    pub slots: Vec<(c_int, *mut c_void)>,
    /// Whether Python code may derive from it.
    pub is_base: bool,
}

/// A type made from a [`Spec`].
pub struct NativeType {
    pub class: Py<PyType>,
    /// Where our own data begins.
    pub offset: usize,
}

impl Spec<'_, '_> {
    /// Makes the type.
    pub fn create(mut self) -> PyResult<NativeType> {
        let bases = self.bases;
        let Some(first) = bases.first() else {
            return Err(PyTypeError::new_err("a native type needs a base"));
        };
        let py = first.py();
        // One of the bases has the layout that the others' are part of, or the interpreter refuses them below.
        // SAFETY: live type objects.
        let sizes = bases.iter().map(|base| unsafe { (*base.as_type_ptr()).tp_basicsize });
        let base_size = sizes.max().unwrap_or_default() as usize;
        let offset = base_size.next_multiple_of(8);
        self.methods.push(ffi::PyMethodDef::zeroed());
        let mut slots: Vec<ffi::PyType_Slot> = vec![ffi::PyType_Slot {
            slot: ffi::Py_tp_methods,
            // The type keeps pointers to the definitions for as long as the process lives.
            pfunc: Vec::leak(self.methods).as_mut_ptr().cast(),
        }];
        slots.extend(self.slots.iter().map(|&(slot, pfunc)| ffi::PyType_Slot { slot, pfunc }));
        slots.push(ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() });
        let base_type = if self.is_base { ffi::Py_TPFLAGS_BASETYPE } else { 0 };
        // Without a traverse function of its own a type inherits the base's, and the flag with it.
        let traverses = self.slots.iter().any(|&(slot, _)| slot == ffi::Py_tp_traverse);
        let collected = if traverses { ffi::Py_TPFLAGS_HAVE_GC } else { 0 };
        let mut spec = ffi::PyType_Spec {
            name: self.name.as_ptr(),
            basicsize: (offset + self.extra) as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | collected | base_type) as c_uint,
            slots: slots.as_mut_ptr(),
        };
        let bases = PyTuple::new(py, bases)?;
        // SAFETY: the spec is complete and its slots end with a zero; the interpreter copies what it keeps, but
        // for the name and the methods, which are static.
        let class = unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, bases.as_ptr()))?
        };
        Ok(NativeType { class: class.cast_into::<PyType>()?.unbind(), offset })
    }
}

impl NativeType {
    pub fn as_type_ptr(&self) -> *mut ffi::PyTypeObject {
        self.class.as_ptr().cast()
    }
}
