//! The datagram transport under a host of its own, on epoll and on a back end that fails on demand: order, flow control,
//! faults, and callbacks that do anything.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod faults;
mod order;
mod reentrancy;
mod stage;
