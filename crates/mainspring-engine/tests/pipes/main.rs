//! The pipe transports, and a loop in a forked process, on epoll and on the fault-injecting back end.
//!
//! They run under a minimal host ([`host`]).
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod faults;
mod fork;
mod host;
mod reading;
mod reentrancy;
mod writing;
