//! Virtual time: when the clock moves, what a seed shuffles, deadlocks, and `testing::explore`.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod deadlock;
mod explore;
mod inside;
mod outside;
mod races;
mod shuffle;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with tests that use all of it")]
mod support;

use mainspring::testing::Options;
use mainspring::{Protocol, Transport};
use std::time::Duration;

/// Virtual time that no test waits for in real time.
const HOUR: Duration = Duration::from_secs(3600);

/// Runs `future` in virtual time. Aborts the process if that hangs.
fn run<F: IntoFuture>(options: &Options, future: F) -> F::Output {
    let _watchdog = test_support::watchdog(std::thread::current().name().unwrap_or("a test"));
    options.run(future).unwrap()
}

/// Takes long enough for the loop to become idle.
fn yield_thread_repeatedly() {
    for _ in 0..1000 {
        std::thread::yield_now();
    }
}

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}
