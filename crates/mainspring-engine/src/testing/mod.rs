//! Test support, for programs on this loop and for the engine: a controlled clock, and a back end with fault
//! injection.
//!
//! Clock and back end belong to a loop and stay on its thread (`!Send`); plans and log entries are plain values.

mod call;
mod fake_poller;
mod fault;
mod virtual_clock;

pub use crate::poller::epoll::open_coarse as open_epoll_coarse;
pub use call::{Call, LogEntry};
pub use fake_poller::{FakeControl, FakePoller};
pub use fault::{Fault, FaultPlan, Op};
pub use virtual_clock::VirtualClock;
