//! The ready lanes: which call runs next.
//!
//! There are three FIFO lanes. An iteration serves the I/O lane, then the normal lane. It takes one item of the
//! background lane if the other two were empty. An item that has waited there too long moves to the end of the normal
//! lane.
//!
//! As in asyncio, an iteration runs exactly the calls that were ready when it began; calls that these schedule run in
//! the next one. Every lane counts the items that ever left it, and a [`IterationBound`] stores the count at which to stop.
//! This also holds if the lanes are cleared meanwhile, or if a callback runs a nested iteration.
//!
//! [`Lanes::set_io_first`] makes one exception, as MicroPython's `fast_io` does: before each normal item, the
//! iteration serves new items of the I/O lane.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Time;

/// The queue of a ready call. Each lane is first in, first out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Runs first in every iteration.
    Io,
    /// asyncio's ready queue.
    #[default]
    Normal,
    /// Runs when nothing else is ready, or when it has waited too long.
    Background,
}

/// The limits of one iteration in each lane.
#[derive(Clone, Copy, Debug)]
pub struct IterationBound {
    io: u64,
    normal: u64,
    background: u64,
    /// The last item was a normal one, so the I/O lane is checked again.
    ran_normal: bool,
}

/// One lane: its items, and the number of items that ever left it.
#[derive(Debug)]
struct Fifo<T> {
    items: VecDeque<T>,
    taken: u64,
}

impl<T> Fifo<T> {
    const fn new() -> Self {
        Fifo { items: VecDeque::new(), taken: 0 }
    }

    /// The value of `taken` when all present items have left.
    fn end(&self) -> u64 {
        self.taken + self.items.len() as u64
    }

    /// Reserves room for `count` more items; `false` if there is no memory.
    #[inline(always)]
    fn try_reserve(&mut self, count: usize) -> bool {
        self.items.capacity() - self.items.len() >= count || self.items.try_reserve(count).is_ok()
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.taken += 1;
        Some(item)
    }

    fn pop_until(&mut self, end: u64) -> Option<T> {
        if self.taken < end { self.pop() } else { None }
    }

    fn clear(&mut self) -> VecDeque<T> {
        self.taken = self.end();
        std::mem::take(&mut self.items)
    }
}

