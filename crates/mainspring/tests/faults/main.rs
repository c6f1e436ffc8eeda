//! Everything that can go wrong between the engine and the kernel, made to go wrong.
//!
//! The faults are planned with `testing::FakePoller`, on real sockets; time is virtual.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod accepting;
mod claims;
mod conversation;
mod events;
mod gathering;
mod registering;
mod streams;
mod sweep;
mod waiting;
