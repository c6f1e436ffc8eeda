//! The native data of a handle, behind the slots of asyncio's class: the arguments, and one word.
//!
//! Up to [`MAX_INLINE`] arguments need no tuple. The slot `_args` is empty then, and a tuple is created when Python code
//! reads `handle._args`.

use crate::python::object::Obj;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::ptr::null_mut;

/// Callbacks rarely have more arguments.
pub(super) const MAX_INLINE: usize = 3;

/// The number of arguments after Python code has deleted `_args`.
const DELETED: u8 = u8::MAX;

/// The data of one handle. Zeroed memory is valid: no arguments, tracked by the garbage collector.
///
/// Only threads that hold the interpreter lock use it.
#[repr(C)]
pub(super) struct HandleData {
    args: [Cell<Option<Obj>>; MAX_INLINE],
    count: Cell<u8>,
    /// Whether the garbage collector does not know the handle.
    pub is_untracked: Cell<bool>,
    /// Of a timer: its key in the engine's queue. Of a thread-safe handle: the thread that runs its callback, or 0.
    pub word: Cell<u64>,
}

impl HandleData {
    /// Stores arguments, at most [`MAX_INLINE`], in data that has none.
    #[inline(always)]
    pub fn set_args(&self, args: &[Obj]) {
        for (place, argument) in self.args.iter().zip(args) {
            place.set(Some(argument.clone()));
        }
        self.count.set(args.len() as u8);
    }

    /// Drops the arguments.
    #[inline(always)]
    pub fn drop_args(&self) {
        let count = self.count.take();
        for place in self.args.iter().take(count.into()) {
            // The place is empty before the argument is dropped, which may run code that uses the handle.
            drop(place.take());
        }
    }

    /// Python code deletes `_args`.
    pub fn delete_args(&self) {
        self.drop_args();
        self.count.set(DELETED);
    }

    /// Whether Python code has deleted `_args`.
    #[inline]
    pub fn has_no_args(&self) -> bool {
        self.count.get() == DELETED
    }

    /// The arguments. The references are valid until the next call into Python, which may change the handle.
    #[inline(always)]
    fn args(&self) -> impl Iterator<Item = &Obj> {
        // SAFETY: nothing changes the places while the interpreter lock is held and no other code is called.
        self.args
            .iter()
            .take(self.count.get().into())
            .filter_map(|place| unsafe { &*place.as_ptr() }.as_ref())
    }

    /// Visits the arguments, for the garbage collector.
    #[inline]
    pub fn visit_args(&self, visit: &mut dyn FnMut(&Obj)) {
        self.args().for_each(visit);
    }

    /// A tuple of the arguments.
    pub fn tuple(&self, py: Python<'_>) -> PyResult<Obj> {
        let args: Vec<Obj> = self.args().cloned().collect();
        Obj::tuple(py, &args)
    }

    /// `callback(*args)`.
    #[inline(always)]
    pub fn call(&self, py: Python<'_>, callback: &Obj) -> PyResult<Obj> {
        // The callee may use the place before the arguments.
        let mut all = [null_mut(); 1 + MAX_INLINE];
        let mut count = 0;
        for argument in self.args() {
            count += 1;
            // A new reference: the callback can cancel the handle, which drops the arguments.
            all[count] = argument.clone().into_ptr();
        }
        // SAFETY: live objects: `count` arguments after one free place. Each new reference is dropped once. The call
        // returns a new reference, or null with an exception.
        unsafe {
            let flags = count | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
            let result = ffi::PyObject_Vectorcall(callback.as_ptr(), &raw const all[1], flags, null_mut());
            all[1..=count].iter().for_each(|&argument| ffi::Py_DECREF(argument));
            Obj::from_call(py, result)
        }
    }
}
