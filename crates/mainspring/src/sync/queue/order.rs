//! The order in which a queue returns its items.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Stores the items of a queue and selects the next: the part of asyncio's `Queue` that subclasses override.
///
/// These functions run while the queue is borrowed. Calling the same queue from them panics, like borrowing a
/// [`RefCell`](std::cell::RefCell) twice.
///
/// ```
/// use mainspring::sync::{Order, OrderedQueue};
/// use std::collections::BTreeSet;
///
/// /// Least first, without duplicates.
/// #[derive(Default)]
/// struct Distinct(BTreeSet<u32>);
///
/// impl Order<u32> for Distinct {
///     fn put(&mut self, item: u32) {
///         self.0.insert(item);
///     }
///     fn get(&mut self) -> Option<u32> {
///         self.0.pop_first()
///     }
///     fn len(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let queue = OrderedQueue::<u32, Distinct>::new(0);
/// for item in [2, 1, 2] {
///     queue.put_nowait(item).unwrap();
/// }
/// assert_eq!((queue.get_nowait(), queue.qsize()), (Ok(1), 1));
/// ```
pub trait Order<T>: Default {
    /// Stores an item.
    fn put(&mut self, item: T);

    /// Removes and returns the next item.
    fn get(&mut self) -> Option<T>;

    /// The number of items.
    fn len(&self) -> usize;

    /// Whether there is no item.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// First in, first out: the [`Order`] of [`Queue`](super::Queue).
///
/// ```
/// use mainspring::sync::{Fifo, Order};
///
/// let mut order = Fifo::default();
/// order.put('a');
/// order.put('b');
/// assert_eq!((order.get(), order.len(), order.is_empty()), (Some('a'), 1, false));
/// ```
#[derive(Debug)]
pub struct Fifo<T>(VecDeque<T>);

/// Last in, first out: the [`Order`] of [`LifoQueue`](super::LifoQueue).
///
/// ```
/// use mainspring::sync::{Lifo, Order};
///
/// let mut order = Lifo::default();
/// order.put('a');
/// order.put('b');
/// assert_eq!(order.get(), Some('b'));
/// ```
#[derive(Debug)]
pub struct Lifo<T>(Vec<T>);

/// Least first, equal items first in, first out: the [`Order`] of [`PriorityQueue`](super::PriorityQueue).
///
/// ```
/// use mainspring::sync::{LeastFirst, Order};
///
/// let mut order = LeastFirst::default();
/// order.put(2);
/// order.put(1);
/// assert_eq!(order.get(), Some(1));
/// ```
#[derive(Debug)]
pub struct LeastFirst<T> {
    heap: BinaryHeap<Ranked<T>>,
    next_number: u64,
}

/// An item with reversed comparison: the heap returns its greatest first.
#[derive(Debug)]
struct Ranked<T> {
    item: T,
    number: u64,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Fifo(VecDeque::new())
    }
}

impl<T> Order<T> for Fifo<T> {
    fn put(&mut self, item: T) {
        self.0.push_back(item);
    }

    fn get(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Default for Lifo<T> {
    fn default() -> Self {
        Lifo(Vec::new())
    }
}

impl<T> Order<T> for Lifo<T> {
    fn put(&mut self, item: T) {
        self.0.push(item);
    }

    fn get(&mut self) -> Option<T> {
        self.0.pop()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T: Ord> Default for LeastFirst<T> {
    fn default() -> Self {
        LeastFirst { heap: BinaryHeap::new(), next_number: 0 }
    }
}

impl<T: Ord> Order<T> for LeastFirst<T> {
    fn put(&mut self, item: T) {
        let number = self.next_number;
        self.next_number += 1;
        self.heap.push(Ranked { item, number });
    }

    fn get(&mut self) -> Option<T> {
        self.heap.pop().map(|ranked| ranked.item)
    }

    fn len(&self) -> usize {
        self.heap.len()
    }
}

impl<T: Ord> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.item.cmp(&self.item).then(other.number.cmp(&self.number))
    }
}

impl<T: Ord> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Ord> Eq for Ranked<T> {}
