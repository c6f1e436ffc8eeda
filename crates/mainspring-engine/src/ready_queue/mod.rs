//! The ready lanes: which call runs next.
//!
//! There are three lanes. An iteration serves the urgent lane, then the normal lane, each first in, first out. It takes
//! one item of the background lane if the other two were empty. An item that has waited there too long is overdue: it
//! runs before the next normal item. One overdue item runs before each normal one, so neither lane starves the other.
//!
//! As in asyncio, an iteration runs exactly the calls that were ready when it began; calls that these schedule run in
//! the next one. Every lane counts the items that ever left it, and a [`IterationBound`] stores the count at which to stop.
//! This also holds if the lanes are cleared meanwhile, or if a callback runs a nested iteration.
//!
//! [`Lanes::set_io_first`] makes one exception, as MicroPython's `fast_io` does: before each normal item, the
//! iteration serves new items of the urgent lane.

mod background;

use crate::clock::Time;
use background::Background;
use std::collections::VecDeque;
use std::time::Duration;

/// The queue of a ready call.
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

/// The limits of one iteration in each lane.
#[derive(Clone, Copy, Debug)]
pub struct IterationBound {
    urgent: u64,
    normal: u64,
    /// Whether one background item may run.
    background: bool,
    /// Whether an overdue item may run before the next normal one.
    overdue: bool,
    /// The last item was a normal one, so the urgent lane is checked again.
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

    /// Puts items back that have left the lane last, in their order.
    fn put_back(&mut self, items: Vec<T>) {
        for item in items.into_iter().rev() {
            self.items.push_front(item);
            self.taken = self.taken.saturating_sub(1);
        }
    }

    fn clear(&mut self) -> VecDeque<T> {
        self.taken = self.end();
        std::mem::take(&mut self.items)
    }
}

