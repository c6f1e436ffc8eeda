//! Each primitive against a naive model: lists in the order of arrival, and the set of waiters that must be woken.
//!
//! The futures are polled by hand, also spuriously, moved to other tasks, and cancelled in every state. After every
//! step the woken futures must be exactly those of the model: no lost and no spurious wake-up.

mod barrier;
mod condition;
mod event_and_notify;
mod permits;
mod queue;
