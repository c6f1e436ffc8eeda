//! Back-off for connecting to a Unix listener whose queue is full.

use std::time::Duration;

const MIN_BACKOFF: Duration = Duration::from_millis(1);
const MAX_BACKOFF: Duration = Duration::from_millis(64);

/// Delays between attempts to connect a non-blocking Unix socket: they double from 1 ms to 64 ms.
///
/// While the listener's queue is full, `connect(2)` fails with EAGAIN, and the kernel does not report when there is
/// room. The caller has to retry.
#[derive(Clone, Debug)]
pub struct ConnectBackoff {
    next: Duration,
}

impl Default for ConnectBackoff {
    fn default() -> Self {
        ConnectBackoff { next: MIN_BACKOFF }
    }
}

impl ConnectBackoff {
    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = MAX_BACKOFF.min(delay * 2);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = ConnectBackoff::default();
        let delays: Vec<_> = (0..9).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }
}