/// The ready items of a loop.
pub struct Lanes<T> {
    urgent: Fifo<T>,
    normal: Fifo<T>,
    background: Background<T>,
    io_first: bool,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Lanes<T> {
    /// Empty lanes.
    pub const fn new() -> Self {
        Lanes { urgent: Fifo::new(), normal: Fifo::new(), background: Background::new(), io_first: false }
    }

    /// Sets whether an iteration serves I/O and new items of the urgent lane before each normal item, not only at its
    /// beginning.
    pub fn set_io_first(&mut self, io_first: bool) {
        self.io_first = io_first;
    }

    /// Whether [`Lanes::set_io_first`] is in effect.
    #[inline(always)]
    pub fn io_first(&self) -> bool {
        self.io_first
    }

    /// Appends `item` to the normal lane.
    #[inline(always)]
    pub fn push_normal(&mut self, item: T) {
        self.normal.items.push_back(item);
    }

    /// Appends the item that `make` returns to the normal lane.
    #[inline(always)]
    pub fn push_normal_with(&mut self, make: impl FnOnce() -> T) {
        let items = &mut self.normal.items;
        if items.len() < items.capacity() {
            // This cannot panic, so the compiler needs no copy of the item to drop.
            items.push_back(make());
        } else {
            Self::push_growing(items, make);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_growing(items: &mut VecDeque<T>, make: impl FnOnce() -> T) {
        items.push_back(make());
    }

    /// Appends `item` to the urgent lane; returns it if there is no memory.
    pub fn try_push_urgent(&mut self, item: T) -> Result<(), T> {
        if !self.urgent.try_reserve(1) {
            return Err(item);
        }
        self.urgent.items.push_back(item);
        Ok(())
    }

    /// The lane of calls that serve I/O.
    #[inline(always)]
    fn io(&mut self) -> &mut Fifo<T> {
        if self.io_first { &mut self.urgent } else { &mut self.normal }
    }

    /// Appends a call that serves I/O: to the urgent lane if I/O is served first, otherwise to the normal one.
    #[inline(always)]
    pub fn push_io(&mut self, item: T) {
        self.io().items.push_back(item);
    }

    /// The normal lane.
    pub(crate) fn normal_mut(&mut self) -> &mut VecDeque<T> {
        &mut self.normal.items
    }

    /// Reserves room for `count` more items in the normal lane, so that as many [`Lanes::push_normal`] calls do not
    /// allocate. `false` if there is no memory.
    #[inline(always)]
    pub fn try_reserve_normal(&mut self, count: usize) -> bool {
        self.normal.try_reserve(count)
    }

    /// As [`Lanes::try_reserve_normal`], for [`Lanes::push_io`].
    #[inline(always)]
    pub fn try_reserve_io(&mut self, count: usize) -> bool {
        self.io().try_reserve(count)
    }

    /// Appends `item` to the background lane, where it waits since `now`. After `limit` it is overdue; `None` stands for
    /// the limit of the loop. Returns the item if there is no memory.
    pub fn try_push_background(&mut self, item: T, now: Time, limit: Option<Duration>) -> Result<(), T> {
        self.background.try_push(item, now, limit)
    }

    /// Moves the background items that `is_it` accepts to the end of the normal lane. Without memory for an item, it stays
    /// where it is. Returns whether all were moved.
    pub fn promote_if(&mut self, mut is_it: impl FnMut(&T) -> bool) -> bool {
        let mut accepted = 0;
        let count = |item: &T| {
            let is_accepted = is_it(item);
            accepted += usize::from(is_accepted);
            is_accepted
        };
        let normal = &mut self.normal;
        let items = self.background.take_if(count, |room| normal.try_reserve(room));
        let moved = items.len();
        normal.items.extend(items.into_iter().map(|item| item.value));
        moved == accepted
    }

    /// Puts items back at the front of the normal lane. A current iteration runs them.
    pub fn put_back(&mut self, items: Vec<T>) {
        self.normal.put_back(items);
    }

    /// The number of ready items, in all lanes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.urgent.items.len() + self.normal.items.len() + self.background.len()
    }

    /// The number of ready items in `lane`.
    pub fn len_of(&self, lane: Lane) -> usize {
        match lane {
            Lane::Urgent => self.urgent.items.len(),
            Lane::Normal => self.normal.items.len(),
            Lane::Background => self.background.len(),
        }
    }

    /// Whether all lanes are empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the background lane has items.
    #[inline(always)]
    pub fn has_background(&self) -> bool {
        self.background.len() > 0
    }

    /// Begins an iteration over the items that are ready now.
    #[inline(always)]
    pub fn begin_iteration(&self) -> IterationBound {
        IterationBound {
            urgent: self.urgent.end(),
            normal: self.normal.end(),
            background: self.urgent.items.is_empty() && self.normal.items.is_empty(),
            overdue: true,
            ran_normal: false,
        }
    }

    /// Whether the iteration is about to run a normal item after another, so that I/O is served first.
    #[inline(always)]
    pub fn serves_io_next(&self, bound: &IterationBound) -> bool {
        self.io_first && bound.ran_normal && self.normal.taken < bound.normal
    }

    /// Whether only the normal lane can have items for an iteration: [`Lanes::next_normal`] is then enough.
    #[inline(always)]
    pub fn has_only_normal(&self) -> bool {
        !self.io_first && self.urgent.items.is_empty() && self.background.len() == 0
    }

    /// The next item of the iteration, if [`Lanes::has_only_normal`]; `None` at its end.
    #[inline(always)]
    pub fn next_normal(&mut self, bound: &mut IterationBound) -> Option<T> {
        let item = self.normal.pop_until(bound.normal)?;
        bound.overdue = true;
        bound.ran_normal = true;
        Some(item)
    }

    /// The next item of the iteration; `None` at its end. `now` and the limit of the loop decide which background items
    /// are overdue; `now` is needed only if there are any ([`Lanes::has_background`]).
    #[inline(always)]
    pub fn next(
        &mut self,
        bound: &mut IterationBound,
        now: Option<Time>,
        default_limit: Option<Duration>,
    ) -> Option<T> {
        // Extend the limit once per normal item only: otherwise an urgent item that adds another would starve the normal
        // lane.
        if self.serves_io_next(bound) {
            bound.urgent = self.urgent.end();
            bound.ran_normal = false;
        }
        if let Some(item) = self.urgent.pop_until(bound.urgent) {
            return Some(item);
        }
        if let Some(now) = now
            && self.normal.taken < bound.normal
            && std::mem::take(&mut bound.overdue)
            && let Some(item) = self.background.pop_overdue(now, default_limit)
        {
            return Some(item);
        }
        if let Some(item) = self.next_normal(bound) {
            return Some(item);
        }
        if std::mem::take(&mut bound.background) { self.background.pop() } else { None }
    }

    /// Removes and returns all items, in the order of the lanes. A current iteration ends.
    #[must_use = "dropping an item may run user code: do it outside of the borrow"]
    pub fn clear(&mut self) -> Vec<T> {
        let background = std::mem::replace(&mut self.background, Background::new());
        self.urgent.clear().into_iter().chain(self.normal.clear()).chain(background).collect()
    }

    /// All items, in the order of the lanes; background items with equal limits in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.urgent.items.iter().chain(&self.normal.items).chain(self.background.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_nanos(100));

    fn run_iteration<T>(lanes: &mut Lanes<T>, run: impl FnMut(&mut Lanes<T>, &T)) -> Vec<T> {
        run_iteration_at(0, lanes, run)
    }

    fn run_iteration_at<T>(now: u64, lanes: &mut Lanes<T>, mut run: impl FnMut(&mut Lanes<T>, &T)) -> Vec<T> {
        let now = Time::from_nanos(now);
        let mut ran = Vec::new();
        let mut bound = lanes.begin_iteration();
        while let Some(item) = lanes.next(&mut bound, Some(now), LIMIT) {
            run(lanes, &item);
            ran.push(item);
        }
        ran
    }

    fn push<T: std::fmt::Debug>(lanes: &mut Lanes<T>, lane: Lane, item: T) {
        match lane {
            Lane::Urgent => lanes.try_push_urgent(item).unwrap(),
            Lane::Normal => lanes.push_normal(item),
            Lane::Background => lanes.try_push_background(item, Time::ZERO, None).unwrap(),
        }
    }

    fn push_at(lanes: &mut Lanes<&'static str>, item: &'static str, now: u64, limit: Option<u64>) {
        lanes.try_push_background(item, Time::from_nanos(now), limit.map(Duration::from_nanos)).unwrap();
    }

    fn lanes_of(items: &[(Lane, &'static str)]) -> Lanes<&'static str> {
        let mut lanes = Lanes::new();
        for &(lane, item) in items {
            push(&mut lanes, lane, item);
        }
        lanes
    }

    #[test]
    fn an_iteration_serves_io_first_and_each_lane_in_order() {
        let mut lanes = lanes_of(&[
            (Lane::Normal, "a"),
            (Lane::Urgent, "x"),
            (Lane::Normal, "b"),
            (Lane::Urgent, "y"),
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
            push(lanes, Lane::Normal, "later");
            push(lanes, Lane::Urgent, "later io");
        });
        assert_eq!(ran, ["a", "b"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["later io", "later io", "later", "later"]);
    }

    #[test]
    fn io_first_serves_new_io_before_each_remaining_normal_item() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b"), (Lane::Normal, "c")]);
        lanes.set_io_first(true);
        let ran = run_iteration(&mut lanes, |lanes, &item| match item {
            "a" => push(lanes, Lane::Urgent, "x"),
            "c" => push(lanes, Lane::Urgent, "too late"),
            _ => {}
        });
        assert_eq!(ran, ["a", "x", "b", "c"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["too late"]);
    }

    #[test]
    fn io_that_adds_io_does_not_starve_normal_items() {
        let mut lanes = lanes_of(&[(Lane::Urgent, "io"), (Lane::Normal, "a"), (Lane::Normal, "b")]);
        lanes.set_io_first(true);
        let ran = run_iteration(&mut lanes, |lanes, &item| {
            if item == "io" {
                push(lanes, Lane::Urgent, "io");
            }
        });
        assert_eq!(ran, ["io", "a", "io", "b"]);
    }

    #[test]
    fn one_background_item_runs_per_idle_iteration() {
        let mut lanes = lanes_of(&[(Lane::Background, "x"), (Lane::Background, "y")]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["x"]);
        push(&mut lanes, Lane::Urgent, "io");
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["io"]);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["y"]);
    }

    #[test]
    fn an_overdue_item_runs_before_the_next_normal_one() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b"), (Lane::Urgent, "u")]);
        push_at(&mut lanes, "x", 1_000, None);
        push_at(&mut lanes, "y", 1_001, None);
        assert_eq!(run_iteration_at(1_100, &mut lanes, |_, _| {}), ["u", "a", "b"]);
        push(&mut lanes, Lane::Normal, "c");
        assert_eq!(run_iteration_at(1_101, &mut lanes, |_, _| {}), ["x", "c"]);
    }

    #[test]
    fn overdue_and_normal_items_alternate() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b")]);
        for name in ["x", "y", "z"] {
            push_at(&mut lanes, name, 1_000, Some(1));
        }
        assert_eq!(run_iteration_at(2_000, &mut lanes, |_, _| {}), ["x", "a", "y", "b"]);
        assert_eq!(run_iteration_at(2_000, &mut lanes, |_, _| {}), ["z"]);
    }

    #[test]
    fn each_background_item_has_its_own_limit() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b")]);
        push_at(&mut lanes, "patient", 1_000, Some(500));
        push_at(&mut lanes, "loop's limit", 1_001, None);
        push_at(&mut lanes, "impatient", 1_002, Some(10));
        assert_eq!(run_iteration_at(1_013, &mut lanes, |_, _| {}), ["impatient", "a", "b"]);
        push(&mut lanes, Lane::Normal, "c");
        assert_eq!(run_iteration_at(1_200, &mut lanes, |_, _| {}), ["loop's limit", "c"]);
        push(&mut lanes, Lane::Normal, "d");
        assert_eq!(run_iteration_at(1_501, &mut lanes, |_, _| {}), ["patient", "d"]);
    }

    #[test]
    fn items_that_are_overdue_at_once_keep_the_order_of_their_arrival() {
        let mut lanes = lanes_of(&[(Lane::Normal, "-"); 3]);
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            push_at(&mut lanes, name, 1_000, Some(2 - number as u64 % 2));
        }
        assert_eq!(run_iteration_at(2_000, &mut lanes, |_, _| {}), ["a", "-", "b", "-", "c", "-"]);
    }

