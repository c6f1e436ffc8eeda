//! What makes it hard for what is tested: faults, other turns of the loop, and giving up.

use crate::polls::given_up_after;
use mainspring::{Builder, EventLoop, sleep};
use mainspring_engine::testing::{FakeControl, FakePoller};
use std::time::Duration;

/// A loop whose back end fails when it is told to.
pub fn faulty_loop() -> (EventLoop, FakeControl) {
    let (fake, control) = FakePoller::open().unwrap();
    (Builder::new().backend(fake).build().unwrap(), control)
}

/// Lets the loop do something else `count` times.
pub async fn turns(count: usize) {
    for _ in 0..count {
        sleep(Duration::ZERO).await;
    }
}

/// Gives `operation` up after 0, 1, 2, ... polls, until it is done before that; `check` looks at what each left.
pub async fn given_up_at_every_poll<T>(operation: impl AsyncFn() -> T, check: impl AsyncFn(usize)) -> T {
    for polls in 0..100 {
        if let Some(done) = given_up_after(polls, operation()).await {
            assert!(polls > 0, "done without a poll");
            return done;
        }
        check(polls).await;
    }
    panic!("never done");
}
