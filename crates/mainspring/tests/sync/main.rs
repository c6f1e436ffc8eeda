//! Synchronisation between tasks: behaviours as programs see them, and each primitive against a naive model, with futures
//! that are given up wherever they wait.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod channels;
mod giving_up;
mod locks;
mod models;
mod permits;
mod queues;
mod reentrancy;
mod support;
mod threadsafe;
mod threadsafe_permits;
