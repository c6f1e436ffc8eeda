//! Timers as the loop offers them: `call_at` and its cancellation.

use super::{Engine, Host};
use crate::clock::Time;
use crate::timers::TimerKey;

impl<H: Host> Engine<H> {
    /// Makes `call` ready when the loop's clock reaches `when`; calls for the same time keep their order.
    pub fn call_at(&self, when: Time, call: H::Call) -> TimerKey {
        self.timers.borrow_mut().insert(when, call)
    }

    /// Takes a timer out before its time, at once and wherever it stands in the queue. `None` if it has fired or
    /// was cancelled before.
    pub fn cancel_timer(&self, key: TimerKey) -> Option<H::Call> {
        self.timers.borrow_mut().cancel(key)
    }

    /// How many timers wait.
    pub fn timers_len(&self) -> usize {
        self.timers.borrow().len()
    }
}
