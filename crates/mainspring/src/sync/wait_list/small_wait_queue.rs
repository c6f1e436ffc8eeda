//! `SmallWaitQueue`: who stands in a [`WaitList`](super::WaitList): one at most, or a [`WaitQueue`] of them.
//!
//! Most lists never have more than one waiter (a connection has one reader), so one has its place in the list itself. When a
//! second comes, both stand in a queue, where the first has the key that it had: a line's first place.
//!
//! The rules are those of `queue.rs`. Nothing here calls out.

use super::single_waiter::SingleWaiter;
use super::wait_queue::{RemovedWaiter, WaitQueue, WaiterKey, Waiters};
use std::task::Waker;

/// Whether a waiter was chosen alone, and so has something to hand on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Handoff(pub(super) bool);

/// See the module's text.
pub(crate) enum SmallWaitQueue {
    /// Nobody, or one, whose key is [`WaiterKey::FIRST`].
    One(SingleWaiter<Handoff>),
    Many(Box<WaitQueue<Handoff>>),
}

impl SmallWaitQueue {
    pub(super) const EMPTY: Self = SmallWaitQueue::One(SingleWaiter::new(Handoff(false)));

    /// Takes the last place.
    #[inline]
    pub(super) fn enqueue(&mut self) -> WaiterKey {
        match self {
            SmallWaitQueue::One(single) if single.is_empty() => single.enqueue(Handoff::default(), None),
            _ => self.wait_queue().enqueue(Handoff::default(), None),
        }
    }

    /// All of them as a queue.
    #[cold]
    #[inline(never)]
    fn wait_queue(&mut self) -> &mut WaitQueue<Handoff> {
        if let SmallWaitQueue::One(single) = self {
            let mut queue = Box::<WaitQueue<Handoff>>::default();
            if !single.is_empty() {
                let removed = single.remove(WaiterKey::FIRST);
                queue.enqueue(removed.data, removed.waker);
                if removed.was_notified {
                    // It has been woken, and has no waker.
                    queue.notify_first_and_take_waker();
                }
            }
            *self = SmallWaitQueue::Many(queue);
        }
        match self {
            SmallWaitQueue::Many(queue) => queue,
            SmallWaitQueue::One(_) => unreachable!("it was made a line above"),
        }
    }

    /// Gives the place up if it is of one who is alone and was woken, with nothing to hand out; else the key comes back.
    #[inline]
    pub(super) fn remove_woken(&mut self, key: WaiterKey) -> Result<(), WaiterKey> {
        let has_left = if let SmallWaitQueue::One(single) = self { single.remove_if_woken() } else { false };
        if has_left { Ok(()) } else { Err(key) }
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

    /// Has a place that was chosen wait on where it stood; one that was not waits anyway.
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

    /// Whether the place would wake the task of `waker`; a place that is chosen has no need to.
    pub(super) fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool {
        match self {
            SmallWaitQueue::One(single) => single.has_waker(key, waker),
            SmallWaitQueue::Many(queue) => queue.has_waker(key, waker),
        }
    }

    /// Sets the waker of a place, and gives the one that was there.
    #[inline]
    pub(super) fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker> {
        match self {
            SmallWaitQueue::One(single) => single.replace_waker(key, waker),
            SmallWaitQueue::Many(queue) => queue.replace_waker(key, waker),
        }
    }

    /// Chooses the first `count`, or all if they are fewer, each with a turn of its own to hand on if `turn` says so. How
    /// many were chosen; and the waker of one who was alone. A line is woken with [`SmallWaitQueue::next_to_wake`].
    #[inline]
    pub(super) fn notify(&mut self, count: usize, turn: Handoff) -> (usize, Option<Waker>) {
        match self {
            SmallWaitQueue::One(single) if count > 0 && single.waiting() > 0 => {
                *single.data_mut(&WaiterKey::FIRST) = turn;
                (1, single.notify_first_and_take_waker())
            }
            SmallWaitQueue::One(_) => (0, None),
            SmallWaitQueue::Many(queue) => {
                let mut chosen = 0;
                while chosen < count
                    && let Some(data) = queue.notify_first()
                {
                    *data = turn;
                    chosen += 1;
                }
                (chosen, None)
            }
        }
    }

    /// The next of a line who was chosen and is to be woken.
    pub(super) fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        match self {
            SmallWaitQueue::One(_) => None,
            SmallWaitQueue::Many(queue) => queue.next_to_wake(),
        }
    }

    /// How many wait and were not chosen.
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

    fn nothing() -> Waker {
        Waker::noop().clone()
    }

    #[test]
    fn who_was_alone_keeps_its_place_when_others_come() {
        let mut waiters = SmallWaitQueue::default();
        let first = waiters.enqueue();
        assert!(waiters.replace_waker(&first, nothing()).is_none());
        let second = waiters.enqueue();
        assert!(waiters.has_waker(&first, &nothing()));
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
    fn who_was_notified_alone_is_woken_once_also_if_another_comes() {
        let mut waiters = SmallWaitQueue::default();
        let first = waiters.enqueue();
        waiters.replace_waker(&first, nothing());
        assert!(matches!(waiters.notify(usize::MAX, Handoff(true)), (1, Some(_))));
        assert!(matches!(waiters.notify(usize::MAX, Handoff(true)), (0, None)), "it is chosen already");
        let second = waiters.enqueue();
        assert!(waiters.is_notified(&first) && !waiters.is_notified(&second));
        assert!(waiters.next_to_wake().is_none());
        waiters.requeue_if_notified(&first);
        assert_eq!(waiters.waiting(), 2);
        assert!(waiters.remove(first).data == Handoff(false));
        assert!(!waiters.remove(second).was_notified);
    }

    #[test]
    fn who_stands_again_alone_can_be_chosen_again() {
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
