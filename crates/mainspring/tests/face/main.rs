//! The Rust face, tested as a program uses it.

mod crowds;
mod executor;
mod futures;
mod lifecycle;
mod remote;
mod scheduling;
mod signals;
mod support;
mod tasks;
mod tcp_protocols;
mod tcp_streams;
mod timing;
mod watching;
