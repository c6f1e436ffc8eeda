//! Compares the queue with a plain list, and tests wakers that re-enter.

use super::*;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

/// Records its number when it is woken.
struct RecordingWaker {
    number: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for RecordingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push(self.number);
    }
}

fn wake_all<N>(queue: &RefCell<WaitQueue<N>>) {
    wake_notified(queue, |queue| queue);
}

fn enqueue(queue: &RefCell<WaitQueue>, waker: &Waker) -> WaiterKey {
    let key = queue.borrow_mut().enqueue((), None);
    register_waker(queue, |queue| queue, &key, &Context::from_waker(waker));
    key
}

#[derive(Clone, Debug)]
enum Step {
    Enqueue,
    Remove(prop::sample::Index),
    Requeue(prop::sample::Index),
    NotifyFirst,
    NotifyAll,
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Enqueue),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        2 => any::<prop::sample::Index>().prop_map(Step::Requeue),
        3 => Just(Step::NotifyFirst),
        1 => Just(Step::NotifyAll),
        2 => Just(Step::Wake),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wait_queue_behaves_like_a_plain_list(steps in prop::collection::vec(step(), 1..120)) {
        let queue = RefCell::new(WaitQueue::<()>::new());
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut keys: Vec<(usize, WaiterKey)> = Vec::new();
        // By number, in the order of enqueueing.
        let (mut waiting, mut notified_numbers, mut to_wake): (Vec<usize>, Vec<usize>, Vec<usize>) = Default::default();
        let mut next_number = 0;
        let mut expected = Vec::new();
        for step in steps {
            match step {
                Step::Enqueue => {
                    let waker = Arc::new(RecordingWaker { number: next_number, woken: Arc::clone(&woken) }).into();
                    keys.push((next_number, enqueue(&queue, &waker)));
                    waiting.push(next_number);
                    next_number += 1;
                }
                Step::Remove(index) if !keys.is_empty() => {
                    let (number, key) = keys.remove(index.index(keys.len()));
                    let removed = queue.borrow_mut().remove(key);
                    prop_assert_eq!(removed.was_notified, notified_numbers.contains(&number));
                    for list in [&mut waiting, &mut notified_numbers, &mut to_wake] {
                        list.retain(|other| *other != number);
                    }
                }
                Step::Requeue(index) if !notified_numbers.is_empty() => {
                    let number = notified_numbers.remove(index.index(notified_numbers.len()));
                    to_wake.retain(|other| *other != number);
                    waiting.push(number);
                    waiting.sort_unstable();
                    let key = &keys.iter().find(|(other, _)| *other == number).unwrap().1;
                    let waker = Arc::new(RecordingWaker { number, woken: Arc::clone(&woken) }).into();
                    queue.borrow_mut().requeue(key);
                    register_waker(&queue, |queue| queue, key, &Context::from_waker(&waker));
                }
                Step::Remove(_) | Step::Requeue(_) => {}
                Step::NotifyFirst => {
                    let is_one = queue.borrow_mut().notify_first().is_some();
                    prop_assert_eq!(is_one, !waiting.is_empty());
                    if is_one {
                        let number = waiting.remove(0);
                        notified_numbers.push(number);
                        to_wake.push(number);
                    }
                }
                Step::NotifyAll => {
                    queue.borrow_mut().notify_all();
                    notified_numbers.extend(&waiting);
                    to_wake.append(&mut waiting);
                }
                Step::Wake => {
                    wake_all(&queue);
                    expected.append(&mut to_wake);
                }
            }
            prop_assert_eq!(&*woken.lock().unwrap(), &expected);
            prop_assert_eq!(queue.borrow().waiting(), waiting.len());
            prop_assert_eq!(queue.borrow().notified(), notified_numbers.len());
            for (number, key) in &keys {
                prop_assert_eq!(queue.borrow().is_notified(key), notified_numbers.contains(number));
            }
        }
        for (_, key) in keys {
            drop(queue.borrow_mut().remove(key));
        }
        prop_assert!(queue.borrow().first().is_none() && queue.borrow().waiters.is_empty());
    }
}

#[test]
fn an_empty_queue_frees_the_memory_of_many_waiters() {
    let mut queue = WaitQueue::<()>::new();
    let keys: Vec<WaiterKey> = (0..1000).map(|_| queue.enqueue((), None)).collect();
    for key in keys {
        drop(queue.remove(key));
    }
    assert!(queue.waiters.capacity() <= MAX_IDLE_CAPACITY);
}

#[test]
fn repeated_waiting_does_not_allocate() {
    let mut queue = WaitQueue::<()>::new();
    let mut key = queue.enqueue((), None);
    let capacity = queue.waiters.capacity();
    for _ in 0..1000 {
        queue.notify_all();
        drop(queue.remove(key));
        key = queue.enqueue((), None);
    }
    assert_eq!(queue.waiters.capacity(), capacity);
}

thread_local! {
    static ON_WAKE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// Calls `ON_WAKE` when it is woken.
struct CallbackWaker(Arc<AtomicUsize>);

impl Wake for CallbackWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if let Some(callback) = ON_WAKE.take() {
            callback();
        }
    }
}

#[test]
fn a_waker_may_remove_and_enqueue_waiters() {
    let queue = Rc::new(RefCell::new(WaitQueue::<()>::new()));
    let woken = Arc::new(AtomicUsize::new(0));
    let waker: Waker = Arc::new(CallbackWaker(Arc::clone(&woken))).into();
    let keys = [(); 3].map(|()| enqueue(&queue, &waker));
    let [first, second, third] = keys;
    let (inner, inner_waker) = (Rc::clone(&queue), waker.clone());
    ON_WAKE.set(Some(Box::new(move || {
        drop(inner.borrow_mut().remove(second));
        let late = enqueue(&inner, &inner_waker);
        assert!(!inner.borrow().is_notified(&late));
        wake_all(&inner);
    })));
    queue.borrow_mut().notify_all();
    wake_all(&queue);
    assert_eq!(woken.load(Ordering::Relaxed), 2);
    assert_eq!((queue.borrow().waiting(), queue.borrow().notified()), (1, 2));
    for key in [first, third] {
        drop(queue.borrow_mut().remove(key));
    }
}

#[test]
fn a_panicking_waker_does_not_prevent_other_wakes() {
    let queue = RefCell::new(WaitQueue::<()>::new());
    let woken = Arc::new(AtomicUsize::new(0));
    let waker: Waker = Arc::new(CallbackWaker(Arc::clone(&woken))).into();
    let keys = [(); 3].map(|()| enqueue(&queue, &waker));
    ON_WAKE.set(Some(Box::new(|| panic!("at the first"))));
    queue.borrow_mut().notify_all();
    let panic = catch_unwind(AssertUnwindSafe(|| wake_all(&queue))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"at the first"));
    assert_eq!(woken.load(Ordering::Relaxed), 3);
    for key in keys {
        drop(queue.borrow_mut().remove(key));
    }
}
