//! A bell that a thread rings and a task hears: a waker and two counters, the same for every runtime, so that what
//! is measured is how the runtime takes a waker's call from outside.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread looks for the answer before it lets others run.
const LOOKS: u32 = 10_000;

#[derive(Default)]
pub struct Bell {
    rung: AtomicU64,
    heard: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    fn set_waker(&self, new: &Waker) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(new)) {
            *waker = Some(new.clone());
        }
    }

    fn waker(&self) -> Option<Waker> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The task: hears every one of `count` rings.
    pub async fn hear(self: Arc<Self>, count: u64) {
        for number in 1..=count {
            poll_fn(|cx| {
                self.set_waker(cx.waker());
                if self.rung.load(Ordering::SeqCst) >= number { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.heard.store(number, Ordering::SeqCst);
        }
    }

    /// The thread: rings, and goes on when it was heard. Gives the time from the first ring to the last answer.
    pub fn ring(self: Arc<Self>, count: u64) -> thread::JoinHandle<Duration> {
        thread::spawn(move || {
            crate::process::pin(1);
            while self.waker().is_none() {
                thread::yield_now();
            }
            let begun = Instant::now();
            for number in 1..=count {
                self.rung.store(number, Ordering::SeqCst);
                if let Some(waker) = self.waker() {
                    waker.wake();
                }
                let mut looks = 0;
                while self.heard.load(Ordering::SeqCst) < number {
                    looks += 1;
                    if looks % LOOKS == 0 {
                        thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
            }
            begun.elapsed()
        })
    }
}
