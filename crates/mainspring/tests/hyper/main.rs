//! hyper on the loop: servers and clients over TCP and TLS, and timers.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

#[path = "../rustls/certificates.rs"]
#[allow(dead_code, reason = "each target uses its share")]
mod certificates;
#[path = "../support/mod.rs"]
mod support;

mod http1;
mod http2;
mod limits;
mod service;
mod timers;
