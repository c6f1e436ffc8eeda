//! The TLS state machine, with a toy session, without system calls, on virtual time.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod data;
mod fixture;
mod half_close;
mod handshake;
mod shutdown;
mod toy;
