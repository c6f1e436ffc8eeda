//! The pipe transports, and a loop in a process that was forked, on epoll and on the back end that fails on demand.
//!
//! They are run under a face of their own, as small as a face can be ([`face`]).
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod face;
mod faults;
mod fork;
mod reading;
mod reentrancy;
mod writing;
