//! Single-threaded behaviour of the inbox; `tests/loom_inbox.rs` models several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;

#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Waker for Counter {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn inbox<T: Send>() -> Inbox<T, Counter> {
    Inbox::new(Counter::default())
}

fn drained<T: Send, W: Waker>(inbox: &Inbox<T, W>) -> Vec<T> {
    let mut items = Vec::new();
    inbox.drain_into(&mut items);
    items
}

#[test]
fn items_come_out_in_the_order_they_went_in() {
    let inbox = inbox();
    assert!(!inbox.has_pending());
    for item in 0..3 {
        inbox.push(item).unwrap();
    }
    assert!(inbox.has_pending());
    let mut items = vec![-1];
    inbox.drain_into(&mut items);
    assert_eq!(items, [-1, 0, 1, 2]);
    assert!(!inbox.has_pending());
}

#[test]
fn a_loop_that_is_awake_is_not_woken() {
    let inbox = inbox();
    inbox.push(1).unwrap();
    inbox.wake();
    assert_eq!(inbox.waker().count(), 0);
}

#[test]
fn one_sleep_is_ended_by_one_wake_up() {
    let inbox = inbox();
    assert!(inbox.prepare_sleep());
    inbox.push(1).unwrap();
    inbox.push(2).unwrap();
    inbox.wake();
    assert_eq!(inbox.waker().count(), 1);
    inbox.awake();
    assert_eq!(drained(&inbox), [1, 2]);
    assert!(inbox.prepare_sleep());
    inbox.push(3).unwrap();
    assert_eq!(inbox.waker().count(), 2);
}

#[test]
fn a_sleep_that_something_else_ended_costs_no_wake_up() {
    let inbox = inbox();
    assert!(inbox.prepare_sleep());
    inbox.awake();
    inbox.push(1).unwrap();
    assert_eq!(inbox.waker().count(), 0);
}

#[test]
fn the_loop_does_not_sleep_while_an_item_is_queued() {
    let inbox = inbox();
    inbox.push(1).unwrap();
    assert!(!inbox.prepare_sleep());
    assert_eq!(drained(&inbox), [1]);
    assert!(inbox.prepare_sleep());
}

#[test]
fn a_wake_up_without_an_item_prevents_one_sleep() {
    let inbox = inbox::<()>();
    inbox.wake();
    assert!(inbox.has_pending());
    assert!(!inbox.prepare_sleep());
    assert!(!inbox.has_pending());
    assert!(inbox.prepare_sleep());
}

#[test]
fn a_wake_up_is_answered_by_the_drain_that_sees_it() {
    let inbox = inbox::<()>();
    inbox.wake();
    assert!(drained(&inbox).is_empty());
    assert!(inbox.prepare_sleep());
}

#[test]
fn a_fallible_push_queues_and_wakes_like_the_other() {
    let inbox = inbox();
    assert!(inbox.try_push(1).is_ok());
    inbox.push(2).unwrap();
    assert_eq!(drained(&inbox), [1, 2]);
    assert!(inbox.prepare_sleep());
    assert!(inbox.try_push(3).is_ok());
    assert_eq!(inbox.waker().count(), 1);
}

#[test]
fn close_returns_queued_items_and_refuses_later_ones() {
    let inbox = inbox();
    inbox.push("left").unwrap();
    assert_eq!(inbox.close(), ["left"]);
    assert!(inbox.is_closed());
    assert!(!inbox.has_pending());
    assert_eq!(inbox.push("late"), Err(Closed("late")));
    assert!(matches!(inbox.try_push("late"), Err(TryPushError::Closed("late"))));
    inbox.wake();
    assert!(!inbox.has_pending());
    assert_eq!(inbox.waker().count(), 0);
}

#[test]
fn the_two_buffers_take_turns() {
    let inbox = inbox();
    let mut items = Vec::with_capacity(64);
    inbox.drain_into(&mut items);
    for item in 0..50 {
        inbox.push(item).unwrap();
    }
    inbox.drain_into(&mut items);
    assert_eq!(items.len(), 50);
    assert_eq!(items.capacity(), 64);
}

/// Pushes into its inbox while it is dropped; a lock held during the drop would deadlock.
struct Reentrant(Weak<Inbox<Option<Reentrant>, Counter>>);

impl Drop for Reentrant {
    fn drop(&mut self) {
        if let Some(inbox) = self.0.upgrade() {
            let _ = inbox.push(None);
        }
    }
}

#[test]
fn an_item_may_push_while_it_is_dropped() {
    let inbox = Arc::new(inbox());
    let item = || Some(Reentrant(Arc::downgrade(&inbox)));
    inbox.push(item()).unwrap();
    drop(drained(&inbox));
    assert_eq!(drained(&inbox).len(), 1);
    inbox.push(item()).unwrap();
    drop(inbox.close());
    drop(inbox.push(item()));
}

#[test]
fn many_threads_reach_a_loop_that_sleeps_on_the_eventfd() {
    const THREADS: usize = 4;
    const EACH: usize = 2_000;
    let inbox = Arc::new(Inbox::<_, EventFd>::new(EventFd::new().unwrap()));
    let pushers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || (0..EACH).for_each(|item| inbox.push((thread, item)).unwrap()))
        })
        .collect();
    let mut next = [0; THREADS];
    let mut items = Vec::new();
    while next.iter().sum::<usize>() < THREADS * EACH {
        if inbox.prepare_sleep() {
            poll(&mut [PollFd::new(inbox.waker(), PollFlags::IN)], None).unwrap();
            inbox.awake();
            inbox.waker().drain().unwrap();
        }
        inbox.drain_into(&mut items);
        for (thread, item) in items.drain(..) {
            assert_eq!(item, next[thread]);
            next[thread] += 1;
        }
    }
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
}
