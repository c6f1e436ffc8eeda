//! Tools for tests of programs on this loop: virtual time, reproducible schedules, and a poller back end that fails on
//! demand.
//!
//! [`run`] runs a test in virtual time. [`explore`] runs it once for each of many seeds, which decide the order of what
//! asyncio leaves unordered. [`Options`] are the options of both. [`FakePoller`] makes system calls fail.
//!
//! [`VirtualClock`], [`Backend`] and [`FakeControl`] belong to one loop and stay on its thread (`!Send`). Options, plans
//! and log entries are plain values.

mod explore;
mod fake_poller;
mod fault;
mod options;
mod progress;
mod stuck;
mod virtual_clock;

pub use explore::{ExploreError, explore};
pub use fake_poller::{Backend, Call, FakeControl, FakePoller, LogEntry};
pub use fault::{Fault, FaultPlan, Op};
pub use options::{Options, RealIo, run};
pub use stuck::{Deadlock, RealIoError, StuckTask};
pub use virtual_clock::VirtualClock;
