//! Objects that are asyncio's to `isinstance` and hold native data: how the interpreter makes them, shows them to its
//! garbage collector, and ends them. One implementation for every kind; a kind says what its data is (`NativeData`).

use crate::python::dealloc;
use crate::python::heap_type::{NativeType, Slot, Spec, all_slots};
use crate::python::method::{as_called, catch, enter, shown};
use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::ffi::{CStr, c_int, c_void};

/// What a kind of objects holds behind the layout of its base.
pub trait NativeData: Sized + 'static {
    /// Qualified name: `mainspring._mainspring.StreamTransport`.
    const NAME: &'static CStr;

    /// Where the class is kept once it is made.
    fn class_cell() -> &'static PyOnceLock<NativeClass>;

    /// The asyncio classes it derives from; the first one's slots come first.
    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>>;

    /// The methods that are called by hand-made entry points.
    fn methods() -> Vec<ffi::PyMethodDef>;

    /// The data of a new instance.
    fn empty() -> Self;

    /// Shows every reference to the garbage collector; those that are being changed at this moment may be left out.
    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject));

    /// Lets go of what can be part of a cycle.
    fn clear(&self);

    /// The last words of an object that nobody refers to any more: what `__del__` is in Python.
    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()>;
}

/// The class of a kind.
pub struct NativeClass {
    native: NativeType,
    /// Every slot of the bases.
    base_slots: Vec<Slot>,
}

impl NativeClass {
    /// The class of `T`, made on first use.
    pub fn of<T: NativeData>(py: Python<'_>) -> PyResult<&'static NativeClass> {
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
            let native = Spec {
                name: T::NAME,
                bases: &bases,
                extra: size_of::<T>(),
                methods: T::methods(),
                slots: vec![
                    (ffi::Py_tp_new, new::<T> as *mut c_void),
                    (ffi::Py_tp_dealloc, end::<T> as *mut c_void),
                    (ffi::Py_tp_traverse, traverse::<T> as *mut c_void),
                    (ffi::Py_tp_clear, clear::<T> as *mut c_void),
                    (ffi::Py_tp_finalize, finalize::<T> as *mut c_void),
                ],
                is_base: true,
            }
            .create()?;
            Ok(NativeClass { native, base_slots })
        })
    }

    /// The class object.
    pub fn class(&self) -> &Py<PyType> {
        &self.native.class
    }

    /// The data of an instance.
    ///
    /// # Safety
    /// `object` is an instance of this class, which is `T`'s, or of one derived from it, and outlives `'a`.
    pub unsafe fn data<'a, T: NativeData>(&self, object: *mut ffi::PyObject) -> &'a T {
        // SAFETY: our data lies at the offset in every instance, and was written by `new`.
        unsafe { &*object.byte_add(self.native.offset).cast() }
    }
}

/// The data of an object if it is of kind `T`.
pub fn native_data<'a, T: NativeData>(py: Python<'_>, object: &'a Obj) -> PyResult<Option<&'a T>> {
    let class = NativeClass::of::<T>(py)?;
    // SAFETY: a live object; its type is checked before the data is looked at, and the borrow keeps it alive.
    unsafe {
        if ffi::PyObject_TypeCheck(object.as_ptr(), class.native.as_type_ptr()) == 0 {
            return Ok(None);
        }
        Ok(Some(class.data(object.as_ptr())))
    }
}

unsafe extern "C" fn new<T: NativeData>(
    class: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    enter(|py| {
        let kind = NativeClass::of::<T>(py)?;
        // SAFETY: the interpreter passes the type or one derived from it; our data lies at the offset and is
        // zeroed memory that is written before anybody looks at it.
        unsafe {
            let object = Obj::from_call(py, ffi::PyType_GenericAlloc(class, 0))?;
            let place: *mut T = object.as_ptr().byte_add(kind.native.offset).cast();
            place.write(T::empty());
            Ok(object.into_ptr())
        }
    })
}

unsafe extern "C" fn end<T: NativeData>(object: *mut ffi::PyObject) {
    // SAFETY: called once, by the interpreter, for an object nobody refers to any more.
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
    dealloc::bounded(move || {
        as_called(|py| {
            // SAFETY: as above. Our data is dropped, then what the base's slots hold; the memory goes back, and the
            // reference to the type that every instance of a heap type has.
            unsafe {
                if let Ok(kind) = NativeClass::of::<T>(py) {
                    let place: *mut T = object.byte_add(kind.native.offset).cast();
                    place.drop_in_place();
                    kind.base_slots.iter().for_each(|slot| slot.set(object, std::ptr::null_mut()));
                }
                let class = ffi::Py_TYPE(object);
                if let Some(free) = (*class).tp_free {
                    free(object.cast());
                }
                ffi::Py_DECREF(class.cast());
            }
        });
    });
}

unsafe extern "C" fn traverse<T: NativeData>(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector passes an instance; its class is made, or there would be none. Nothing is counted up
    // or down here.
    unsafe {
        let py = Python::assume_attached();
        let Some(kind) = T::class_cell().get(py) else { return 0 };
        let mut result = 0;
        let mut show = |object: *mut ffi::PyObject| {
            if result == 0 && !object.is_null() {
                result = visit(object, argument);
            }
        };
        show(ffi::Py_TYPE(object).cast());
        kind.base_slots.iter().for_each(|slot| show(slot.get(object)));
        kind.data::<T>(object).for_each_held(&mut show);
        result
    }
}

unsafe extern "C" fn clear<T: NativeData>(object: *mut ffi::PyObject) -> c_int {
    shown(|| {
        as_called(|py| {
            let Some(kind) = T::class_cell().get(py) else { return };
            // SAFETY: the collector passes an instance.
            unsafe {
                kind.data::<T>(object).clear();
                kind.base_slots.iter().for_each(|slot| slot.set(object, std::ptr::null_mut()));
            }
        });
    });
    0
}

unsafe extern "C" fn finalize<T: NativeData>(object: *mut ffi::PyObject) {
    as_called(|py| {
        // An exception that is on its way belongs to somebody else, who is further up.
        let on_its_way = PyErr::take(py);
        // SAFETY: the interpreter passes an instance, alive until this returns.
        let (object, data) = unsafe {
            let Some(kind) = T::class_cell().get(py) else { return };
            (Bound::from_borrowed_ptr(py, object), kind.data::<T>(object))
        };
        if let Err(error) = catch(py, || data.finalize(&object)) {
            error.write_unraisable(py, Some(&object));
        }
        if let Some(error) = on_its_way {
            error.restore(py);
        }
    });
}
