//! `Obj`: an owned reference to a Python object that the engine can clone and drop.
//!
//! PyO3's `Py` checks on every clone and drop whether the thread is attached. The engine's queues clone and drop one
//! reference per callback, where this check is measurable. `Obj` relies on a rule instead: **an `Obj` is created,
//! cloned, used and dropped only while the thread is attached to the interpreter.** Only [`interpreter::detached`]
//! releases the interpreter, and its closure touches no `Obj`.
//!
//! `&Obj` is also the type of a borrowed reference, such as an argument of a call: `Obj` has the layout of a pointer.
//!
//! [`interpreter::detached`]: super::interpreter::detached

use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

/// An owned reference. See the module comment for the rule that makes it sound.
#[repr(transparent)]
pub struct Obj(NonNull<ffi::PyObject>);

// SAFETY: any attached thread may use a reference, and by the module's rule only attached threads do.
unsafe impl Send for Obj {}
// SAFETY: as above; a shared `Obj` gives out only the pointer and new references.
unsafe impl Sync for Obj {}

impl Obj {
    /// Takes over a reference that a C function returned, or fetches the exception that it raised.
    ///
    /// # Safety
    /// `ptr` is a reference that the caller owns and gives up, or null with an exception set.
    #[inline]
    pub unsafe fn from_call(py: Python<'_>, ptr: *mut ffi::PyObject) -> PyResult<Self> {
        NonNull::new(ptr).map(Obj).ok_or_else(|| PyErr::fetch(py))
    }

    /// The name of the object's type as CPython's own error messages show it.
    pub fn type_name(&self) -> String {
        // SAFETY: a live object, whose type lives as long and has a name that ends with a zero.
        let name = unsafe { CStr::from_ptr((*ffi::Py_TYPE(self.as_ptr())).tp_name) };
        name.to_string_lossy().into_owned()
    }

    /// Creates a new reference to a borrowed object.
    ///
    /// # Safety
    /// `ptr` points to a live object.
    #[inline]
    pub unsafe fn from_borrowed(ptr: *mut ffi::PyObject) -> Self {
        // SAFETY: the object is alive, hence `ptr` is not null.
        unsafe {
            ffi::Py_INCREF(ptr);
            Obj(NonNull::new_unchecked(ptr))
        }
    }

    /// Views a borrowed pointer as a borrowed `Obj`.
    ///
    /// # Safety
    /// `ptr` points to an object that stays alive while `ptr` is borrowed.
    #[inline]
    pub unsafe fn from_ptr_ref(ptr: &*mut ffi::PyObject) -> &Self {
        // SAFETY: `Obj` is a transparent pointer; a live object's is not null. A shared `Obj` is never dropped.
        unsafe { &*std::ptr::from_ref(ptr).cast::<Obj>() }
    }

    /// Views an array of `count` borrowed pointers as borrowed `Obj`s.
    ///
    /// # Safety
    /// As [`Obj::from_ptr_ref`] for each of them; `ptrs` may be null if `count` is 0.
    #[inline]
    pub unsafe fn slice_from_ptrs<'a>(ptrs: *const *mut ffi::PyObject, count: usize) -> &'a [Self] {
        if ptrs.is_null() {
            return &[];
        }
        // SAFETY: the caller passes `count` pointers; for the layout see `from_ptr_ref`.
        unsafe { std::slice::from_raw_parts(ptrs.cast::<Obj>(), count) }
    }

    #[inline]
    pub fn none() -> Self {
        // SAFETY: `None` lives as long as the interpreter.
        unsafe { Obj::from_borrowed(ffi::Py_None()) }
    }

    #[inline]
    pub fn bool(value: bool) -> Self {
        // SAFETY: both booleans live as long as the interpreter.
        unsafe { Obj::from_borrowed(if value { ffi::Py_True() } else { ffi::Py_False() }) }
    }

    /// A new `float`. PyO3's constructor panics if there is no memory.
    #[inline]
    pub fn float(py: Python<'_>, value: f64) -> PyResult<Self> {
        // SAFETY: returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyFloat_FromDouble(value)) }
    }

    /// A new `int`.
    #[inline]
    pub fn int(py: Python<'_>, value: usize) -> PyResult<Self> {
        // SAFETY: returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyLong_FromSize_t(value)) }
    }

    #[inline]
    pub fn as_ptr(&self) -> *mut ffi::PyObject {
        self.0.as_ptr()
    }

    /// Gives the reference up to the caller.
    #[inline]
    pub fn into_ptr(self) -> *mut ffi::PyObject {
        ManuallyDrop::new(self).as_ptr()
    }

    /// Whether both refer to the same object.
    #[inline]
    pub fn is(&self, other: &Obj) -> bool {
        self.0 == other.0
    }

    #[inline]
    pub fn is_none(&self) -> bool {
        // SAFETY: reads the address of a static object.
        self.as_ptr() == unsafe { ffi::Py_None() }
    }

