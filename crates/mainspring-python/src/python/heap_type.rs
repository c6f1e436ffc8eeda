//! Heap types that derive from asyncio's classes: `asyncio.Handle`, `asyncio.Transport` and so on.
//!
//! Those are Python classes with `__slots__`, which PyO3 cannot extend. The instances of a type made here begin with the
//! layout of the base, slots included, and continue with our own data. The slots are found by the member descriptors of
//! the base, so asyncio's code and ours share them: `handle._callback` shows what our code runs.

use super::object::Obj;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{CStr, c_int, c_uint, c_void};

/// The offset of a slot in an instance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slot(ffi::Py_ssize_t);

/// The first fields of CPython's member descriptors, which represent `__slots__` in a class.
#[repr(C)]
struct MemberDescriptor {
    head: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut ffi::PyObject,
    qualname: *mut ffi::PyObject,
    member: *mut ffi::PyMemberDef,
}

impl Slot {
    /// The slot `name` of `class`.
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

    /// The address of the slot in an instance.
    ///
    /// # Safety
    /// `object` is a live instance of the class that the slot was found in, or of a class derived from it.
    #[inline]
    unsafe fn of(self, object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
        // SAFETY: the slot lies inside the instance.
        unsafe { object.byte_offset(self.0).cast() }
    }

    /// A borrowed reference to the content of the slot; null if it is empty.
    ///
    /// # Safety
    /// `object` is a live instance of the class that the slot was found in, or of a class derived from it.
    #[inline]
    pub unsafe fn get(self, object: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: passed on.
        unsafe { *self.of(object) }
    }

    /// Sets a slot that is empty, in a new instance.
    ///
    /// # Safety
    /// As [`Slot::get`], and the slot is empty.
    #[inline]
    pub unsafe fn initialize(self, object: *mut ffi::PyObject, value: Obj) {
        // SAFETY: passed on.
        unsafe { *self.of(object) = value.into_ptr() }
    }

    /// Sets the slot, or empties it, and drops the former content.
    ///
    /// # Safety
    /// As [`Slot::get`].
    #[inline]
    pub unsafe fn set(self, object: *mut ffi::PyObject, value: Option<Obj>) {
        let value = value.map_or(std::ptr::null_mut(), Obj::into_ptr);
        // SAFETY: passed on. The former content is dropped after the slot has changed: the drop may run code that reads
        // the slot.
        unsafe {
            let former = std::mem::replace(&mut *self.of(object), value);
            ffi::Py_XDECREF(former);
        }
    }
}

/// The slot for the weak references to an instance.
pub fn weak_references(class: &Bound<'_, PyType>) -> Slot {
    // SAFETY: a live type object.
    Slot(unsafe { (*class.as_type_ptr()).tp_weaklistoffset })
}

/// All slots of a class and its bases.
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

/// The definition of a method: CPython keeps a pointer to it for as long as the class exists.
#[repr(transparent)]
pub struct MethodDef(ffi::PyMethodDef);

impl MethodDef {
    pub(super) const fn new(
        name: &'static CStr,
        function: ffi::PyMethodDefPointer,
        flags: c_int,
        doc: &'static CStr,
    ) -> Self {
        MethodDef(ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: function,
            ml_flags: flags,
            ml_doc: doc.as_ptr(),
        })
    }

    /// Adds the method to a class that exists. `Method` makes sure that it is the right one.
    pub(super) fn add_to(self, class: &Bound<'_, PyType>) -> PyResult<()> {
        let definition: &'static mut MethodDef = Box::leak(Box::new(self));
        // SAFETY: the definition lives for ever, and its name is a static string; the result is a new reference, or
        // null with an exception.
        unsafe {
            let name = CStr::from_ptr(definition.0.ml_name).to_string_lossy();
            let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), &mut definition.0);
            class.setattr(&*name, Bound::from_owned_ptr_or_err(class.py(), descriptor)?)
        }
    }

    /// Adds the function to a module.
    pub(super) fn add_to_module(self, module: &Bound<'_, PyModule>) -> PyResult<()> {
        let definitions: &'static mut [MethodDef] =
            Box::leak(Box::new([self, MethodDef(ffi::PyMethodDef::zeroed())]));
        // SAFETY: the definitions live for ever and end with a zeroed one.
        match unsafe { ffi::PyModule_AddFunctions(module.as_ptr(), definitions.as_mut_ptr().cast()) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(module.py())),
        }
    }
}

/// The parts of a new type.
pub struct Spec<'a, 'py> {
    /// Qualified name: `mainspring._mainspring.Handle`.
    pub name: &'static CStr,
    pub bases: &'a [Bound<'py, PyType>],
    /// Bytes of our own data behind the layout of the base, aligned to eight.
    pub extra: usize,
    /// The offset of our own data, if it has to be larger than the layout of the base.
    pub min_offset: usize,
    pub methods: Vec<MethodDef>,
    /// Further slots of the type.
    pub slots: Vec<(c_int, *mut c_void)>,
    /// Whether Python code may derive from it.
    pub is_base: bool,
}

/// A type made from a [`Spec`].
pub struct NativeType {
    pub class: Py<PyType>,
    /// The offset of our own data in an instance.
    pub offset: usize,
}

impl Spec<'_, '_> {
    /// Creates the type.
    ///
    /// # Safety
    /// The methods and the slot functions are written for instances of this type, and the slot functions have the
    /// signatures that CPython's documentation gives.
    pub unsafe fn create(mut self) -> PyResult<NativeType> {
        let bases = self.bases;
        let Some(first) = bases.first() else {
            return Err(PyTypeError::new_err("a native type needs a base"));
        };
        let py = first.py();
        // The layout of one base includes those of the others; otherwise CPython refuses the bases below.
        // SAFETY: live type objects.
        let sizes = bases.iter().map(|base| unsafe { (*base.as_type_ptr()).tp_basicsize });
        let base_size = sizes.max().unwrap_or_default() as usize;
        let offset = base_size.max(self.min_offset).next_multiple_of(8);
        self.methods.push(MethodDef(ffi::PyMethodDef::zeroed()));
        let mut slots: Vec<ffi::PyType_Slot> = vec![ffi::PyType_Slot {
            slot: ffi::Py_tp_methods,
            // CPython keeps a pointer to the definitions for as long as the type exists.
            pfunc: Vec::leak(self.methods).as_mut_ptr().cast(),
        }];
        slots.extend(self.slots.iter().map(|&(slot, pfunc)| ffi::PyType_Slot { slot, pfunc }));
        slots.push(ffi::PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() });
        let base_type = if self.is_base { ffi::Py_TPFLAGS_BASETYPE } else { 0 };
        // A type without a traverse function inherits the one of its base, and this flag with it.
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
        // SAFETY: the functions are right by the caller's promise. The spec is complete and its slots end with a zero. CPython copies what it keeps, except the name and the
        // methods, which live for ever.
        let class = unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, bases.as_ptr()))?
        };
        Ok(NativeType { class: class.cast_into::<PyType>()?.unbind(), offset })
    }
}

impl NativeType {
    #[inline]
    pub fn as_type_ptr(&self) -> *mut ffi::PyTypeObject {
        self.class.as_ptr().cast()
    }
}
