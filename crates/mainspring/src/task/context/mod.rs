//! Context variables: asyncio's `contextvars`.
//!
//! A context is the set of variables that have a value. Each task has its own context: a copy, made when the task is
//! started, of the context that starts it. So a task sees the values of the code that starts it, and only the task sees
//! the values that it sets. The future of [`run_until_complete`](crate::EventLoop::run_until_complete) also has its own
//! context. Other code, such as a callback, uses the context of its thread, unless it runs in a [`Context`].
//!
//! ```
//! use mainspring::context::ContextVar;
//! use mainspring::spawn;
//!
//! static REQUEST: ContextVar<u32> = ContextVar::new("request");
//!
//! mainspring::run(async {
//!     REQUEST.set(7);
//!     let task = spawn(async {
//!         let seen = REQUEST.get();
//!         REQUEST.set(8);
//!         seen
//!     });
//!     assert_eq!(task.await, Ok(Some(7)));
//!     assert_eq!(REQUEST.get(), Some(7));
//! })?;
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! A copy is a reference; setting a variable in a shared context copies it. A program without variables has no cost.

mod variable;

pub use variable::{ContextVar, Token};

use super::current_task;
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

type Value = Rc<dyn Any>;

/// The variables that are set. They are few, so a lookup is a linear search.
#[derive(Clone, Default)]
pub(super) struct Variables(Vec<(u64, Value)>);

/// The variables of a task. `None` if none was ever set.
#[derive(Default)]
pub(super) struct ContextSlot(Cell<Option<Rc<Variables>>>);

thread_local! {
    /// The variables outside of tasks.
    static THREAD_CONTEXT: ContextSlot = const { ContextSlot(Cell::new(None)) };
}

/// A copy of the current variables, for a new task.
#[inline]
pub(super) fn copy_current() -> ContextSlot {
    ContextSlot(Cell::new(with_slot(ContextSlot::copy).flatten()))
}

/// Passes the current slot to `f`, which must not run foreign code. `None` when the thread is ending.
#[inline]
fn with_slot<R>(f: impl FnOnce(&ContextSlot) -> R) -> Option<R> {
    current_task::with_current(|task| match task {
        Some(task) => Some(f(&task.header().context)),
        None => THREAD_CONTEXT.try_with(f).ok(),
    })
}

impl ContextSlot {
    #[inline]
    pub(super) fn take(&self) -> Option<Rc<Variables>> {
        self.0.take()
    }

    #[inline]
    fn copy(&self) -> Option<Rc<Variables>> {
        let variables = self.0.take();
        self.0.set(variables.clone());
        variables
    }

    fn find(&self, key: u64) -> Option<Value> {
        let variables = self.copy()?;
        variables.0.iter().find(|(found, _)| *found == key).map(|(_, value)| Rc::clone(value))
    }

    /// Sets or unsets a variable. Returns its previous value.
    fn replace(&self, key: u64, value: Option<Value>) -> Option<Value> {
        let mut shared = self.0.take().unwrap_or_default();
        let variables = &mut Rc::make_mut(&mut shared).0;
        let index = variables.iter().position(|(found, _)| *found == key);
        let former = match (index, value) {
            (Some(index), Some(value)) => {
                variables.get_mut(index).map(|(_, former)| std::mem::replace(former, value))
            }
            (Some(index), None) => Some(variables.swap_remove(index).1),
            (None, Some(value)) => {
                variables.push((key, value));
                None
            }
            (None, None) => None,
        };
        self.0.set((!shared.0.is_empty()).then_some(shared));
        former
    }
}

/// A set of variables with values, outside of any task: asyncio's `contextvars.Context`. It stays on its thread
/// (`!Send`).
///
/// [`copy_context`] copies the current one. Use it to run a callback with the variables of the code that schedules
/// it:
///
/// ```
/// use mainspring::EventLoop;
/// use mainspring::context::{ContextVar, copy_context};
///
/// static REQUEST: ContextVar<u32> = ContextVar::new("request");
///
/// # mainspring::run(async {
/// REQUEST.set(7);
/// let context = copy_context();
/// EventLoop::current().call_soon(move || context.run(|| assert_eq!(REQUEST.get(), Some(7))))?;
/// # Ok::<(), mainspring::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
pub struct Context(ContextSlot);

/// A copy of the current context.
///
/// ```
/// use mainspring::context::{ContextVar, copy_context};
///
/// static REQUEST: ContextVar<u32> = ContextVar::new("request");
///
/// REQUEST.set(7);
/// let context = copy_context();
/// REQUEST.set(8);
/// assert_eq!(context.run(|| REQUEST.get()), Some(7));
/// ```
pub fn copy_context() -> Context {
    Context(copy_current())
}

impl Context {
    /// A context in which no variable has a value.
    ///
    /// ```
    /// use mainspring::context::{Context, ContextVar};
    ///
    /// static REQUEST: ContextVar<u32> = ContextVar::new("request");
    ///
    /// REQUEST.set(7);
    /// assert_eq!(Context::new().run(|| REQUEST.get()), None);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `function` in this context, which keeps the values that it sets.
    pub fn run<R>(&self, function: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a ContextSlot);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                with_slot(|slot| slot.0.swap(&self.0.0));
            }
        }
        // In a separate slot, so that a nested run in the same context finds the variables.
        let run_slot = ContextSlot(Cell::new(self.0.copy()));
        with_slot(|slot| slot.0.swap(&run_slot.0));
        let restore = Restore(&run_slot);
        let result = function();
        drop(restore);
        let former = self.0.0.replace(run_slot.take());
        drop(former);
        result
    }

    pub(super) fn into_slot(self) -> ContextSlot {
        self.0
    }
}

impl Clone for Context {
    fn clone(&self) -> Self {
        Context(ContextSlot(Cell::new(self.0.copy())))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.0.copy().map_or(0, |variables| variables.0.len());
        f.debug_struct("Context").field("variables", &set).finish_non_exhaustive()
    }
}
