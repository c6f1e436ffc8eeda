//! `Lane`: the queue of a ready call.

use mainspring_engine::ready_queue::Lane as EngineLane;

/// The queue of a ready call. Each lane is first in, first out.
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
    /// Runs when nothing else is ready, or when it has waited too long.
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
