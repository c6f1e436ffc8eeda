//! A free list for handles, which are created and freed once per callback: their memory is reused.
//!
//! An object on the list is dead: not tracked by the garbage collector, its slots are empty, its weak references cleared,
//! and its reference to its type is dropped. [`FreeList::take`] initializes it as a new instance.

use pyo3::ffi;
use std::cell::UnsafeCell;

/// As many handles as a busy loop has ready at once: 2 MiB. The rows `A.call_soon.fanout` and `A.task.gather_1k` need more
/// than a few hundred.
const CAPACITY: usize = 16 * 1024;

/// Dead instances of one type.
pub struct FreeList(UnsafeCell<Vec<*mut ffi::PyObject>>);

// SAFETY: only threads that hold the interpreter lock use the list, and for one push or pop, which run no other code.
unsafe impl Send for FreeList {}
// SAFETY: as above.
unsafe impl Sync for FreeList {}

impl FreeList {
    pub fn new() -> Self {
        FreeList(UnsafeCell::new(Vec::with_capacity(CAPACITY)))
    }

    /// A new instance of `class` in the memory of a dead one. Its slots are empty, and the garbage collector does not
    /// track it yet. Null if the list is empty.
    ///
    /// # Safety
    /// The thread is attached, and every object on the list was an instance of `class` itself.
    #[inline]
    pub unsafe fn take(&self, class: *mut ffi::PyTypeObject) -> *mut ffi::PyObject {
        // SAFETY: the lock lets one thread at a time use the list. The memory has the size and the garbage collector's
        // header of an instance of `class`; `PyObject_Init` sets type and reference count.
        unsafe {
            match (*self.0.get()).pop() {
                Some(object) => ffi::PyObject_Init(object, class),
                None => std::ptr::null_mut(),
            }
        }
    }

    /// Keeps the memory of a dead object, or frees it.
    ///
    /// # Safety
    /// The thread is attached; the object is dead as the module comment defines it.
    #[inline]
    pub unsafe fn put(&self, object: *mut ffi::PyObject) {
        // SAFETY: as above.
        unsafe {
            let list = &mut *self.0.get();
            if list.len() < CAPACITY {
                list.push(object);
            } else {
                ffi::PyObject_GC_Del(object.cast());
            }
        }
    }
}
