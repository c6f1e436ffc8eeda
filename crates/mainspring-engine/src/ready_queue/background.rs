//! The background lane: items that run when nothing else is ready, and how long they may wait for that.
//!
//! Items run in the order of their arrival. Each has a limit: after this time it is overdue. Items with equal limits
//! become overdue in the order of their arrival too, so there is one queue for each limit that is in use, and only the
//! front of each is compared with the time.

use crate::clock::Time;
use std::collections::VecDeque;
use std::time::Duration;

pub(super) struct Item<T> {
    since: Time,
    /// Counts arrivals.
    sequence: u64,
    pub(super) value: T,
}

/// The items with one limit.
struct Queue<T> {
    /// `None`: the limit that the loop has at the time of the comparison.
    limit: Option<Duration>,
    items: VecDeque<Item<T>>,
}

/// See the module comment.
pub(super) struct Background<T> {
    /// The queue of the loop's limit stays. The others are removed when they are empty.
    queues: Vec<Queue<T>>,
    arrived: u64,
    len: usize,
}

impl<T> Background<T> {
    pub(super) const fn new() -> Self {
        Background { queues: Vec::new(), arrived: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends an item; returns it if there is no memory.
    pub(super) fn try_push(&mut self, value: T, since: Time, limit: Option<Duration>) -> Result<(), T> {
        let index = match self.queues.iter().position(|queue| queue.limit == limit) {
            Some(index) => index,
            None => {
                if self.queues.try_reserve(1).is_err() {
                    return Err(value);
                }
                self.queues.push(Queue { limit, items: VecDeque::new() });
                self.queues.len() - 1
            }
        };
        let Some(queue) = self.queues.get_mut(index) else { return Err(value) };
        if queue.items.try_reserve(1).is_err() {
            return Err(value);
        }
        queue.items.push_back(Item { since, sequence: self.arrived, value });
        self.arrived += 1;
        self.len += 1;
        Ok(())
    }

    /// Removes the item that arrived first.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.pop_first_if(|_, _| true)
    }

    /// Removes an item that is overdue at `now`: the one that arrived first. `default_limit` applies to items without a
    /// limit of their own; `None`: these are never overdue.
    pub(super) fn pop_overdue(&mut self, now: Time, default_limit: Option<Duration>) -> Option<T> {
        self.pop_first_if(|limit, item| {
            let limit = limit.or(default_limit);
            limit.is_some_and(|limit| now.saturating_duration_since(item.since) > limit)
        })
    }

    /// Of the items at the front of a queue that `is_it` accepts with the queue's limit, removes the one that arrived
    /// first.
    fn pop_first_if(&mut self, is_it: impl Fn(Option<Duration>, &Item<T>) -> bool) -> Option<T> {
        let fronts = self.queues.iter().enumerate();
        let fronts = fronts.filter_map(|(index, queue)| Some((index, queue.limit, queue.items.front()?)));
        let accepted = fronts.filter(|&(_, limit, item)| is_it(limit, item));
        let (index, ..) = accepted.min_by_key(|(_, _, item)| item.sequence)?;
        let queue = self.queues.get_mut(index)?;
        let item = queue.items.pop_front()?;
        self.len -= 1;
        if queue.items.is_empty() && queue.limit.is_some() {
            self.queues.swap_remove(index);
        }
        Some(item.value)
    }

    /// Removes the items that `is_it` accepts, in the order of their arrival. `try_reserve` makes room for as many items
    /// at their new place. Without memory for an item, it stays.
    pub(super) fn take_if(
        &mut self,
        mut is_it: impl FnMut(&T) -> bool,
        mut try_reserve: impl FnMut(usize) -> bool,
    ) -> Vec<Item<T>> {
        let mut taken = Vec::new();
        for queue in &mut self.queues {
            // Each item is taken out once. The queue has room for those that stay.
            for _ in 0..queue.items.len() {
                let Some(item) = queue.items.pop_front() else { break };
                if is_it(&item.value) && taken.try_reserve(1).is_ok() && try_reserve(taken.len() + 1) {
                    taken.push(item);
                } else {
                    queue.items.push_back(item);
                }
            }
        }
        self.queues.retain(|queue| queue.limit.is_none() || !queue.items.is_empty());
        self.len -= taken.len();
        // Not the stable sort, which allocates.
        taken.sort_unstable_by_key(|item| item.sequence);
        taken
    }

    /// All items; those with equal limits in the order of their arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.queues.iter().flat_map(|queue| &queue.items).map(|item| &item.value)
    }
}

/// All items, in the order of their arrival.
impl<T> Iterator for Background<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.pop()
    }
}
