//! Cancels an operation at each of its await points.

use crate::polls::given_up_after;

/// Cancels `operation` after 0, 1, 2, ... polls until it completes first; calls `check` after each cancellation.
pub async fn cancel_at_every_poll<T>(operation: impl AsyncFn() -> T, check: impl AsyncFn(usize)) -> T {
    for polls in 0..100 {
        if let Some(result) = given_up_after(polls, operation()).await {
            assert!(polls > 0, "completed without a poll");
            return result;
        }
        check(polls).await;
    }
    panic!("never completed");
}
