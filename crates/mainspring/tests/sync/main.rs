//! Synchronisation between tasks: behaviours as programs see them, and each primitive against a naive model, with futures
//! that are given up wherever they wait.
#![cfg(not(loom))]

mod channels;
mod giving_up;
mod locks;
mod models;
mod queues;
mod reentrancy;
mod support;
mod threadsafe;
