//! Stands for a channel of another library: the loop knows nothing of it, and it holds only the task's waker.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

#[derive(Clone, Default)]
pub struct Channel(Arc<Mutex<(Vec<u32>, Option<Waker>)>>);

impl Channel {
    pub fn send(&self, number: u32) {
        let mut state = self.0.lock().unwrap();
        state.0.insert(0, number);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub async fn recv(&self) -> u32 {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            match state.0.pop() {
                Some(number) => Poll::Ready(number),
                None => {
                    state.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
