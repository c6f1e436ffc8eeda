//! A thread that wakes a task: a waker and two counters, the same for every runtime. So the row measures how the runtime
//! handles a `wake` from another thread.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread checks for the reply before it yields.
const CHECKS_PER_YIELD: u32 = 10_000;

#[derive(Default)]
pub struct ThreadWake {
    requests: AtomicU64,
    replies: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl ThreadWake {
    fn set_waker(&self, new: &Waker) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(new)) {
            *waker = Some(new.clone());
        }
    }

    fn waker(&self) -> Option<Waker> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The task: replies to each of `count` requests.
    pub async fn reply(self: Arc<Self>, count: u64) {
        for number in 1..=count {
            poll_fn(|cx| {
                self.set_waker(cx.waker());
                if self.requests.load(Ordering::SeqCst) >= number { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.replies.store(number, Ordering::SeqCst);
        }
    }

    /// The thread: sends a request, wakes the task and waits for its reply, `count` times. Returns the total time.
    pub fn request(self: Arc<Self>, count: u64) -> thread::JoinHandle<Duration> {
        thread::spawn(move || {
            crate::process::pin(1);
            while self.waker().is_none() {
                thread::yield_now();
            }
            let start = Instant::now();
            for number in 1..=count {
                self.requests.store(number, Ordering::SeqCst);
                if let Some(waker) = self.waker() {
                    waker.wake();
                }
                let mut checks = 0;
                while self.replies.load(Ordering::SeqCst) < number {
                    checks += 1;
                    if checks % CHECKS_PER_YIELD == 0 {
                        thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
            }
            start.elapsed()
        })
    }
}
