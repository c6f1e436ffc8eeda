//! Fault injection between the engine and the kernel.
//!
//! `testing::FakePoller` injects the faults on real sockets. Time is virtual.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod accepting;
mod connected_probes;
mod events;
mod recv_send;
mod registering;
mod streams;
mod sweep;
mod waiting;
mod write_coalescing;
