//! TLS by rustls, on real sockets: connections by protocols and by streams, beginnings, ends, and faults.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod cancelling;
mod certificates;
mod data;
mod endings;
mod handshakes;
mod pair;
mod providers;
mod streams;
mod sweep;
mod upgrades;