    #[test]
    fn idle_iterations_run_background_items_in_the_order_of_their_arrival() {
        let mut lanes = Lanes::new();
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            push_at(&mut lanes, name, 1_000, Some(100 - number as u64));
        }
        for name in ["a", "b", "c"] {
            assert_eq!(run_iteration(&mut lanes, |_, _| {}), [name]);
        }
    }

    #[test]
    fn promote_if_moves_accepted_background_items_only() {
        let mut lanes = lanes_of(&[(Lane::Background, "x"), (Lane::Background, "y"), (Lane::Normal, "a")]);
        push_at(&mut lanes, "z", 1_000, Some(1));
        let mut asked = 0;
        assert!(lanes.promote_if(|&item| {
            asked += 1;
            item != "y"
        }));
        assert_eq!(asked, 3, "once for each item");
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["a", "x", "z"]);
        assert_eq!((lanes.len(), lanes.len_of(Lane::Background)), (1, 1));
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["y"]);
    }

    #[test]
    fn a_nested_iteration_runs_the_rest_and_the_outer_one_runs_nothing_new() {
        let mut lanes = lanes_of(&[(Lane::Normal, "outer"), (Lane::Normal, "a"), (Lane::Normal, "b")]);
        let mut inner = Vec::new();
        let ran = run_iteration(&mut lanes, |lanes, _| {
            inner = run_iteration(lanes, |_, _| {});
            push(lanes, Lane::Normal, "new");
            push(lanes, Lane::Normal, "new");
        });
        assert_eq!((ran, inner), (vec!["outer"], vec!["a", "b"]));
        assert_eq!(lanes.len(), 2);
    }

    #[test]
    fn items_that_are_put_back_run_first_and_in_the_same_iteration() {
        let mut lanes = lanes_of(&[(Lane::Normal, "a"), (Lane::Normal, "b"), (Lane::Normal, "c")]);
        let mut refused = Vec::new();
        let ran = run_iteration(&mut lanes, |lanes, &item| match item {
            "a" => refused = run_iteration(lanes, |lanes, _| push(lanes, Lane::Normal, "new")),
            _ => unreachable!("the nested iteration took the others"),
        });
        assert_eq!((ran, &*refused), (vec!["a"], &["b", "c"][..]));
        lanes.put_back(refused);
        assert_eq!(run_iteration(&mut lanes, |_, _| {}), ["b", "c", "new", "new"]);

        push(&mut lanes, Lane::Normal, "outer");
        push(&mut lanes, Lane::Normal, "x");
        let ran = run_iteration(&mut lanes, |lanes, &item| {
            if item == "outer" {
                let refused = run_iteration(lanes, |_, _| {});
                lanes.put_back(refused);
            }
        });
        assert_eq!(ran, ["outer", "x"]);
    }

    #[test]
    fn clear_returns_everything_and_ends_the_iteration() {
        let mut lanes = lanes_of(&[(Lane::Background, "z"), (Lane::Normal, "a"), (Lane::Urgent, "x")]);
        push(&mut lanes, Lane::Normal, "b");
        assert_eq!(lanes.iter().copied().collect::<Vec<_>>(), ["x", "a", "b", "z"]);
        let mut cleared = Vec::new();
        let ran = run_iteration(&mut lanes, |lanes, _| {
            cleared = lanes.clear();
            push(lanes, Lane::Normal, "new");
        });
        assert_eq!((ran, cleared), (vec!["x"], vec!["a", "b", "z"]));
        assert_eq!(lanes.len(), 1);
    }
}
