//! A rate limiter with a race, and the seed that shows it.
//!
//! `cargo run --example find_race`
//!
//! `Sleeping` waits for the next window with a timer of its own. That timer and the one that opens the window have equal
//! deadlines, so their order is not defined. On a quiet machine the window is always opened first.

use mainspring::sync::Notify;
use mainspring::testing::{self, ExploreError};
use mainspring::time::{interval_at, now};
use mainspring::{Task, sleep, spawn};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(1);

/// Allows `limit` calls in each window.
struct RateLimiter {
    limit: usize,
    used: Cell<usize>,
    next_window: Notify,
}

impl RateLimiter {
    fn start(limit: usize) -> (Rc<Self>, Task<()>) {
        let limiter = RateLimiter { limit, used: Cell::new(0), next_window: Notify::new() };
        let limiter = Rc::new(limiter);
        let opening = Rc::clone(&limiter);
        let opener = spawn(async move {
            let mut windows = interval_at(now() + WINDOW, WINDOW);
            loop {
                windows.tick().await;
                opening.used.set(0);
                opening.next_window.notify_waiters();
            }
        });
        (limiter, opener)
    }

    fn try_acquire(&self) -> bool {
        let is_free = self.used.get() < self.limit;
        self.used.set(self.used.get() + usize::from(is_free));
        is_free
    }
}

/// How a caller waits for the next window.
trait Acquire {
    async fn acquire(limiter: &RateLimiter);
}

/// Sleeps for one window.
struct Sleeping;

impl Acquire for Sleeping {
    async fn acquire(limiter: &RateLimiter) {
        while !limiter.try_acquire() {
            sleep(WINDOW).await;
        }
    }
}

/// Waits until the window is open.
struct Notified;

impl Acquire for Notified {
    async fn acquire(limiter: &RateLimiter) {
        while !limiter.try_acquire() {
            limiter.next_window.notified().await;
        }
    }
}

/// Of five calls with a limit of two, the last is in the third window.
async fn five_calls<A: Acquire + 'static>() {
    let (limiter, opener) = RateLimiter::start(2);
    mainspring::yield_now().await;
    let start = now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let limiter = Rc::clone(&limiter);
            spawn(async move { A::acquire(&limiter).await })
        })
        .collect();
    for call in calls {
        if let Err(error) = call.await {
            panic!("a call failed: {error}");
        }
    }
    opener.cancel();
    assert_eq!(now() - start, 2 * WINDOW, "a call was delayed");
}

fn explore<A: Acquire + 'static>() -> Result<u64, ExploreError> {
    testing::explore(0..1000, five_calls::<A>)
}

fn main() -> Result<(), mainspring::Error> {
    // asyncio's order: both work.
    testing::run(five_calls::<Sleeping>())?;
    testing::run(five_calls::<Notified>())?;
    for (name, explored) in [("sleeping", explore::<Sleeping>()), ("notified", explore::<Notified>())] {
        match explored {
            Ok(runs) => println!("{name}: {runs} seeds passed"),
            Err(error) => println!("{name}: {error}"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_asyncio_does_not_show_the_race() {
        testing::run(five_calls::<Sleeping>()).unwrap();
    }

    #[test]
    fn exploring_finds_the_race_and_its_seed_replays_it() {
        let error = explore::<Sleeping>().unwrap_err();
        assert!(error.to_string().contains("a call was delayed"), "{error}");
        let replayed = error.options().explore([error.seed()], five_calls::<Sleeping>);
        assert_eq!(replayed.unwrap_err().to_string(), error.to_string());
    }

    #[test]
    fn the_correct_limiter_passes_for_all_seeds() {
        assert_eq!(explore::<Notified>().unwrap(), 1000);
    }
}
