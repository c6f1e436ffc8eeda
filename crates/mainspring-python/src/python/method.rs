//! Methods with CPython's vectorcall convention, for paths that run per callback: there PyO3's argument parsing costs
//! more than the work itself.
//!
//! A [`Method`] is made from a safe function and belongs to a class: it can be added only to that class, so CPython has
//! checked the type of `self` when the function is called. [`trampoline`] holds the C functions.

use super::args::Args;
use super::heap_type::MethodDef;
use super::native_class::{NativeClass, NativeData};
use super::object::Obj;
use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::CStr;
use std::marker::PhantomData;

/// The receiver of a method call.
pub struct Receiver<'a, T> {
    pub py: Python<'a>,
    /// `self`.
    pub this: &'a Obj,
    /// The native data of `self`.
    pub data: &'a T,
}

impl<T> Clone for Receiver<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Receiver<'_, T> {}

/// A class that [`Method`]s can belong to.
pub trait Class: 'static {
    type Data: 'static;

    /// The native data of an instance.
    ///
    /// # Safety
    /// `this` is an instance of the class or of a class derived from it.
    unsafe fn data<'a>(py: Python<'_>, this: &'a Obj) -> PyResult<&'a Self::Data>;
}

/// The class of native data `T` (`native_class.rs`).
pub struct Native<T>(PhantomData<T>);

impl<T: NativeData> Class for Native<T> {
    type Data = T;

    #[inline]
    unsafe fn data<'a>(py: Python<'_>, this: &'a Obj) -> PyResult<&'a T> {
        // SAFETY: passed on.
        Ok(unsafe { NativeClass::<T>::get(py)?.data(this) })
    }
}

/// The PyO3 class `T`.
pub struct PyO3<T>(PhantomData<T>);

impl<T> Class for PyO3<T>
where
    T: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
{
    type Data = T;

    #[inline]
    unsafe fn data<'a>(py: Python<'_>, this: &'a Obj) -> PyResult<&'a T> {
        // SAFETY: the caller's promise. The class is frozen, so shared references are all there ever are; the value does
        // not move while its object lives, which the borrow of `this` ensures.
        unsafe {
            let object = Borrowed::from_ptr(py, this.as_ptr());
            Ok(&*std::ptr::from_ref(object.cast_unchecked::<T>().get()))
        }
    }
}

/// A module: the functions that it exports.
pub struct Module;

impl Class for Module {
    type Data = ();

    #[inline]
    unsafe fn data<'a>(_: Python<'_>, _: &'a Obj) -> PyResult<&'a ()> {
        Ok(&())
    }
}

/// What a method may return.
pub trait IntoObj {
    fn into_obj(self, py: Python<'_>) -> PyResult<Obj>;
}

impl IntoObj for Obj {
    #[inline]
    fn into_obj(self, _: Python<'_>) -> PyResult<Obj> {
        Ok(self)
    }
}

impl IntoObj for () {
    #[inline]
    fn into_obj(self, _: Python<'_>) -> PyResult<Obj> {
        Ok(Obj::none())
    }
}

impl IntoObj for bool {
    #[inline]
    fn into_obj(self, _: Python<'_>) -> PyResult<Obj> {
        Ok(Obj::bool(self))
    }
}

impl IntoObj for usize {
    #[inline]
    fn into_obj(self, py: Python<'_>) -> PyResult<Obj> {
        Obj::int(py, self)
    }
}

impl IntoObj for Option<Obj> {
    #[inline]
    fn into_obj(self, _: Python<'_>) -> PyResult<Obj> {
        Ok(self.unwrap_or_else(Obj::none))
    }
}

/// The definition of a method of class `C`.
pub struct Method<C>(MethodDef, PhantomData<C>);

impl<C: Class> Method<C> {
    /// A method without arguments.
    pub const fn noargs<F, R>(name: &'static CStr, function: F, doc: &'static CStr) -> Self
    where
        F: Fn(Receiver<'_, C::Data>) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        trampoline::check_function(&function);
        let function = ffi::PyMethodDefPointer { PyCFunction: trampoline::noargs::<C, F, R> };
        Method(MethodDef::new(name, function, ffi::METH_NOARGS, doc), PhantomData)
    }

