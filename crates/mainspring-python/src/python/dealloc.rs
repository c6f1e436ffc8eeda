//! The end of an object, with bounded recursion.
//!
//! An object that is freed lets go of what it holds, and may so free the next object inside its own deallocation. A chain
//! of handles (`h = loop.call_soon(h)`) has any length the user likes; freed by plain recursion it overflows the stack.
//! CPython's containers use its "trashcan" for this, whose functions are private and differ between versions. This
//! module does the same for our types: below [`MAX_DEPTH`] nested deallocations the rest is put off, and done by the
//! outermost one.

use crate::python::method::{as_called, shown};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ops::Deref;

/// CPython's limit for its own containers.
const MAX_DEPTH: u32 = 50;

/// The deallocations of ours that a thread is inside of.
struct Nesting {
    depth: Cell<u32>,
    /// Whether the outermost of them has something in [`PUT_OFF`] to do.
    has_put_off: Cell<bool>,
}

thread_local! {
    static NESTING: Nesting = const { Nesting { depth: Cell::new(0), has_put_off: Cell::new(false) } };
    static PUT_OFF: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Runs a deallocation, now or when the outermost one of this thread has done its own.
///
/// The object must be out of the garbage collector's sight already: it may see the object before `dealloc` runs.
#[inline]
pub fn bounded(dealloc: impl FnOnce() + 'static) {
    NESTING.with(|nesting| {
        let depth = nesting.depth.get();
        if depth >= MAX_DEPTH {
            nesting.has_put_off.set(true);
            return put_off(Box::new(dealloc));
        }
        nesting.depth.set(depth + 1);
        shown(dealloc);
        if depth == 0 && nesting.has_put_off.take() {
            do_what_was_put_off();
        }
        nesting.depth.set(depth);
    });
}

#[cold]
fn put_off(dealloc: Box<dyn FnOnce()>) {
    let mut dealloc = Some(dealloc);
    // Past the thread's destructors there is no list any more, and nothing else to be done.
    let _ = PUT_OFF.try_with(|list| list.borrow_mut().extend(dealloc.take()));
    if let Some(dealloc) = dealloc {
        shown(dealloc);
    }
}

/// Each may put off more.
#[cold]
fn do_what_was_put_off() {
    while let Ok(Some(next)) = PUT_OFF.try_with(|list| list.borrow_mut().pop()) {
        shown(next);
    }
}

/// The data of a `pyclass` that holds Python objects: dropped by [`bounded`].
///
/// Zeroed memory is valid, and empty. The interpreter drops an instance that it could not complete for want of memory, of
/// a class derived from ours, before the data was put in.
#[repr(C)]
pub struct ClassData<T: 'static> {
    is_set: bool,
    data: MaybeUninit<T>,
}

impl<T> ClassData<T> {
    pub fn new(data: T) -> Self {
        ClassData { is_set: true, data: MaybeUninit::new(data) }
    }

    /// `None` in an instance that was never completed.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: set together with the flag.
        self.is_set.then(|| unsafe { self.data.assume_init_ref() })
    }
}

impl<T> Deref for ClassData<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get().expect("methods are called on complete instances")
    }
}

impl<T> Drop for ClassData<T> {
    fn drop(&mut self) {
        if self.is_set {
            // SAFETY: set together with the flag, and taken once, here.
            let data = unsafe { self.data.assume_init_read() };
            bounded(move || as_called(|_| drop(data)));
        }
    }
}
