//! The Rust face, tested as a program uses it.

mod concurrent;
mod crowds;
mod executor;
mod futures;
mod gathering;
mod idle;
mod lifecycle;
mod remote;
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
mod timing;
mod waiting;
mod watching;
