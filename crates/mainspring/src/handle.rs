//! `Handle` and `TimerHandle`: scheduled calls that can be cancelled.
//!
//! The closure is in the handle's allocation, which the engine's queues and the user's handles share. It is taken out
//! when it runs or is cancelled. So it runs at most once, and its captures are dropped at once.

use crate::clock::Time;
use crate::event_loop::Core;
use crate::lane::{Lane, Priority};
use mainspring_engine::timers::TimerKey;
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::panic::Location;
use std::rc::{Rc, Weak};

/// A closure that is called at most once.
pub(crate) trait Callback {
    /// Calls the closure, unless it was called or cancelled before.
    fn run(&self);

    /// Drops the closure.
    fn cancel(&self);

    fn is_cancelled(&self) -> bool;

    /// Where it was scheduled, if that is recorded.
    fn location(&self) -> Option<&'static Location<'static>> {
        None
    }

    /// Its lane and limit.
    fn priority(&self) -> Priority {
        Priority::NORMAL
    }
}

pub(crate) struct Once<F> {
    closure: Cell<Option<F>>,
    cancelled: Cell<bool>,
}

impl<F: FnOnce() + 'static> Once<F> {
    pub(crate) fn shared(closure: F) -> Rc<dyn Callback> {
        Rc::new(Once::new(closure))
    }
}

impl<F> Once<F> {
    fn new(closure: F) -> Self {
        Once { closure: Cell::new(Some(closure)), cancelled: Cell::new(false) }
    }
}

impl<F: FnOnce()> Callback for Once<F> {
    fn run(&self) {
        if let Some(closure) = self.closure.take() {
            closure();
        }
    }

    fn cancel(&self) {
        self.cancelled.set(true);
        drop(self.closure.take());
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }
}

/// A closure with its priority, and in debug mode with the location where it was scheduled.
pub(crate) struct DetailedCallback<F> {
    once: Once<F>,
    priority: Priority,
    location: Option<&'static Location<'static>>,
}

impl<F: FnOnce() + 'static> DetailedCallback<F> {
    pub(crate) fn shared(
        closure: F,
        priority: Priority,
        location: Option<&'static Location<'static>>,
    ) -> Rc<dyn Callback> {
        Rc::new(DetailedCallback { once: Once::new(closure), priority, location })
    }
}

impl<F: FnOnce()> Callback for DetailedCallback<F> {
    fn run(&self) {
        self.priority.run(|| self.once.run());
    }

    fn cancel(&self) {
        self.once.cancel();
    }

    fn is_cancelled(&self) -> bool {
        self.once.is_cancelled()
    }

    fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }

    fn priority(&self) -> Priority {
        self.priority
    }
}

/// Adds the lane of an object to its `Debug` output, unless it is the normal one.
pub(crate) fn debug_lane(output: &mut fmt::DebugStruct<'_, '_>, lane: Lane) {
    if lane != Lane::Normal {
        output.field("lane", &lane);
    }
}

/// A call of [`EventLoop::call_soon`](crate::EventLoop::call_soon).
///
/// Dropping the handle does not cancel the call.
///
/// Clones refer to the same call. It stays on its thread (`!Send`).
///
/// ```
/// use std::{cell::Cell, rc::Rc};
///
/// let event_loop = mainspring::EventLoop::new()?;
/// let called = Rc::new(Cell::new(false));
/// let flag = Rc::clone(&called);
/// let handle = event_loop.call_soon(move || flag.set(true))?;
/// handle.cancel();
/// assert!(handle.cancelled());
/// event_loop.run_until_idle()?;
/// assert!(!called.get());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle(pub(crate) Rc<dyn Callback>);

impl Handle {
    /// Cancels the call and drops its closure. If the call has run, only [`Handle::cancelled`] changes.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether [`Handle::cancel`] was called.
    pub fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut handle = f.debug_struct("Handle");
        if let Some(location) = self.0.location() {
            handle.field("scheduled", &format_args!("{location}"));
        }
        debug_lane(&mut handle, self.0.priority().lane);
        handle.field("cancelled", &self.cancelled()).finish_non_exhaustive()
    }
}

/// A timer of [`EventLoop::call_later`](crate::EventLoop::call_later) or
/// [`EventLoop::call_at`](crate::EventLoop::call_at).
///
/// Handles of one loop are ordered as they run: by time, equal times by creation. Dropping the handle does not cancel
/// the call.
///
/// Clones refer to the same call. It stays on its thread (`!Send`).
///
/// ```
/// use std::time::Duration;
///
/// let event_loop = mainspring::EventLoop::new()?;
/// let noon = event_loop.time().saturating_add(Duration::from_secs(3600));
/// let first = event_loop.call_at(noon, || unreachable!())?;
/// let second = event_loop.call_at(noon, || unreachable!())?;
/// assert_eq!(first.when(), noon);
/// assert!(first < second);
/// first.cancel();
/// second.cancel();
/// assert!(second.cancelled());
/// // Nothing is left to wait for.
/// event_loop.run_until_idle()?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct TimerHandle {
    pub(crate) callback: Rc<dyn Callback>,
    pub(crate) core: Weak<Core>,
    pub(crate) key: TimerKey,
    pub(crate) when: Time,
    pub(crate) sequence: u64,
}

impl TimerHandle {
    /// The time at which the call is due.
    pub fn when(&self) -> Time {
        self.when
    }

    /// Removes the timer from the loop and drops its closure. If the call has run, only [`TimerHandle::cancelled`]
    /// changes.
    pub fn cancel(&self) {
        if let Some(core) = self.core.upgrade() {
            let call = core.engine.cancel_timer(self.key);
            drop(call);
        }
        self.callback.cancel();
    }

    /// Whether [`TimerHandle::cancel`] was called.
    pub fn cancelled(&self) -> bool {
        self.callback.is_cancelled()
    }
}

impl PartialEq for TimerHandle {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for TimerHandle {}

impl PartialOrd for TimerHandle {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerHandle {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.when, self.sequence).cmp(&(other.when, other.sequence))
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut handle = f.debug_struct("TimerHandle");
        handle.field("when", &self.when);
        debug_lane(&mut handle, self.callback.priority().lane);
        handle.field("cancelled", &self.cancelled()).finish_non_exhaustive()
    }
}
