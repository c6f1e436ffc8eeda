//! The Rust face, tested as a program uses it.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod address_errors;
mod adversity;
mod as_streams;
mod cancel_concurrent;
mod concurrent;
mod crowds;
mod debug;
mod executor;
mod files;
mod futures;
mod gathering;
mod idle;
mod intervals;
mod join_sets;
mod lanes;
mod lifecycle;
mod lookup;
mod polling;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../support/polls.rs"]
mod polls;
mod remote;
mod runner;
mod runtime;
mod scheduling;
mod signals;
mod sockets;
mod support;
mod task_factory;
mod task_groups;
mod task_groups_model;
mod task_handles;
mod task_locals;
mod tasks;
mod tcp_protocols;
mod tcp_streams;
mod thread_order;
mod threads;
mod timing;
mod udp;
mod udp_faults;
mod udp_protocols;
mod unix_datagrams;
mod waiting;
mod waiting_here;
mod watching;
