//! Tools for tests of programs on this loop: a virtual clock, and a poller back end that fails on demand.
//!
//! [`VirtualClock`], [`Backend`] and [`FakeControl`] belong to one loop and stay on its thread (`!Send`). Plans and log
//! entries are plain values.

mod fake_poller;
mod fault;
mod virtual_clock;

pub use fake_poller::{Backend, Call, FakeControl, FakePoller, LogEntry};
pub use fault::{Fault, FaultPlan, Op};
pub use virtual_clock::VirtualClock;
