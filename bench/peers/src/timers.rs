//! A million timeouts, each set and given up before it is due: what a busy server does with most of its timers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

/// Sets `count` timers of one to sixty seconds and drops them, in the order they were set.
///
/// They live in one array, in place: a box for each, which some runtimes need and some do not, is not measured.
pub async fn set_and_cancel<S: Future>(count: usize, sleep: impl Fn(Duration) -> S) {
    let mut timers: Vec<S> = Vec::with_capacity(count);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..count {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        timers.push(sleep(Duration::from_millis(1_000 + random % 59_000)));
        let Some(timer) = timers.last_mut() else { return };
        // SAFETY: the array has room for all of them, so no timer is moved before it is dropped in place.
        let mut timer = unsafe { Pin::new_unchecked(timer) };
        // Polled once: from now on the runtime knows of it.
        poll_fn(|cx| {
            assert!(timer.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    drop(timers);
}