    /// The value as `bool()` sees it.
    #[inline]
    pub fn is_true(&self, py: Python<'_>) -> PyResult<bool> {
        // SAFETY: a live object; a negative result comes with an exception.
        match unsafe { ffi::PyObject_IsTrue(self.as_ptr()) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => Err(PyErr::fetch(py)),
        }
    }

    /// The same object as a PyO3 reference.
    #[inline]
    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the object is kept alive by this reference.
        unsafe { Bound::from_borrowed_ptr(py, self.as_ptr()) }
    }

    /// The Rust value of an object of PyO3 class `T`; `None` for another type. The class is frozen, so shared
    /// references are all that ever exist.
    #[inline]
    pub fn get_pyclass<T>(&self, py: Python<'_>) -> Option<&T>
    where
        T: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
    {
        // SAFETY: a live object. The value does not move while its object lives, which the borrow of `self` ensures.
        unsafe {
            let object = Borrowed::from_ptr(py, self.as_ptr());
            let value: &T = object.cast::<T>().ok()?.get();
            Some(&*std::ptr::from_ref(value))
        }
    }

    /// The number as `float()` sees it.
    #[inline]
    pub fn to_f64(&self, py: Python<'_>) -> PyResult<f64> {
        // SAFETY: a live object; -1.0 may come with an exception.
        let value = unsafe { ffi::PyFloat_AsDouble(self.as_ptr()) };
        if value == -1.0
            && let Some(error) = PyErr::take(py)
        {
            return Err(error);
        }
        Ok(value)
    }

    /// The value of an `int`; an exception for another type or a value out of range.
    #[inline]
    pub fn to_usize(&self, py: Python<'_>) -> PyResult<usize> {
        // SAFETY: a live object; the largest value may come with an exception.
        let value = unsafe { ffi::PyLong_AsSize_t(self.as_ptr()) };
        if value == usize::MAX
            && let Some(error) = PyErr::take(py)
        {
            return Err(error);
        }
        Ok(value)
    }

    /// `self + other`.
    #[inline]
    pub fn add(&self, py: Python<'_>, other: &Obj) -> PyResult<Obj> {
        // SAFETY: live objects; returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyNumber_Add(self.as_ptr(), other.as_ptr())) }
    }

    /// `self.name`.
    #[inline]
    pub fn getattr(&self, py: Python<'_>, name: &Py<PyString>) -> PyResult<Obj> {
        // SAFETY: live objects; returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyObject_GetAttr(self.as_ptr(), name.as_ptr())) }
    }

    /// `self[start:end]`.
    pub fn slice(&self, py: Python<'_>, start: usize, end: Option<usize>) -> PyResult<Obj> {
        let start = Obj::int(py, start)?;
        let end = end.map(|end| Obj::int(py, end)).transpose()?;
        let end = end.as_ref().map_or(null_mut(), Obj::as_ptr);
        // SAFETY: live objects; a null pointer leaves an end of the slice open.
        unsafe {
            let slice = Obj::from_call(py, ffi::PySlice_New(start.as_ptr(), end, null_mut()))?;
            Obj::from_call(py, ffi::PyObject_GetItem(self.as_ptr(), slice.as_ptr()))
        }
    }

    /// `memoryview(self)`.
    #[inline]
    pub fn memory_view(&self, py: Python<'_>) -> PyResult<Obj> {
        // SAFETY: a live object; returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyMemoryView_FromObject(self.as_ptr())) }
    }

    /// `self.name(*args)`, with at most two arguments.
    #[inline]
    pub fn call_method<const N: usize>(
        &self,
        py: Python<'_>,
        name: &Py<PyString>,
        args: [&Obj; N],
    ) -> PyResult<Obj> {
        const { assert!(N <= 2) };
        let mut all = [self.as_ptr(); 3];
        for (place, argument) in all.iter_mut().skip(1).zip(args) {
            *place = argument.as_ptr();
        }
        // SAFETY: the receiver and `N` arguments, at most two, all alive for the call. Returns a new reference, or null
        // with an exception.
        unsafe {
            let result = ffi::PyObject_VectorcallMethod(name.as_ptr(), all.as_ptr(), N + 1, null_mut());
            Obj::from_call(py, result)
        }
    }

    /// `self(*args[:positional], **dict(zip(kwnames, args[positional:])))`.
    #[inline]
    pub fn vectorcall(
        &self,
        py: Python<'_>,
        args: &[ObjRef<'_>],
        positional: usize,
        kwnames: Option<&Py<PyTuple>>,
    ) -> PyResult<Obj> {
        let keywords = kwnames.map_or(0, |names| names.bind(py).len());
        if positional + keywords != args.len() {
            return Err(PyTypeError::new_err("the number of arguments does not match the keyword names"));
        }
        let kwnames = kwnames.map_or(null_mut(), Py::as_ptr);
        // SAFETY: `ObjRef` is a transparent pointer to a live object. There is one argument for each keyword name, as was
        // checked; the names are strings, or the callee raises. Returns a new reference, or null with an exception.
        unsafe {
            let args = args.as_ptr().cast::<*mut ffi::PyObject>();
            Obj::from_call(py, ffi::PyObject_Vectorcall(self.as_ptr(), args, positional, kwnames))
        }
    }

    /// `self(*args)`, where `args` is a tuple; another type is an exception.
    #[inline]
    pub fn call_tuple(&self, py: Python<'_>, args: &Obj) -> PyResult<Obj> {
        // SAFETY: live objects, `args` is checked by the callee's `PyObject_Call` only in debug builds, hence here.
        unsafe {
            if ffi::PyTuple_Check(args.as_ptr()) == 0 {
                return Err(PyTypeError::new_err("the arguments are not a tuple"));
            }
            Obj::from_call(py, ffi::PyObject_Call(self.as_ptr(), args.as_ptr(), null_mut()))
        }
    }

    /// `self(*args, **keywords)`. The callee gets `keywords` itself if it is written in C.
    #[inline]
    pub fn call_with_keywords(
        &self,
        py: Python<'_>,
        args: &[Obj],
        keywords: &Bound<'_, PyDict>,
    ) -> PyResult<Obj> {
        let args = Obj::tuple(py, args)?;
        // SAFETY: live objects: a tuple and a dictionary. Returns a new reference, or null with an exception.
        unsafe { Obj::from_call(py, ffi::PyObject_Call(self.as_ptr(), args.as_ptr(), keywords.as_ptr())) }
    }

    #[inline]
    pub fn is_tuple(&self) -> bool {
        // SAFETY: a live object.
        unsafe { ffi::PyTuple_Check(self.as_ptr()) != 0 }
    }

    /// A new tuple of new references to `items`.
    #[inline]
    pub fn tuple(py: Python<'_>, items: &[Obj]) -> PyResult<Obj> {
        // SAFETY: the new tuple has `items.len()` empty places; each gets a reference of its own, once.
        unsafe {
            let tuple = Obj::from_call(py, ffi::PyTuple_New(items.len() as ffi::Py_ssize_t))?;
            for (index, item) in items.iter().enumerate() {
                ffi::PyTuple_SET_ITEM(tuple.as_ptr(), index as ffi::Py_ssize_t, item.clone().into_ptr());
            }
            Ok(tuple)
        }
    }
}

/// Sets an attribute as `object.__setattr__()` does, or deletes it if there is no value.
pub fn generic_setattr(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyAny>,
    value: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let value = value.map_or(null_mut(), Bound::as_ptr);
    // SAFETY: live objects, and a value that is alive or null.
    match unsafe { ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value) } {
        0 => Ok(()),
        _ => Err(PyErr::fetch(object.py())),
    }
}

