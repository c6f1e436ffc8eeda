//! Streams, Unix connections, servers and `sendfile`, in correct and incorrect use.
//!
//! Every test runs on both back ends and leaves nothing on the loop and no fd open.

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod buffer_sizes;
mod cancelling;
mod connecting;
mod copying;
mod fairness;
mod faults;
mod futures_io;
mod into_std;
mod panicking_wakers;
mod read_wakeups;
mod reading;
mod sendfile;
mod servers;
mod shared_writers;
mod short_receives;
mod socket_options;
mod unix;
mod writing;

use mainspring::net::UnixStream;
use support::TestLoop;
use test_support::{TestBackend, isolated};

/// Runs `test` on a loop of each back end.
fn on_both(name: &str, test: impl Fn(&TestLoop)) {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("{name} on {on:?}"));
            test(&test_loop);
            test_loop.assert_reports(&[]);
            test_loop.assert_idle();
        }
    });
}

/// Runs `test` with a connected pair.
fn on_pairs(name: &str, test: impl AsyncFn(UnixStream, UnixStream)) {
    on_both(name, |test_loop| {
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            test(near, far).await;
        });
    });
}

/// Runs the loop until nothing is pending.
async fn settle() {
    for _ in 0..30 {
        mainspring::sleep(std::time::Duration::ZERO).await;
    }
}
