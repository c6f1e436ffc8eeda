//! Streams, Unix connections, servers and `sendfile`, in correct and incorrect use.
//!
//! Every test runs on both back ends and leaves nothing on the loop and no fd open.

#[macro_use]
extern crate test_support;

#[path = "../support/mod.rs"]
mod support;

mod cancelling;
mod connecting;
mod copying;
mod faults;
mod fetching;
mod files;
mod futures_io;
mod into_std;
mod reading;
mod servers;
mod settings;
mod sharing;
mod short_receives;
mod unix;
mod writing;

use mainspring::net::UnixStream;
use support::Stage;
use test_support::{On, guarded};

/// Runs `test` on a loop of each back end.
fn on_both(name: &str, test: impl Fn(&Stage)) {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("{name} on {on:?}"));
            test(&stage);
            stage.assert_reports(&[]);
            stage.assert_idle();
        }
    });
}

/// Runs `test` with a connected pair.
fn on_pairs(name: &str, test: impl AsyncFn(UnixStream, UnixStream)) {
    on_both(name, |stage| {
        stage.run(async {
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
