//! Synchronisation between tasks: the behaviour that programs see, and each primitive against a naive model, with
//! futures cancelled wherever they wait.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod cancelling;
mod channels;
mod locks;
mod models;
mod mpsc_permits;
mod queues;
mod reentrancy;
mod support;
mod threadsafe;
mod threadsafe_permits;
