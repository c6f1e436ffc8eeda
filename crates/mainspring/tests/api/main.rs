//! Tests of the public API.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod address_errors;
mod after;
mod cancel_points;
mod combinators;
mod concurrent_future;
mod concurrent_future_cancel;
mod concurrent_future_wait;
mod context_vars;
mod counters;
mod debug_mode;
mod executor;
mod files;
mod futures;
mod intervals;
mod io_budget;
mod join_sets;
mod lanes;
mod lanes_model;
mod lifecycle;
mod name_resolution;
mod polling;
#[allow(dead_code, reason = "shared with other targets")]
#[path = "../support/polls.rs"]
mod polls;
mod priorities;
mod readers_writers;
mod remote;
mod run_until_idle;
mod runner;
mod runtime;
mod scheduling;
mod send_sync;
mod signals;
mod sleep_timeout;
mod socket_ops;
mod stalls;
mod stream_trait;
mod support;
mod task_factory;
mod task_groups;
mod task_handles;
mod tasks;
mod tcp_protocols;
mod tcp_streams;
mod thread_order;
mod udp_faults;
mod udp_protocols;
mod udp_sockets;
mod unix_datagrams;
mod wait;
mod wakers;
