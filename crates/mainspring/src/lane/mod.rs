//! `Lane`: the queue of a ready call, and the functions that set the lane of everything that is created inside them.

mod priority;

pub(crate) use priority::{OverdueLimit, Priority, RestorePriority};

use mainspring_engine::ready_queue::Lane as EngineLane;
use std::fmt;
use std::time::Duration;

/// The queue of a ready call. Each lane is first in, first out.
///
/// A task or callback inherits the lane of the code that creates it. [`background`], [`urgent`] and [`normal`] set it
/// for everything that is created inside them. An explicit lane, such as that of
/// [`EventLoop::spawn_in`](crate::EventLoop::spawn_in), takes precedence.
///
/// Some code is always in the normal lane: the future of
/// [`run_until_complete`](crate::EventLoop::run_until_complete), callbacks for fds and signals, protocols, done
/// callbacks, and calls through a [`Remote`](crate::Remote).
///
/// ```
/// use mainspring::{EventLoop, Lane};
/// use std::{cell::RefCell, rc::Rc};
///
/// let event_loop = EventLoop::new()?;
/// let order = Rc::new(RefCell::new(Vec::new()));
/// for lane in [Lane::Background, Lane::Normal, Lane::Urgent] {
///     let order = Rc::clone(&order);
///     event_loop.call_soon_in(lane, move || order.borrow_mut().push(lane))?;
/// }
/// event_loop.run_until_idle()?;
/// assert_eq!(*order.borrow(), [Lane::Urgent, Lane::Normal, Lane::Background]);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Runs first in every iteration.
    Urgent,
    /// asyncio's ready queue.
    #[default]
    Normal,
    /// Runs when nothing else is ready, or when it has waited too long: then it runs before the next normal call.
    ///
    /// If a background task is cancelled, or a [`timeout`](crate::timeout) in it expires, its next step is in the normal
    /// lane.
    Background,
}

impl Lane {
    pub(crate) const fn engine_lane(self) -> EngineLane {
        match self {
            Lane::Urgent => EngineLane::Urgent,
            Lane::Normal => EngineLane::Normal,
            Lane::Background => EngineLane::Background,
        }
    }
}

/// The lane in messages, after the object: nothing for the normal one.
pub(crate) struct LaneSuffix(pub(crate) Lane);

impl fmt::Display for LaneSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Lane::Urgent => " (urgent lane)",
            Lane::Normal => "",
            Lane::Background => " (background lane)",
        })
    }
}

/// Calls `f`. Tasks and callbacks that it creates are in [`Lane::Background`], and so are those that they create. They
/// run when nothing else is ready. A call that has waited for `max_overdue` runs before the next normal one.
///
/// This concerns what `f` creates on this thread, not code that awaits a future of `f` later.
///
/// ```
/// use mainspring::{Lane, background, current_lane, spawn, yield_now};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let cleanup = background(Duration::from_secs(3600), || {
///         spawn(async { (current_lane(), spawn(async { current_lane() }).await) })
///     });
///     for _ in 0..10 {
///         yield_now().await;
///     }
///     assert!(!cleanup.is_finished(), "there was always something else to do");
///     assert_eq!(cleanup.await, Ok((Lane::Background, Ok(Lane::Background))));
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn background<R>(max_overdue: Duration, f: impl FnOnce() -> R) -> R {
    Priority::background(max_overdue).run(f)
}

/// Calls `f`. Tasks and callbacks that it creates are in [`Lane::Urgent`], and so are those that they create. They run
/// before other ready calls. See [`background`].
///
/// ```
/// use mainspring::{EventLoop, urgent};
/// use std::{cell::RefCell, rc::Rc};
///
/// let event_loop = EventLoop::new()?;
/// let order = Rc::new(RefCell::new(Vec::new()));
/// let (first, second) = (Rc::clone(&order), Rc::clone(&order));
/// event_loop.call_soon(move || second.borrow_mut().push("normal"))?;
/// urgent(|| event_loop.call_soon(move || first.borrow_mut().push("urgent")))?;
/// event_loop.run_until_idle()?;
/// assert_eq!(*order.borrow(), ["urgent", "normal"]);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn urgent<R>(f: impl FnOnce() -> R) -> R {
    Priority::URGENT.run(f)
}

/// Calls `f`. Tasks and callbacks that it creates are in [`Lane::Normal`], and so are those that they create: for code
/// that runs in another lane. See [`background`].
///
/// ```
/// use mainspring::{Lane, background, current_lane, normal, spawn};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let cleanup = background(Duration::from_secs(1), || {
///     spawn(async { normal(|| spawn(async { current_lane() })).await })
/// });
/// assert_eq!(cleanup.await, Ok(Ok(Lane::Normal)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn normal<R>(f: impl FnOnce() -> R) -> R {
    Priority::NORMAL.run(f)
}

/// The lane that new tasks and callbacks of this thread inherit. It is the lane of the running task or callback, unless
/// [`background`], [`urgent`] or [`normal`] sets another. [`Lane::Normal`] outside of all these.
///
/// ```
/// use mainspring::{Lane, current_lane, urgent};
///
/// assert_eq!(current_lane(), Lane::Normal);
/// assert_eq!(urgent(current_lane), Lane::Urgent);
/// ```
pub fn current_lane() -> Lane {
    Priority::current().lane
}
