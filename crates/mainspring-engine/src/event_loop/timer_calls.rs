//! Timers as the loop offers them: `call_at` and its cancellation.

use super::{Engine, Host};
use crate::clock::Time;
use crate::timers::TimerKey;

impl<H: Host> Engine<H> {
    /// Makes `call` ready when the loop's clock reaches `when`; calls for the same time keep their order.
    pub fn call_at(&self, when: Time, call: H::Call) -> TimerKey {
        self.timers.borrow_mut().insert(when, call)
    }

    /// As [`Engine::call_at`]; gives the call back if there is no memory for it, to be dropped by the face.
    pub fn try_call_at(&self, when: Time, call: H::Call) -> Result<TimerKey, H::Call> {
        self.timers.borrow_mut().try_insert(when, call)
    }

    /// Takes a timer out before its time, at once and wherever it stands in the queue. `None` if it has fired or
    /// was cancelled before.
    pub fn cancel_timer(&self, key: TimerKey) -> Option<H::Call> {
        self.timers.borrow_mut().cancel(key)
    }

    /// The same if `is_it` says so of the call; it must not use the engine. For a face whose users can get at the key.
    pub fn cancel_timer_if(&self, key: TimerKey, is_it: impl FnOnce(&H::Call) -> bool) -> Option<H::Call> {
        let mut timers = self.timers.borrow_mut();
        if timers.get(key).is_some_and(is_it) { timers.cancel(key) } else { None }
    }

    /// How many timers wait.
    pub fn timers_len(&self) -> usize {
        self.timers.borrow().len()
    }
}
