//! What the tests of the engine and of the Rust API share.
//!
//! A test program says `#[macro_use] extern crate test_support;` at its top. Every `#[test]` in it then runs in
//! [`checked`], which fails it for what it leaks.

mod alone;
pub mod fd_numbers;
mod leak_check;

pub use alone::{DELIBERATE, PATIENCE, guarded, now_testing};
pub use checked_test::test;
pub use leak_check::{checked, checked_within, for_good, meant_from_here, open_descriptors};

use std::sync::OnceLock;

/// Which back end a loop stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The one that ships.
    Epoll,
    /// `FakePoller`, which fails on demand.
    Fake,
}

impl On {
    /// Both of them.
    pub const ALL: [On; 2] = [On::Epoll, On::Fake];
}

/// How much one connection can send.
const PATTERN: usize = 64 << 20;

/// The first `length` bytes that any probe sends.
pub fn pattern(length: usize) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let make = || {
        let period: Vec<u8> = (0..=250).collect();
        let mut bytes = period.repeat(PATTERN / period.len() + 1);
        bytes.truncate(PATTERN);
        bytes
    };
    let bytes = for_good(|| BYTES.get_or_init(make));
    &bytes[..length]
}
