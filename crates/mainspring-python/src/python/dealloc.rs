//! Deallocation with bounded recursion.
//!
//! An object that is freed drops its references, which can free the next object inside its own deallocation. A chain of
//! handles (`h = loop.call_soon(h)`) can have any length, and plain recursion would overflow the stack. CPython's
//! containers use its "trashcan", whose functions are private and differ between versions. This module does the same for
//! our types: below [`MAX_DEPTH`] nested deallocations the rest is deferred to the outermost one.

use super::guard::{attach, catch_unraisable};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ops::Deref;

/// CPython's limit for its own containers.
const MAX_DEPTH: u32 = 50;

/// The deallocations that run on a thread.
struct Nesting {
    depth: Cell<u32>,
    /// Whether [`DEFERRED`] has entries for the outermost deallocation.
    has_deferred: Cell<bool>,
}

thread_local! {
    static NESTING: Nesting = const { Nesting { depth: Cell::new(0), has_deferred: Cell::new(false) } };
    static DEFERRED: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// Runs a deallocation, now or at the end of the outermost one of this thread.
///
/// The garbage collector must not track the object any more: it may run before `dealloc` does.
#[inline]
pub fn bounded(dealloc: impl FnOnce() + 'static) {
    NESTING.with(|nesting| {
        let depth = nesting.depth.get();
        if depth >= MAX_DEPTH {
            nesting.has_deferred.set(true);
            return defer(Box::new(dealloc));
        }
        nesting.depth.set(depth + 1);
        catch_unraisable(dealloc);
        if depth == 0 && nesting.has_deferred.take() {
            run_deferred();
        }
        nesting.depth.set(depth);
    });
}

#[cold]
fn defer(dealloc: Box<dyn FnOnce()>) {
    let mut dealloc = Some(dealloc);
    // After the thread's destructors there is no list any more, so this recurses.
    let _ = DEFERRED.try_with(|list| list.borrow_mut().extend(dealloc.take()));
    if let Some(dealloc) = dealloc {
        catch_unraisable(dealloc);
    }
}

/// Each deferred deallocation can defer more.
#[cold]
fn run_deferred() {
    while let Ok(Some(next)) = DEFERRED.try_with(|list| list.borrow_mut().pop()) {
        catch_unraisable(next);
    }
}

/// The data of a PyO3 class: dropped by [`bounded`], and used under the interpreter lock only.
///
/// Zeroed memory is valid, and means that there is no data: CPython deallocates instances of derived classes that it
/// could not complete for lack of memory, before the constructor has stored the data.
#[repr(C)]
pub struct ClassData<T: 'static> {
    is_set: bool,
    data: MaybeUninit<T>,
}

// SAFETY: a `ClassData` is a private field of a frozen PyO3 class, and nothing keeps a `Py` of such a class, only `Bound`
// and `Obj`. So its data is reached through the methods of the class and through `Obj`, by threads that hold the
// interpreter lock. The lock orders all uses. It is released only in `interpreter::detached`, while the engine borrows
// none of its state.
unsafe impl<T> Send for ClassData<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ClassData<T> {}

impl<T> ClassData<T> {
    pub fn new(data: T) -> Self {
        ClassData { is_set: true, data: MaybeUninit::new(data) }
    }

    /// `None` in an instance that was never completed.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the data is set together with the flag.
        self.is_set.then(|| unsafe { self.data.assume_init_ref() })
    }
}

impl<T> Deref for ClassData<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get().expect("methods are called on complete instances")
    }
}

impl<T> Drop for ClassData<T> {
    fn drop(&mut self) {
        if self.is_set {
            // SAFETY: the data is set together with the flag, and taken once, here.
            let data = unsafe { self.data.assume_init_read() };
            bounded(move || attach(|_| drop(data)));
        }
    }
}
