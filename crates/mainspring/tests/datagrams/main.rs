//! The datagram transport under a host of its own, on epoll and on a back end that fails on demand: order, flow control,
//! faults, and callbacks that do anything.
#![cfg(not(loom))]

#[macro_use]
extern crate checked_test;

#[path = "../support/leak_check.rs"]
mod leak_check;
#[path = "../support/mod.rs"]
mod support;

mod faults;
mod order;
mod reentrancy;
mod stage;
