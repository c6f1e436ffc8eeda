//! The queue against a plain list, and wakers that call in.

use super::*;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Wake;

/// Writes its number down when it is woken.
struct Scribe {
    number: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Scribe {
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
    Join,
    Leave(prop::sample::Index),
    StandAgain(prop::sample::Index),
    ChooseFirst,
    ChooseAll,
    Wake,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Join),
        3 => any::<prop::sample::Index>().prop_map(Step::Leave),
        2 => any::<prop::sample::Index>().prop_map(Step::StandAgain),
        3 => Just(Step::ChooseFirst),
        1 => Just(Step::ChooseAll),
        2 => Just(Step::Wake),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_line_behaves_like_a_plain_list(steps in prop::collection::vec(step(), 1..120)) {
        let queue = RefCell::new(WaitQueue::<()>::new());
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut keys: Vec<(usize, WaiterKey)> = Vec::new();
        // By number, which is the order of joining.
        let (mut waiting, mut chosen, mut to_wake): (Vec<usize>, Vec<usize>, Vec<usize>) = Default::default();
        let mut joined = 0;
        let mut expected = Vec::new();
        for step in steps {
            match step {
                Step::Join => {
                    let waker = Arc::new(Scribe { number: joined, woken: Arc::clone(&woken) }).into();
                    keys.push((joined, enqueue(&queue, &waker)));
                    waiting.push(joined);
                    joined += 1;
                }
                Step::Leave(index) if !keys.is_empty() => {
                    let (number, key) = keys.remove(index.index(keys.len()));
                    let left = queue.borrow_mut().remove(key);
                    prop_assert_eq!(left.was_notified, chosen.contains(&number));
                    for row in [&mut waiting, &mut chosen, &mut to_wake] {
                        row.retain(|other| *other != number);
                    }
                }
                Step::StandAgain(index) if !chosen.is_empty() => {
                    let number = chosen.remove(index.index(chosen.len()));
                    to_wake.retain(|other| *other != number);
                    waiting.push(number);
                    waiting.sort_unstable();
                    let key = &keys.iter().find(|(other, _)| *other == number).unwrap().1;
                    let waker = Arc::new(Scribe { number, woken: Arc::clone(&woken) }).into();
                    queue.borrow_mut().requeue(key);
                    register_waker(&queue, |queue| queue, key, &Context::from_waker(&waker));
                }
                Step::Leave(_) | Step::StandAgain(_) => {}
                Step::ChooseFirst => {
                    let is_one = queue.borrow_mut().notify_first().is_some();
                    prop_assert_eq!(is_one, !waiting.is_empty());
                    if is_one {
                        let number = waiting.remove(0);
                        chosen.push(number);
                        to_wake.push(number);
                    }
                }
                Step::ChooseAll => {
                    queue.borrow_mut().notify_all();
                    chosen.extend(&waiting);
                    to_wake.append(&mut waiting);
                }
                Step::Wake => {
                    wake_all(&queue);
                    expected.append(&mut to_wake);
                }
            }
            prop_assert_eq!(&*woken.lock().unwrap(), &expected);
            prop_assert_eq!(queue.borrow().waiting(), waiting.len());
            prop_assert_eq!(queue.borrow().notified(), chosen.len());
            for (number, key) in &keys {
                prop_assert_eq!(queue.borrow().is_notified(key), chosen.contains(number));
            }
        }
        for (_, key) in keys {
            drop(queue.borrow_mut().remove(key));
        }
        prop_assert!(queue.borrow().first().is_none() && queue.borrow().waiters.is_empty());
    }
}

#[test]
fn a_great_line_gives_its_memory_back_when_it_is_empty() {
    let mut queue = WaitQueue::<()>::new();
    let keys: Vec<WaiterKey> = (0..1000).map(|_| queue.enqueue((), None)).collect();
    for key in keys {
        drop(queue.remove(key));
    }
    assert!(queue.waiters.capacity() <= MAX_IDLE_CAPACITY);
}

#[test]
fn waiting_again_and_again_allocates_nothing() {
    let mut queue = WaitQueue::<()>::new();
    let mut hold = queue.enqueue((), None);
    let capacity = queue.waiters.capacity();
    for _ in 0..1000 {
        queue.notify_all();
        drop(queue.remove(hold));
        hold = queue.enqueue((), None);
    }
    assert_eq!(queue.waiters.capacity(), capacity);
}

thread_local! {
    static DEED: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// Does what this thread has put down, when it is woken.
struct Doer(Arc<AtomicUsize>);

impl Wake for Doer {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if let Some(deed) = DEED.take() {
            deed();
        }
    }
}

#[test]
fn a_waker_may_take_others_out_of_the_line_and_join_it() {
    let queue = Rc::new(RefCell::new(WaitQueue::<()>::new()));
    let woken = Arc::new(AtomicUsize::new(0));
    let waker: Waker = Arc::new(Doer(Arc::clone(&woken))).into();
    let keys = [(); 3].map(|()| enqueue(&queue, &waker));
    let [first, second, third] = keys;
    let (inner, inner_waker) = (Rc::clone(&queue), waker.clone());
    DEED.set(Some(Box::new(move || {
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
fn a_waker_that_panics_does_not_keep_the_others_from_being_woken() {
    let queue = RefCell::new(WaitQueue::<()>::new());
    let woken = Arc::new(AtomicUsize::new(0));
    let waker: Waker = Arc::new(Doer(Arc::clone(&woken))).into();
    let keys = [(); 3].map(|()| enqueue(&queue, &waker));
    DEED.set(Some(Box::new(|| panic!("at the first"))));
    queue.borrow_mut().notify_all();
    let panic = catch_unwind(AssertUnwindSafe(|| wake_all(&queue))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"at the first"));
    assert_eq!(woken.load(Ordering::Relaxed), 3);
    for key in keys {
        drop(queue.borrow_mut().remove(key));
    }
}
