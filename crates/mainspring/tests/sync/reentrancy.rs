//! Wakers, destructors and comparisons that call in, and that panic.

use crate::support::{Actor, pending};
use mainspring::sync::{Condition, Event, Lock, PriorityQueue, Queue, Semaphore, broadcast, mpsc, watch};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// What the waker [`Deed`] does.
    static DEEDS: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// When it is woken, does what was put down last.
struct Deed;

impl Wake for Deed {
    fn wake(self: Arc<Self>) {
        let deed = DEEDS.with_borrow_mut(Vec::pop);
        if let Some(deed) = deed {
            deed();
        }
    }
}

type Waiting<R> = Pin<Box<dyn Future<Output = R>>>;

fn when_woken(deed: impl FnOnce() + 'static) {
    DEEDS.with_borrow_mut(|deeds| deeds.insert(0, Box::new(deed)));
}

/// Polls a future that waits, with the waker that does the deeds.
fn wait_with_deed<R>(future: impl Future<Output = R> + 'static) -> Waiting<R> {
    let mut future: Waiting<R> = Box::pin(future);
    let waker = Waker::from(Arc::new(Deed));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    future
}

fn poll<R>(future: &mut Waiting<R>) -> Poll<R> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

fn get(queue: &Rc<Queue<i32>>) -> impl Future<Output = Option<i32>> + 'static {
    let queue = queue.clone();
    async move { queue.get().await.ok() }
}

#[test]
fn a_waker_may_put_get_and_shut_down() {
    let queue = Rc::new(Queue::new(2));
    let mut first = wait_with_deed(get(&queue));
    let mut second = pending(get(&queue));
    let (put, end) = (queue.clone(), queue.clone());
    when_woken(move || put.put_nowait(2).unwrap());
    queue.put_nowait(1).unwrap();
    assert!(second.is_woken());
    assert_eq!((poll(&mut first), second.poll()), (Poll::Ready(Some(1)), Poll::Ready(Some(2))));
    let mut third = wait_with_deed(get(&queue));
    when_woken(move || end.shutdown(true));
    queue.put_nowait(3).unwrap();
    assert_eq!(poll(&mut third), Poll::Ready(None));
    assert!(queue.empty());
}

#[test]
fn a_waker_may_drop_others_who_were_chosen_with_it() {
    let event = Rc::new(Event::new());
    let wait = |event: &Rc<Event>| {
        let event = event.clone();
        async move { event.wait().await }
    };
    let mut first = wait_with_deed(wait(&event));
    let second = wait_with_deed(wait(&event));
    let mut third = pending(wait(&event));
    let again = event.clone();
    when_woken(move || {
        drop(second);
        again.clear();
        again.set();
    });
    event.set();
    assert!(third.is_woken() && third.poll().is_ready() && poll(&mut first).is_ready());
}

#[test]
fn a_waker_may_give_up_the_one_it_wakes() {
    let semaphore = Rc::new(Semaphore::new(0));
    let slot: Rc<Cell<Option<Waiting<()>>>> = Rc::default();
    let waiting = semaphore.clone();
    slot.set(Some(wait_with_deed(async move { drop(waiting.acquire().await) })));
    let next = pending(semaphore.clone().acquire_owned());
    let inner = slot.clone();
    when_woken(move || drop(inner.take()));
    semaphore.release(1).unwrap();
    assert!(next.is_woken());
    drop(next);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn letting_go_of_a_lock_may_lock_it_again() {
    let lock = Rc::new(Lock::new(0));
    let guard = lock.clone().try_lock_owned().unwrap();
    let inner = lock.clone();
    let waiting = wait_with_deed(async move { drop(inner.lock().await) });
    let inner = lock.clone();
    when_woken(move || {
        drop(waiting);
        *inner.try_lock().unwrap() += 1;
    });
    drop(guard);
    assert_eq!(*lock.try_lock().unwrap(), 1);
}

#[test]
fn who_waits_for_a_condition_is_told_even_by_who_gets_the_lock_at_once() {
    let shared = Rc::new((Rc::new(Lock::new(())), Condition::new()));
    let guard = shared.0.clone().try_lock_owned().unwrap();
    let lock = shared.0.clone();
    let next = wait_with_deed(async move { drop(lock.lock().await) });
    let inner = shared.clone();
    when_woken(move || {
        drop(next);
        inner.1.notify(1);
    });
    let waiting = shared.clone();
    let mut waiting = Actor::new(async move { drop(waiting.1.wait(guard).await) });
    assert!(waiting.poll().is_ready());
}

#[test]
fn a_waker_that_panics_leaves_the_others_woken_and_the_queue_whole() {
    let queue = Rc::new(Queue::new(1));
    let mut first = wait_with_deed(get(&queue));
    let mut second = pending(get(&queue));
    when_woken(|| panic!("in a waker"));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.shutdown(false))).is_err());
    assert!(second.is_woken());
    assert_eq!((poll(&mut first), second.poll()), (Poll::Ready(None), Poll::Ready(None)));
}

