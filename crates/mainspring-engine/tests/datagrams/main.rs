//! The datagram transport under a test host, on epoll and on the fault-injecting back end: order, flow control, faults,
//! and callbacks that perform any action.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod faults;
mod fixture;
mod order;
mod reentrancy;
