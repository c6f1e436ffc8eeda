//! Handles are made and dropped once per callback: their memory goes round instead of back to the allocator.
//!
//! An object on the list is dead: untracked, its slots empty, its weak references cleared, its reference to its type
//! given up. [`FreeList::take`] brings it back to life as a new instance.

use pyo3::ffi;
use std::cell::UnsafeCell;

/// More than a busy loop has under way between two passes, and little to hold on to.
const CAPACITY: usize = 256;

/// Dead instances of one type.
pub struct FreeList(UnsafeCell<Vec<*mut ffi::PyObject>>);

// SAFETY: used only by threads that hold the interpreter lock, and for the length of one push or pop, during which
// nothing calls out.
unsafe impl Send for FreeList {}
// SAFETY: as above.
unsafe impl Sync for FreeList {}

impl FreeList {
    pub fn new() -> Self {
        FreeList(UnsafeCell::new(Vec::with_capacity(CAPACITY)))
    }

    /// A new instance of `class` out of the memory of a dead one: its slots are empty, and the garbage collector does
    /// not track it yet. Null if there is none.
    ///
    /// # Safety
    /// The thread is attached, and every object that was put here was an instance of `class` itself.
    pub unsafe fn take(&self, class: *mut ffi::PyTypeObject) -> *mut ffi::PyObject {
        // SAFETY: the list is touched by one thread at a time. The memory has the size and the garbage collector's
        // header of an instance of `class`; initialising it sets type and count anew.
        unsafe {
            match (*self.0.get()).pop() {
                Some(object) => ffi::PyObject_Init(object, class),
                None => std::ptr::null_mut(),
            }
        }
    }

    /// Keeps the memory of a dead object, or gives it back.
    ///
    /// # Safety
    /// The thread is attached; the object is dead in the sense of the module's text.
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
