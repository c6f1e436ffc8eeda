//! `SmallWaitQueue`: the waiters of a [`WaitList`](super::WaitList): at most one inline, or a [`WaitQueue`] of them.
//!
//! Most lists never have more than one waiter, so the first is stored inline. The second moves both to a queue, where
//! the first keeps its key: that of the first slot.
//!
//! The rules are those of [`WaitQueue`]. Nothing here runs foreign code.

use super::single_waiter::SingleWaiter;
use super::wait_queue::{RemovedWaiter, WaitQueue, WaiterKey, Waiters};
use std::task::Waker;

/// Whether the waiter was notified by `wake_one`: if it is dropped, the notification goes to the next waiter.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Handoff(pub(super) bool);

/// See the module's documentation.
pub(crate) enum SmallWaitQueue {
    /// None, or one, whose key is [`WaiterKey::FIRST`].
    One(SingleWaiter<Handoff>),
    Many(Box<WaitQueue<Handoff>>),
}

impl SmallWaitQueue {
    pub(super) const EMPTY: Self = SmallWaitQueue::One(SingleWaiter::new(Handoff(false)));

    /// Adds a waiter at the end.
    #[inline]
    pub(super) fn enqueue(&mut self) -> WaiterKey {
        match self {
            SmallWaitQueue::One(single) if single.is_empty() => single.enqueue(Handoff::default(), None),
            _ => self.wait_queue().enqueue(Handoff::default(), None),
        }
    }

    /// Moves all waiters to a queue.
    #[cold]
    #[inline(never)]
    fn wait_queue(&mut self) -> &mut WaitQueue<Handoff> {
        if let SmallWaitQueue::One(single) = self {
            let mut queue = Box::<WaitQueue<Handoff>>::default();
            if !single.is_empty() {
                let removed = single.remove(WaiterKey::FIRST);
                queue.enqueue(removed.data, removed.waker);
                if removed.was_notified {
                    // It was woken, and has no waker.
                    queue.notify_first_and_take_waker();
                }
            }
            *self = SmallWaitQueue::Many(queue);
        }
        match self {
            SmallWaitQueue::Many(queue) => queue,
            SmallWaitQueue::One(_) => unreachable!("`self` was just set to `Many`"),
        }
    }

    /// Removes an inline waiter that was woken and has no waker to drop. Otherwise returns the key.
    #[inline]
    pub(super) fn remove_woken(&mut self, key: WaiterKey) -> Result<(), WaiterKey> {
        let is_removed =
            if let SmallWaitQueue::One(single) = self { single.remove_if_woken() } else { false };
        if is_removed { Ok(()) } else { Err(key) }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: WaiterKey) -> RemovedWaiter<Handoff> {
        match self {
            SmallWaitQueue::One(single) => single.remove(key),
            SmallWaitQueue::Many(queue) => queue.remove(key),
        }
    }

    pub(super) fn is_notified(&self, key: &WaiterKey) -> bool {
        match self {
            SmallWaitQueue::One(single) => single.is_notified(key),
            SmallWaitQueue::Many(queue) => queue.is_notified(key),
        }
    }

    /// Requeues a notified waiter at its place. Does nothing to others.
    pub(super) fn requeue_if_notified(&mut self, key: &WaiterKey) {
        fn requeue_if_notified(queue: &mut impl Waiters<Handoff>, key: &WaiterKey) {
            if queue.is_notified(key) {
                queue.requeue(key);
                *queue.data_mut(key) = Handoff::default();
            }
        }
        match self {
            SmallWaitQueue::One(single) => requeue_if_notified(single, key),
            SmallWaitQueue::Many(queue) => requeue_if_notified(&mut **queue, key),
        }
    }

    /// Whether the waiter wakes the task of `waker`, or is notified and need not wake it.
    pub(super) fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool {
        match self {
            SmallWaitQueue::One(single) => single.has_waker(key, waker),
            SmallWaitQueue::Many(queue) => queue.has_waker(key, waker),
        }
    }

