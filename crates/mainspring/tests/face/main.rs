//! The Rust face, tested as a program uses it.

mod concurrent;
mod crowds;
mod executor;
mod futures;
mod idle;
mod lifecycle;
mod remote;
mod runtime;
mod scheduling;
mod signals;
mod sockets;
mod support;
mod tasks;
mod tcp_protocols;
mod tcp_streams;
mod timing;
mod watching;
