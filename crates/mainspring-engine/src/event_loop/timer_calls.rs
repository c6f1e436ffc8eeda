//! `call_at` and its cancellation.

use super::{Engine, Host};
use crate::clock::Time;
use crate::timers::TimerKey;

impl<H: Host> Engine<H> {
    /// Schedules `handle` for `when` on the loop's clock. Calls with equal deadlines keep their order.
    pub fn call_at(&self, when: Time, handle: H::Handle) -> TimerKey {
        self.wake_waiting_driver();
        self.timers.borrow_mut().insert(when, handle)
    }

    /// As [`Engine::call_at`]; returns the handle if there is no memory for it. The caller drops it.
    pub fn try_call_at(&self, when: Time, handle: H::Handle) -> Result<TimerKey, H::Handle> {
        self.wake_waiting_driver();
        self.timers.borrow_mut().try_insert(when, handle)
    }

    /// Removes a timer and returns its handle. `None` if it has fired or was cancelled.
    pub fn cancel_timer(&self, key: TimerKey) -> Option<H::Handle> {
        self.timers.borrow_mut().cancel(key)
    }

    /// As [`Engine::cancel_timer`], but only if `is_it` accepts the handle; `is_it` must not use the engine. For a host
    /// whose users can forge keys.
    pub fn cancel_timer_if(
        &self,
        key: TimerKey,
        is_it: impl FnOnce(&H::Handle) -> bool,
    ) -> Option<H::Handle> {
        let mut timers = self.timers.borrow_mut();
        if timers.get(key).is_some_and(is_it) { timers.cancel(key) } else { None }
    }

    /// The number of pending timers.
    pub fn timers_len(&self) -> usize {
        self.timers.borrow().len()
    }
}
