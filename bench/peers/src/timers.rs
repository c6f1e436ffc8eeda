//! A million timeouts, each set and cancelled before it is due, like most timers of a busy server.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Sets `count` timers of one to sixty seconds and drops them, in the order they were set.
///
/// They are stored in one array, so that boxes, which only some runtimes need, are not measured.
pub async fn set_and_cancel<S: Future>(count: usize, sleep: impl Fn(Duration) -> S) {
    let mut timers: Vec<S> = Vec::with_capacity(count);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        timers.push(sleep(Duration::from_millis(1_000 + random % 59_000)));
        let Some(timer) = timers.last_mut() else { return };
        // SAFETY: the array has capacity for all timers, so none moves before it is dropped in place.
        let mut timer = unsafe { Pin::new_unchecked(timer) };
        // The first poll registers the timer with the runtime.
        poll_fn(|cx| {
            assert!(timer.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    drop(timers);
}