/// Puts itself into words, or into another queue, when it is dropped.
struct Dropped(Option<Box<dyn FnOnce()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(deed) = self.0.take() {
            deed();
        }
    }
}

#[test]
fn the_destructor_of_an_item_may_use_the_queue_it_was_in() {
    let queue = Rc::new(Queue::new(0));
    let inner = queue.clone();
    let deed = move || {
        assert!(inner.is_shut_down() && inner.empty());
        assert!(inner.put_nowait(Dropped(None)).is_err());
    };
    queue.put_nowait(Dropped(Some(Box::new(deed)))).unwrap();
    queue.shutdown(true);
}

#[test]
fn the_destructor_of_a_value_may_panic_and_everybody_was_told() {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(Dropped(Some(Box::new(|| panic!("in a destructor"))))).ok();
    let watching = sender.clone();
    let closed = pending(async move { watching.closed().await });
    let mut sending = pending(async move { sender.send(Dropped(None)).await.is_err() });
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert!(closed.is_woken());
    assert_eq!(sending.poll(), Poll::Ready(true));
}

#[test]
fn a_value_that_is_pushed_out_of_a_channel_may_use_it() {
    let (sender, receiver) = broadcast::channel(1);
    let sender = Rc::new(sender);
    let inner = sender.clone();
    let deed = Rc::new(Dropped(Some(Box::new(move || drop(inner.send(Rc::new(Dropped(None))))))));
    sender.send(deed).ok();
    sender.send(Rc::new(Dropped(None))).ok();
    assert_eq!(receiver.len(), 1);
    let (sender, receiver) = watch::channel(Dropped(None));
    let seen = Rc::new(Cell::new(false));
    let inner = seen.clone();
    sender.send(Dropped(Some(Box::new(move || {
        inner.set(receiver.get().0.is_none());
    }))));
    drop(sender.send(Dropped(None)));
    assert!(seen.get());
}

/// Panics when it is compared with its like.
#[derive(PartialEq, Eq)]
struct Touchy(u8);

impl PartialOrd for Touchy {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Touchy {
    fn cmp(&self, other: &Self) -> Ordering {
        assert_ne!((self.0, other.0), (7, 7), "two sevens");
        self.0.cmp(&other.0)
    }
}

#[test]
fn a_comparison_that_panics_leaves_the_queue_usable() {
    let queue = PriorityQueue::new(0);
    queue.put_nowait(Touchy(7)).ok();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.put_nowait(Touchy(7)).is_ok())).is_err());
    assert_eq!(queue.qsize(), 2);
    assert_eq!(queue.get_nowait().map(|item| item.0), Ok(7));
    queue.put_nowait(Touchy(1)).ok();
    queue.shutdown(true);
    assert!(queue.empty() && queue.task_done().is_ok() && queue.task_done().is_err());
}

#[test]
fn a_future_may_be_dropped_after_a_wake_that_nobody_answered() {
    let lock = Rc::new(Lock::new(()));
    let guard = lock.clone().try_lock_owned().unwrap();
    let actors: Vec<Actor<()>> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            pending(async move { drop(lock.lock().await) })
        })
        .collect();
    drop(guard);
    // Each passes the lock on to the next, and the last leaves it free.
    for actor in actors {
        assert!(actor.is_woken());
        drop(actor);
    }
    assert!(!lock.locked());
}
