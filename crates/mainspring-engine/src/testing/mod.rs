//! What tests of programs on this loop, and of the engine itself, are made with: time that they control, and a
//! back end that fails on demand.
//!
//! The clock and the back end are a loop's, and stay on its thread (`!Send`); plans and what is logged are plain values.

mod call;
mod fake_poller;
mod fault;
mod virtual_clock;

pub use crate::poller::epoll::open_coarse as open_epoll_coarse;
pub use call::{Call, LogEntry};
pub use fake_poller::{FakeControl, FakePoller};
pub use fault::{Fault, FaultPlan, Op};
pub use virtual_clock::VirtualClock;
