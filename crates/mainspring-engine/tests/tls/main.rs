//! The machine of `tls/`, with a session that is a toy and nothing of the system but time, which is virtual.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod beginning;
mod data;
mod ending;
mod face;
mod half_closing;
mod toy;