    /// Sets the waker of a waiter. Returns the previous one.
    #[inline]
    pub(super) fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker> {
        match self {
            SmallWaitQueue::One(single) => single.replace_waker(key, waker),
            SmallWaitQueue::Many(queue) => queue.replace_waker(key, waker),
        }
    }

    /// Notifies up to `count` waiters and sets their data to `handoff`. Returns how many, and the waker of an inline
    /// waiter. The wakers of a queue follow from [`SmallWaitQueue::next_to_wake`].
    #[inline]
    pub(super) fn notify(&mut self, count: usize, handoff: Handoff) -> (usize, Option<Waker>) {
        match self {
            SmallWaitQueue::One(single) if count > 0 && single.waiting() > 0 => {
                *single.data_mut(&WaiterKey::FIRST) = handoff;
                (1, single.notify_first_and_take_waker())
            }
            SmallWaitQueue::One(_) => (0, None),
            SmallWaitQueue::Many(queue) => {
                let mut notified = 0;
                while notified < count
                    && let Some(data) = queue.notify_first()
                {
                    *data = handoff;
                    notified += 1;
                }
                (notified, None)
            }
        }
    }

    /// The next notified waiter of a queue that is to be woken.
    pub(super) fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        match self {
            SmallWaitQueue::One(_) => None,
            SmallWaitQueue::Many(queue) => queue.next_to_wake(),
        }
    }

    /// The number of waiters that are not notified.
    pub(super) fn waiting(&self) -> usize {
        match self {
            SmallWaitQueue::One(single) => single.waiting(),
            SmallWaitQueue::Many(queue) => queue.waiting(),
        }
    }
}

impl Default for SmallWaitQueue {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noop_waker() -> Waker {
        Waker::noop().clone()
    }

    #[test]
    fn the_inline_waiter_keeps_its_place_when_others_are_added() {
        let mut waiters = SmallWaitQueue::default();
        let first = waiters.enqueue();
        assert!(waiters.replace_waker(&first, noop_waker()).is_none());
        let second = waiters.enqueue();
        assert!(waiters.has_waker(&first, &noop_waker()));
        assert_eq!(waiters.waiting(), 2);
        assert!(matches!(waiters.notify(1, Handoff(true)), (1, None)));
        assert!(waiters.is_notified(&first) && !waiters.is_notified(&second));
        assert!(matches!(waiters.next_to_wake(), Some(Some(_))));
        let removed = waiters.remove(first);
        assert!(removed.was_notified && removed.data == Handoff(true));
        assert!(!waiters.remove(second).was_notified);
        assert_eq!(waiters.waiting(), 0);
    }

    #[test]
    fn a_notified_inline_waiter_is_woken_once_even_if_another_is_added() {
        let mut waiters = SmallWaitQueue::default();
        let first = waiters.enqueue();
        waiters.replace_waker(&first, noop_waker());
        assert!(matches!(waiters.notify(usize::MAX, Handoff(true)), (1, Some(_))));
        assert!(matches!(waiters.notify(usize::MAX, Handoff(true)), (0, None)), "it is already notified");
        let second = waiters.enqueue();
        assert!(waiters.is_notified(&first) && !waiters.is_notified(&second));
        assert!(waiters.next_to_wake().is_none());
        waiters.requeue_if_notified(&first);
        assert_eq!(waiters.waiting(), 2);
        assert!(waiters.remove(first).data == Handoff(false));
        assert!(!waiters.remove(second).was_notified);
    }

    #[test]
    fn a_requeued_inline_waiter_can_be_notified_again() {
        let mut waiters = SmallWaitQueue::default();
        let key = waiters.enqueue();
        assert!(matches!(waiters.notify(1, Handoff(true)), (1, None)), "it has no waker yet");
        waiters.requeue_if_notified(&key);
        assert_eq!(waiters.waiting(), 1);
        assert!(matches!(waiters.notify(0, Handoff(true)), (0, None)));
        assert!(matches!(waiters.notify(1, Handoff(false)), (1, None)));
        assert!(waiters.remove(key).was_notified);
        assert_eq!(waiters.waiting(), 0);
    }
}