/// The ready items of a loop.
#[derive(Debug)]
pub struct Lanes<T> {
    io: Fifo<T>,
    normal: Fifo<T>,
    /// Items with the time of their arrival.
    background: Fifo<(Time, T)>,
    io_first: bool,
    /// The last known time.
    now: Time,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Lanes<T> {
    /// Empty lanes.
    pub const fn new() -> Self {
        Lanes {
            io: Fifo::new(),
            normal: Fifo::new(),
            background: Fifo::new(),
            io_first: false,
            now: Time::ZERO,
        }
    }

    /// Sets whether an iteration serves new items of the I/O lane before each normal item, not only at its beginning.
    pub fn set_io_first(&mut self, io_first: bool) {
        self.io_first = io_first;
    }

    /// Appends `item` to `lane`. A background item gets the last time that [`Lanes::push_background`] or
    /// [`Lanes::promote_overdue`] was given.
    #[inline(always)]
    pub fn push(&mut self, lane: Lane, item: T) {
        match lane {
            Lane::Io => self.io.items.push_back(item),
            Lane::Normal => self.normal.items.push_back(item),
            Lane::Background => self.background.items.push_back((self.now, item)),
        }
    }

    /// Reserves room for `count` more items in `lane`, so that as many [`Lanes::push`] calls do not allocate. `false`
    /// if there is no memory.
    #[inline(always)]
    pub fn try_reserve(&mut self, lane: Lane, count: usize) -> bool {
        match lane {
            Lane::Io => self.io.try_reserve(count),
            Lane::Normal => self.normal.try_reserve(count),
            Lane::Background => self.background.try_reserve(count),
        }
    }

    /// Appends `item` to the background lane, with `now` as its arrival time.
    pub fn push_background(&mut self, item: T, now: Time) {
        self.now = now;
        self.push(Lane::Background, item);
    }

    /// Moves background items that have waited for more than `max_overdue` to the end of the normal lane.
    pub fn promote_overdue(&mut self, now: Time, max_overdue: Duration) {
        self.now = now;
        while let Some(&(since, _)) = self.background.items.front()
            && now.saturating_duration_since(since) > max_overdue
            && let Some((_, item)) = self.background.pop()
        {
            self.normal.items.push_back(item);
        }
    }

    /// The number of ready items, in all lanes.
    pub fn len(&self) -> usize {
        self.io.items.len() + self.normal.items.len() + self.background.items.len()
    }

    /// Whether all lanes are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the background lane has items.
    pub fn has_background(&self) -> bool {
        !self.background.items.is_empty()
    }

    /// Begins an iteration over the items that are ready now.
    pub fn begin_iteration(&self) -> IterationBound {
        let idle = self.io.items.is_empty() && self.normal.items.is_empty();
        IterationBound {
            io: self.io.end(),
            normal: self.normal.end(),
            background: self.background.taken + u64::from(idle && !self.background.items.is_empty()),
            ran_normal: false,
        }
    }

    /// The next item of the iteration; `None` at its end.
    pub fn next(&mut self, bound: &mut IterationBound) -> Option<T> {
        // Extend the I/O limit once per normal item only: otherwise an I/O item that adds another would starve the
        // normal lane.
        if self.io_first && bound.ran_normal && self.normal.taken < bound.normal {
            bound.io = self.io.end();
            bound.ran_normal = false;
        }
        if let Some(item) = self.io.pop_until(bound.io) {
            return Some(item);
        }
        if let Some(item) = self.normal.pop_until(bound.normal) {
            bound.ran_normal = true;
            return Some(item);
        }
        self.background.pop_until(bound.background).map(|(_, item)| item)
    }

    /// Removes and returns all items, in the order of the lanes. A current iteration ends.
    #[must_use = "dropping an item may run user code: do it outside of the borrow"]
    pub fn clear(&mut self) -> Vec<T> {
        let (io, normal, background) = (self.io.clear(), self.normal.clear(), self.background.clear());
        io.into_iter().chain(normal).chain(background.into_iter().map(|(_, item)| item)).collect()
    }

    /// All items, in the order of the lanes.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let background = self.background.items.iter().map(|(_, item)| item);
        self.io.items.iter().chain(&self.normal.items).chain(background)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(100);

    fn run_iteration<T>(lanes: &mut Lanes<T>, mut run: impl FnMut(&mut Lanes<T>, &T)) -> Vec<T> {
        let mut ran = Vec::new();
        let mut bound = lanes.begin_iteration();
        while let Some(item) = lanes.next(&mut bound) {
            run(lanes, &item);
            ran.push(item);
        }
        ran
    }

    fn lanes_of(items: &[(Lane, &'static str)]) -> Lanes<&'static str> {
        let mut lanes = Lanes::new();
        for &(lane, item) in items {
            lanes.push(lane, item);
        }
        lanes
    }

    #[test]
    fn an_iteration_serves_io_first_and_each_lane_in_order() {
        let mut lanes = lanes_of(&[
            (Lane::Normal, "a"),
            (Lane::Io, "x"),
            (Lane::Normal, "b"),
            (Lane::Io, "y"),
            (Lane::Background, "z"),
        ]);
        assert_eq!(lanes.len(), 5);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["x", "y", "a", "b"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["z"]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn items_pushed_during_an_iteration_run_in_the_next() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b")]);
        let ran = run_iteration(&mut lanes, |lanes, _| {
            lanes.push(Lane::Normal, "later");
            lanes.push(Lane::Io, "later io");
        });
        assert_eq!(ran, ["a", "b"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["later io", "later io", "later", "later"]);
    }

    #[test]
    fn io_first_serves_new_io_before_each_remaining_normal_item() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b"), (Lane::Normal, "c")]);
        lanes.set_io_first(true);
        let ran = run_iteration(&mut lanes, |lanes, &item| match item {
            "a" => lanes.push(Lane::Io, "x"),
            "c" => lanes.push(Lane::Io, "too late"),
            _ => {}
        });
        assert_eq!(ran, ["a", "x", "b", "c"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["too late"]);
    }

    #[test]
    fn io_that_adds_io_does_not_starve_normal_items() {
        let mut lanes = lanes_of(&[(Lane::Io, "io"), (Lane::Normal, "a"), (Lane::Normal, "b")]);
        lanes.set_io_first(true);
        let ran = run_iteration(&mut lanes, |lanes, &item| {
            if item == "io" {
                lanes.push(Lane::Io, "io");
            }
        });
        assert_eq!(ran, ["io", "a", "io", "b"]);
    }

    #[test]
    fn one_background_item_runs_per_idle_iteration() {
        let mut lanes = lanes_of(&[(Lane::Background, "x"), (Lane::Background, "y")]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["x"]);
        lanes.push(Lane::Io, "io");
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["io"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["y"]);
    }

    #[test]
    fn overdue_background_items_join_the_normal_lane() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a")]);
        lanes.push_background("x", Time::from_nanos(1_000));
        lanes.push_background("y", Time::from_nanos(1_001));
        lanes.promote_overdue(Time::from_nanos(1_100), LIMIT);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["a"]);
        lanes.push(Lane::Normal, "b");
        lanes.promote_overdue(Time::from_nanos(1_101), LIMIT);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["b", "x"]);
    }

    #[test]
    fn a_background_item_pushed_without_a_time_gets_the_last_known_one() {
        let mut lanes = Lanes::new();
        lanes.promote_overdue(Time::from_nanos(1_000), LIMIT);
        lanes.push(Lane::Background, "x");
        lanes.push(Lane::Normal, "a");
        lanes.promote_overdue(Time::from_nanos(1_100), LIMIT);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["a"]);
        lanes.push(Lane::Normal, "b");
        lanes.promote_overdue(Time::from_nanos(1_101), LIMIT);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["b", "x"]);
    }

    #[test]
    fn a_nested_iteration_runs_the_rest_and_the_outer_one_runs_nothing_new() {
        let mut lanes = lanes_of(&[(Lane::Normal, "outer"), (Lane::Normal, "a"), (Lane::Normal, "b")]);
        let mut inner = Vec::new();
        let ran = run_iteration(&mut lanes, |lanes, _| {
            inner = run_iteration(lanes, |_, _| {});
            lanes.push(Lane::Normal, "new");
            lanes.push(Lane::Normal, "new");
        });
        assert_eq!((ran, inner), (vec!["outer"], vec!["a", "b"]));
        assert_eq!(lanes.len(), 2);
    }

    #[test]
    fn clear_returns_everything_and_ends_the_iteration() {
        let mut lanes = lanes_of(&[(Lane::Background, "z"), (Lane::Normal, "a"), (Lane::Io, "x")]);
        lanes.push(Lane::Normal, "b");
        assert_eq!(lanes.iter().copied().collect::<Vec<_>>(), ["x", "a", "b", "z"]);
        let mut cleared = Vec::new();
        let ran = run_iteration(&mut lanes, |lanes, _| {
            cleared = lanes.clear();
            lanes.push(Lane::Normal, "new");
        });
        assert_eq!((ran, cleared), (vec!["x"], vec!["a", "b", "z"]));
        assert_eq!(lanes.len(), 1);
    }
}