    /// A method with one positional argument.
    pub const fn one<F, R>(name: &'static CStr, function: F, doc: &'static CStr) -> Self
    where
        F: Fn(Receiver<'_, C::Data>, &Obj) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        trampoline::check_function(&function);
        let function = ffi::PyMethodDefPointer { PyCFunction: trampoline::one::<C, F, R> };
        Method(MethodDef::new(name, function, ffi::METH_O, doc), PhantomData)
    }

    /// A method with positional and keyword arguments.
    pub const fn fastcall<F, R>(name: &'static CStr, function: F, doc: &'static CStr) -> Self
    where
        F: Fn(Receiver<'_, C::Data>, &Args<'_>) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        trampoline::check_function(&function);
        let function =
            ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: trampoline::fastcall::<C, F, R> };
        Method(MethodDef::new(name, function, ffi::METH_FASTCALL | ffi::METH_KEYWORDS, doc), PhantomData)
    }

    pub fn into_def(self) -> MethodDef {
        self.0
    }
}

/// Adds methods to a class that PyO3 created.
pub fn add_methods<T>(py: Python<'_>, methods: Vec<Method<PyO3<T>>>) -> PyResult<()>
where
    T: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
{
    let class: Bound<'_, PyType> = py.get_type::<T>();
    methods.into_iter().try_for_each(|method| method.into_def().add_to(&class))
}

/// Adds functions to a module.
pub fn add_functions(module: &Bound<'_, PyModule>, functions: Vec<Method<Module>>) -> PyResult<()> {
    functions.into_iter().try_for_each(|function| function.into_def().add_to_module(module))
}

/// The C functions that CPython calls.
///
/// The Rust function is a type parameter and not a value: a function item has no size, so a value of its type can be
/// had without storing one.
pub(super) mod trampoline {
    use super::super::guard::enter;
    use super::{Args, Class, IntoObj, Receiver};
    use crate::python::object::Obj;
    use pyo3::ffi;
    use pyo3::prelude::*;
    use std::ptr::NonNull;

    /// Refuses, at compile time, functions that are not function items or closures without captures.
    pub const fn check_function<F: Copy>(_: &F) {
        const { assert!(size_of::<F>() == 0) }
    }

    /// The value of a type without size.
    pub fn function<F: Copy + 'static>() -> &'static F {
        const { assert!(size_of::<F>() == 0) }
        // SAFETY: a value of `F` exists, since one was passed to the constructor of the method. It has no size, so that
        // every aligned pointer that is not null points to one, and it is `Copy`, so that there may be many.
        unsafe { NonNull::<F>::dangling().as_ref() }
    }

    pub unsafe extern "C" fn noargs<C, F, R>(
        this: *mut ffi::PyObject,
        _: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject
    where
        C: Class,
        F: Fn(Receiver<'_, C::Data>) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        enter(|py| {
            // SAFETY: CPython calls this as a method of `C`, has checked the type of `this`, and keeps it alive.
            let (this, data) = unsafe {
                let this = Obj::from_ptr_ref(&this);
                (this, C::data(py, this)?)
            };
            function::<F>()(Receiver { py, this, data })?.into_obj(py)
        })
    }

    pub unsafe extern "C" fn one<C, F, R>(
        this: *mut ffi::PyObject,
        argument: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject
    where
        C: Class,
        F: Fn(Receiver<'_, C::Data>, &Obj) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        enter(|py| {
            // SAFETY: as in `noargs`; the argument is alive for the call too.
            let (this, data, argument) = unsafe {
                let this = Obj::from_ptr_ref(&this);
                (this, C::data(py, this)?, Obj::from_ptr_ref(&argument))
            };
            function::<F>()(Receiver { py, this, data }, argument)?.into_obj(py)
        })
    }

    pub unsafe extern "C" fn fastcall<C, F, R>(
        this: *mut ffi::PyObject,
        args: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        kwnames: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject
    where
        C: Class,
        F: Fn(Receiver<'_, C::Data>, &Args<'_>) -> PyResult<R> + Copy + 'static,
        R: IntoObj,
    {
        enter(|py| {
            // SAFETY: as in `noargs`; the arguments are those of this call.
            let (this, data, args) = unsafe {
                let this = Obj::from_ptr_ref(&this);
                (this, C::data(py, this)?, Args::new(py, args, count, &kwnames))
            };
            function::<F>()(Receiver { py, this, data }, &args)?.into_obj(py)
        })
    }
}
