//! Back-off for connecting to a Unix listener whose queue is full.

use std::time::Duration;

const MIN_BACKOFF: Duration = Duration::from_millis(1);
const MAX_BACKOFF: Duration = Duration::from_millis(64);

/// The delay after failed attempt number `attempt`, counted from 0, to connect a non-blocking Unix socket. Delays double
/// from 1 ms to 64 ms.
///
/// While the listener's queue is full, `connect(2)` fails with EAGAIN, and the kernel does not report when there is
/// room. The caller has to retry.
pub fn connect_backoff(attempt: u32) -> Duration {
    MIN_BACKOFF.saturating_mul(2_u32.saturating_pow(attempt)).min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays: Vec<_> = (0..9).map(|attempt| connect_backoff(attempt).as_millis()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(connect_backoff(u32::MAX), MAX_BACKOFF);
    }
}
