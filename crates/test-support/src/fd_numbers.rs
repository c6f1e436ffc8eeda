//! Reused fd numbers.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Opens socket pairs until one end has the fd number `number`. That end is the first of the returned pair.
pub fn pair_with_fd(number: i32) -> (UnixStream, UnixStream) {
    let mut others = Vec::new();
    for _ in 0..16 {
        let (a, b) = UnixStream::pair().expect("a socket pair should open");
        if a.as_raw_fd() == number {
            return (a, b);
        }
        if b.as_raw_fd() == number {
            return (b, a);
        }
        others.push((a, b));
    }
    panic!("no socket got the fd number {number}");
}
