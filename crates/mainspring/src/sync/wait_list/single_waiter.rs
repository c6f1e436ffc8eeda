//! `SingleWaiter`: a queue for at most one waiter.
//!
//! A channel has one receiver, and most connections have one reader. One waiter needs no table, order or tickets:
//! each operation of a [`WaitQueue`](super::wait_queue::WaitQueue) is one assignment here. The rules are the same.

use super::wait_queue::{RemovedWaiter, WaiterKey, Waiters};
use std::task::Waker;

/// The waiter, if there is one. The caller ensures that there is at most one.
#[derive(Default)]
pub(crate) struct SingleWaiter<N = ()> {
    state: SingleState,
    data: N,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum SingleState {
    #[default]
    Empty,
    Waiting,
    /// Notified, not yet woken.
    ToWake,
    /// Notified and woken.
    Woken,
}

impl<N> SingleWaiter<N> {
    /// No waiter, and its data.
    pub(super) const fn new(data: N) -> Self {
        SingleWaiter { state: SingleState::Empty, data, waker: None }
    }

    /// Removes the waiter if it was woken and has no waker to drop. Returns whether it did.
    #[inline]
    pub(super) fn remove_if_woken(&mut self) -> bool {
        let is_woken = self.state == SingleState::Woken && self.waker.is_none();
        if is_woken {
            self.state = SingleState::Empty;
        }
        is_woken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state == SingleState::Empty
    }
}

impl<N: Default> Waiters<N> for SingleWaiter<N> {
    #[inline]
    fn waiting(&self) -> usize {
        usize::from(self.state == SingleState::Waiting)
    }

    #[inline]
    fn notified(&self) -> usize {
        usize::from(matches!(self.state, SingleState::ToWake | SingleState::Woken))
    }

    #[inline]
    fn has_any_to_wake(&self) -> bool {
        self.state == SingleState::ToWake
    }

    #[inline]
    fn enqueue(&mut self, data: N, waker: Option<Waker>) -> WaiterKey {
        debug_assert!(self.is_empty(), "a second waiter in a `SingleWaiter`");
        (self.state, self.data, self.waker) = (SingleState::Waiting, data, waker);
        WaiterKey::FIRST
    }

    #[inline]
    fn remove(&mut self, key: WaiterKey) -> RemovedWaiter<N> {
        let was_notified = self.is_notified(&key);
        self.state = SingleState::Empty;
        RemovedWaiter { data: std::mem::take(&mut self.data), was_notified, waker: self.waker.take() }
    }

    #[inline]
    fn is_notified(&self, _: &WaiterKey) -> bool {
        self.state != SingleState::Waiting
    }

    #[inline]
    fn data_mut(&mut self, _: &WaiterKey) -> &mut N {
        &mut self.data
    }

    #[inline]
    fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool {
        self.is_notified(key) || self.waker.as_ref().is_some_and(|current| current.will_wake(waker))
    }

    #[inline]
    fn replace_waker(&mut self, _: &WaiterKey, waker: Waker) -> Option<Waker> {
        self.waker.replace(waker)
    }

    #[inline]
    fn requeue(&mut self, _: &WaiterKey) {
        self.state = SingleState::Waiting;
    }

    #[inline]
    fn notify_first(&mut self) -> Option<&mut N> {
        if self.state != SingleState::Waiting {
            return None;
        }
        self.state = SingleState::ToWake;
        Some(&mut self.data)
    }

    #[inline]
    fn notify_first_and_take_waker(&mut self) -> Option<Waker> {
        if self.state != SingleState::Waiting {
            return None;
        }
        self.state = SingleState::Woken;
        self.waker.take()
    }

    #[inline]
    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        if self.state != SingleState::ToWake {
            return None;
        }
        self.state = SingleState::Woken;
        Some(self.waker.take())
    }
}
