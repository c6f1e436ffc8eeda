//! Shared by the tests of the engine and of the Rust API.
//!
//! A test program starts with `#[macro_use] extern crate test_support;`. Every `#[test]` in it then runs in
//! [`checked`], which fails the test if it leaks memory.

pub mod fd_numbers;
mod isolated;
mod leak_check;

pub use checked_test::test;
pub use isolated::{DELIBERATE, TIMEOUT, isolated, now_testing, watchdog};
pub use leak_check::{checked, checked_within, meant_from_here, open_fds, untracked};

use mainspring_engine::poller::{Backend, open_epoll};
use mainspring_engine::testing::{FakeControl, FakePoller};
use std::sync::OnceLock;

/// The back end of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestBackend {
    /// The production back end.
    Epoll,
    /// `FakePoller`, which injects faults.
    Fake,
}

impl TestBackend {
    /// Both back ends.
    pub const ALL: [TestBackend; 2] = [TestBackend::Epoll, TestBackend::Fake];

    /// Opens the back end. The control has no effect on epoll.
    pub fn open(self) -> (Backend, FakeControl) {
        match self {
            TestBackend::Epoll => {
                (open_epoll().expect("an epoll back end should open"), FakeControl::default())
            }
            TestBackend::Fake => FakePoller::open().expect("a fake back end should open"),
        }
    }
}

/// The maximum length of a [`pattern`].
const PATTERN_LEN: usize = 64 << 20;

/// The first `length` bytes of the test pattern: a repeated sequence whose period is not a power of two.
pub fn pattern(length: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let make = || {
        let period: Vec<u8> = (0..=250).collect();
        let mut bytes = period.repeat(PATTERN_LEN / period.len() + 1);
        bytes.truncate(PATTERN_LEN);
        bytes
    };
    let bytes = untracked(|| BYTES.get_or_init(make));
    &bytes[..length]
}
