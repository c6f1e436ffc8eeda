//! TLS with rustls on real sockets: protocols, streams, handshakes, closing and faults.
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
