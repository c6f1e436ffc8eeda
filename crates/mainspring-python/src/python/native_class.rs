//! Instances of heap types with native data: creation, garbage collection, finalization and deallocation.
//!
//! One implementation serves every class; [`NativeData`] describes its data.

use super::dealloc;
use super::guard::{attach, catch_panic, catch_traverse, catch_unraisable, enter};
use super::heap_type::{NativeType, Slot, Spec, all_slots};
use super::method::{Method, Native};
use super::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;

/// The native data of a class, stored behind the layout of its base.
pub trait NativeData: Sized + 'static {
    /// Qualified name: `mainspring._mainspring.StreamTransport`.
    const NAME: &'static CStr;

    /// Where the class is stored once it is created. Always the same cell.
    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>>;

    /// The asyncio classes that it derives from. The slots of the first one come first.
    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>>;

    fn methods() -> Vec<Method<Native<Self>>>;

    /// The data of a new instance.
    fn empty() -> Self;

    /// Visits every reference, for the garbage collector. References that are borrowed mutably at the moment may be
    /// left out.
    fn traverse(&self, visit: &mut dyn FnMut(&Obj));

    /// Drops the references that can be part of a cycle.
    fn clear(&self);

    /// What `__del__` is for a Python class.
    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()>;
}

/// The class of a [`NativeData`] type.
pub struct NativeClass<T> {
    native: NativeType,
    /// Every slot of the bases.
    base_slots: Vec<Slot>,
    data: PhantomData<fn(T) -> T>,
}

impl<T: NativeData> NativeClass<T> {
    /// The class of `T`, created on first use.
    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static NativeClass<T>> {
        T::class_cell().get_or_try_init(py, || {
            let bases = T::bases(py)?;
            let mut base_slots = Vec::new();
            for base in &bases {
                for slot in all_slots(base)? {
                    if !base_slots.contains(&slot) {
                        base_slots.push(slot);
                    }
                }
            }
            let spec = Spec {
                name: T::NAME,
                bases: &bases,
                extra: size_of::<T>(),
                min_offset: 0,
                methods: T::methods().into_iter().map(Method::into_def).collect(),
                slots: vec![
                    (ffi::Py_tp_new, new::<T> as *mut c_void),
                    (ffi::Py_tp_dealloc, dealloc::<T> as *mut c_void),
                    (ffi::Py_tp_traverse, traverse::<T> as *mut c_void),
                    (ffi::Py_tp_clear, clear::<T> as *mut c_void),
                    (ffi::Py_tp_finalize, finalize::<T> as *mut c_void),
                ],
                is_base: true,
            };
            // SAFETY: the functions below and the methods are those for `T`, whose size `extra` is.
            let native = unsafe { spec.create()? };
            Ok(NativeClass { native, base_slots, data: PhantomData })
        })
    }

    /// The class object.
    pub fn class(&self) -> &Py<PyType> {
        &self.native.class
    }

    /// The data of an instance.
    ///
    /// # Safety
    /// `object` is an instance of this class or of a class derived from it.
    #[inline]
    pub unsafe fn data<'a>(&self, object: &'a Obj) -> &'a T {
        // SAFETY: every instance has a `T` at the offset, which `new` has written and which does not move.
        unsafe { &*object.as_ptr().byte_add(self.native.offset).cast() }
    }
}

/// The data of an object; `None` if the object is not an instance of the class of `T`.
#[inline]
pub fn native_data<'a, T: NativeData>(py: Python<'_>, object: &'a Obj) -> PyResult<Option<&'a T>> {
    let class = NativeClass::<T>::get(py)?;
    // SAFETY: a live object, whose type is checked before its data is read.
    unsafe {
        if ffi::PyObject_TypeCheck(object.as_ptr(), class.native.as_type_ptr()) == 0 {
            return Ok(None);
        }
        Ok(Some(class.data(object)))
    }
}

unsafe extern "C" fn new<T: NativeData>(
    class: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        let native = NativeClass::<T>::get(py)?;
        let data = T::empty();
        // SAFETY: CPython passes the type or one derived from it, so the new instance has space for a `T` at the offset.
        // Nothing reads the data before it is written here.
        unsafe {
            let object = Obj::from_call(py, ffi::PyType_GenericAlloc(class, 0))?;
            let place: *mut T = object.as_ptr().byte_add(native.native.offset).cast();
            place.write(data);
            Ok(object)
        }
    })
}

unsafe extern "C" fn dealloc<T: NativeData>(object: *mut ffi::PyObject) {
    // SAFETY: CPython calls this once, for a tracked object without references.
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
    dealloc::bounded(move || {
        catch_unraisable(|| {
            attach(|py| {
                let Some(class) = T::class_cell().get(py) else { return };
                // SAFETY: nothing refers to the object any more. Its data is dropped once, then the slots of the base.
                unsafe {
                    let place: *mut T = object.byte_add(class.native.offset).cast();
                    place.drop_in_place();
                    class.base_slots.iter().for_each(|slot| slot.set(object, None));
                }
            });
        });
        // Also after a panic above, which is only a leak then.
        // SAFETY: frees the memory, and drops the reference to its type that every instance of a heap type has.
        unsafe {
            let class = ffi::Py_TYPE(object);
            if let Some(free) = (*class).tp_free {
                free(object.cast());
            }
            ffi::Py_DECREF(class.cast());
        }
    });
}

unsafe extern "C" fn traverse<T: NativeData>(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    catch_traverse(|| {
        // SAFETY: the collector passes a live instance, whose class exists therefore. No reference count changes.
        unsafe {
            let Some(class) = T::class_cell().get(Python::assume_attached()) else { return 0 };
            let mut result = 0;
            let mut visit = |object: *mut ffi::PyObject| {
                if result == 0 && !object.is_null() {
                    result = visit(object, argument);
                }
            };
            visit(ffi::Py_TYPE(object).cast());
            class.base_slots.iter().for_each(|slot| visit(slot.get(object)));
            class.data(Obj::from_ptr_ref(&object)).traverse(&mut |held| visit(held.as_ptr()));
            result
        }
    })
}

unsafe extern "C" fn clear<T: NativeData>(object: *mut ffi::PyObject) -> c_int {
    catch_unraisable(|| {
        attach(|py| {
            let Some(class) = T::class_cell().get(py) else { return };
            // SAFETY: the collector passes a live instance.
            unsafe {
                class.data(Obj::from_ptr_ref(&object)).clear();
                class.base_slots.iter().for_each(|slot| slot.set(object, None));
            }
        });
    });
    0
}

unsafe extern "C" fn finalize<T: NativeData>(object: *mut ffi::PyObject) {
    catch_unraisable(|| {
        attach(|py| {
            // CPython may call this while an exception is set; the finalizer must leave it as it is.
            let pending = PyErr::take(py);
            // SAFETY: CPython passes a live instance.
            let object = unsafe { Obj::from_ptr_ref(&object) };
            if let Some(class) = T::class_cell().get(py) {
                // SAFETY: as above.
                let data = unsafe { class.data(object) };
                let object = object.bind(py);
                if let Err(error) = catch_panic(py, || data.finalize(&object)) {
                    error.write_unraisable(py, Some(&object));
                }
            }
            if let Some(error) = pending {
                error.restore(py);
            }
        });
    });
}