impl<T> From<Bound<'_, T>> for Obj {
    #[inline]
    fn from(bound: Bound<'_, T>) -> Self {
        // SAFETY: takes over the reference that `into_ptr` gives up; it is never null.
        unsafe { Obj(NonNull::new_unchecked(bound.into_ptr())) }
    }
}

impl<T> From<&Bound<'_, T>> for Obj {
    #[inline]
    fn from(bound: &Bound<'_, T>) -> Self {
        bound.clone().into()
    }
}

impl Clone for Obj {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the object is alive while this reference is.
        unsafe { Obj::from_borrowed(self.as_ptr()) }
    }
}

impl Drop for Obj {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this reference is owned, and given up once, by an attached thread (the module's rule).
        unsafe { ffi::Py_DECREF(self.as_ptr()) }
    }
}

/// A borrowed reference with the layout of a pointer, for arrays of arguments.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ObjRef<'a>(NonNull<ffi::PyObject>, PhantomData<&'a Obj>);

impl<'a> From<&'a Obj> for ObjRef<'a> {
    #[inline]
    fn from(object: &'a Obj) -> Self {
        ObjRef(object.0, PhantomData)
    }
}

impl<'a, T> From<&'a Bound<'_, T>> for ObjRef<'a> {
    #[inline]
    fn from(object: &'a Bound<'_, T>) -> Self {
        // SAFETY: the pointer of a `Bound` is not null.
        ObjRef(unsafe { NonNull::new_unchecked(object.as_ptr()) }, PhantomData)
    }
}

impl Deref for ObjRef<'_> {
    type Target = Obj;

    #[inline]
    fn deref(&self) -> &Obj {
        // SAFETY: both are transparent pointers; the object lives as long as the lifetime of the reference.
        unsafe { &*(&raw const self.0).cast::<Obj>() }
    }
}

/// Whether two references are to the same object.
#[inline]
pub fn is_same(object: &Obj, other: &Bound<'_, PyAny>) -> bool {
    object.as_ptr() == other.as_ptr()
}
