//! Wakers, destructors and comparisons that use the primitive, or panic.

use crate::support::{PolledFuture, pending};
use mainspring::sync::{Condition, Event, Lock, PriorityQueue, Queue, Semaphore, broadcast, mpsc, watch};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// The actions of [`ActionWaker`].
    static ACTIONS: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// When it is woken, runs the action that was stored last.
struct ActionWaker;

impl Wake for ActionWaker {
    fn wake(self: Arc<Self>) {
        let action = ACTIONS.with_borrow_mut(Vec::pop);
        if let Some(action) = action {
            action();
        }
    }
}

type Waiting<R> = Pin<Box<dyn Future<Output = R>>>;

fn when_woken(action: impl FnOnce() + 'static) {
    ACTIONS.with_borrow_mut(|deeds| deeds.insert(0, Box::new(action)));
}

/// Polls a future that is pending, with the waker that runs the stored actions.
fn wait_with_action<R>(future: impl Future<Output = R> + 'static) -> Waiting<R> {
    let mut future: Waiting<R> = Box::pin(future);
    let waker = Waker::from(Arc::new(ActionWaker));
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
    let mut first = wait_with_action(get(&queue));
    let mut second = pending(get(&queue));
    let (put, end) = (queue.clone(), queue.clone());
    when_woken(move || put.put_nowait(2).unwrap());
    queue.put_nowait(1).unwrap();
    assert!(second.is_woken());
    assert_eq!((poll(&mut first), second.poll()), (Poll::Ready(Some(1)), Poll::Ready(Some(2))));
    let mut third = wait_with_action(get(&queue));
    when_woken(move || end.shutdown(true));
    queue.put_nowait(3).unwrap();
    assert_eq!(poll(&mut third), Poll::Ready(None));
    assert!(queue.empty());
}

#[test]
fn a_waker_may_drop_waiters_that_were_woken_with_it() {
    let event = Rc::new(Event::new());
    let wait = |event: &Rc<Event>| {
        let event = event.clone();
        async move { event.wait().await }
    };
    let mut first = wait_with_action(wait(&event));
    let second = wait_with_action(wait(&event));
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
fn a_waker_may_cancel_the_wait_it_wakes() {
    let semaphore = Rc::new(Semaphore::new(0));
    let slot: Rc<Cell<Option<Waiting<()>>>> = Rc::default();
    let waiting = semaphore.clone();
    slot.set(Some(wait_with_action(async move { drop(waiting.acquire().await) })));
    let next = pending(semaphore.clone().acquire_owned());
    let inner = slot.clone();
    when_woken(move || drop(inner.take()));
    semaphore.release(1).unwrap();
    assert!(next.is_woken());
    drop(next);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_waker_may_take_the_lock_being_released() {
    let lock = Rc::new(Lock::new(0));
    let guard = lock.clone().try_lock_owned().unwrap();
    let inner = lock.clone();
    let waiting = wait_with_action(async move { drop(inner.lock().await) });
    let inner = lock.clone();
    when_woken(move || {
        drop(waiting);
        *inner.try_lock().unwrap() += 1;
    });
    drop(guard);
    assert_eq!(*lock.try_lock().unwrap(), 1);
}

#[test]
fn a_condition_may_be_notified_by_a_waker_that_gets_the_lock() {
    let shared = Rc::new((Rc::new(Lock::new(())), Condition::new()));
    let guard = shared.0.clone().try_lock_owned().unwrap();
    let lock = shared.0.clone();
    let next = wait_with_action(async move { drop(lock.lock().await) });
    let inner = shared.clone();
    when_woken(move || {
        drop(next);
        inner.1.notify(1);
    });
    let waiting = shared.clone();
    let mut waiting = PolledFuture::new(async move { drop(waiting.1.wait(guard).await) });
    assert!(waiting.poll().is_ready());
}

#[test]
fn a_panicking_waker_leaves_the_others_woken_and_the_queue_usable() {
    let queue = Rc::new(Queue::new(1));
    let mut first = wait_with_action(get(&queue));
    let mut second = pending(get(&queue));
    when_woken(|| panic!("in a waker"));
    assert!(catch_unwind(AssertUnwindSafe(|| queue.shutdown(false))).is_err());
    assert!(second.is_woken());
    assert_eq!((poll(&mut first), second.poll()), (Poll::Ready(None), Poll::Ready(None)));
}

/// Runs a closure when it is dropped.
struct RunsOnDrop(Option<Box<dyn FnOnce()>>);

impl Drop for RunsOnDrop {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

#[test]
fn the_destructor_of_an_item_may_use_the_queue_it_was_in() {
    let queue = Rc::new(Queue::new(0));
    let inner = queue.clone();
    let action = move || {
        assert!(inner.is_shut_down() && inner.empty());
        assert!(inner.put_nowait(RunsOnDrop(None)).is_err());
    };
    queue.put_nowait(RunsOnDrop(Some(Box::new(action)))).unwrap();
    queue.shutdown(true);
}

#[test]
fn a_panicking_destructor_does_not_lose_wake_ups() {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(RunsOnDrop(Some(Box::new(|| panic!("in a destructor"))))).ok();
    let watching = sender.clone();
    let closed = pending(async move { watching.closed().await });
    let mut sending = pending(async move { sender.send(RunsOnDrop(None)).await.is_err() });
    assert!(catch_unwind(AssertUnwindSafe(|| drop(receiver))).is_err());
    assert!(closed.is_woken());
    assert_eq!(sending.poll(), Poll::Ready(true));
}

#[test]
fn a_value_evicted_from_a_channel_may_use_it() {
    let (sender, receiver) = broadcast::channel(1);
    let sender = Rc::new(sender);
    let inner = sender.clone();
    let action = Rc::new(RunsOnDrop(Some(Box::new(move || drop(inner.send(Rc::new(RunsOnDrop(None))))))));
    sender.send(action).ok();
    sender.send(Rc::new(RunsOnDrop(None))).ok();
    assert_eq!(receiver.len(), 1);
    let (sender, receiver) = watch::channel(RunsOnDrop(None));
    let seen = Rc::new(Cell::new(false));
    let inner = seen.clone();
    sender.send(RunsOnDrop(Some(Box::new(move || {
        inner.set(receiver.get().0.is_none());
    }))));
    drop(sender.send(RunsOnDrop(None)));
    assert!(seen.get());
}

/// Panics when a seven is compared with a seven.
#[derive(PartialEq, Eq)]
struct PanicsOnSevens(u8);

impl PartialOrd for PanicsOnSevens {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PanicsOnSevens {
    fn cmp(&self, other: &Self) -> Ordering {
        assert_ne!((self.0, other.0), (7, 7), "two sevens");
        self.0.cmp(&other.0)
    }
}

#[test]
fn a_panicking_comparison_leaves_the_queue_usable() {
    let queue = PriorityQueue::new(0);
    queue.put_nowait(PanicsOnSevens(7)).ok();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.put_nowait(PanicsOnSevens(7)).is_ok())).is_err());
    assert_eq!(queue.qsize(), 2);
    assert_eq!(queue.get_nowait().map(|item| item.0), Ok(7));
    queue.put_nowait(PanicsOnSevens(1)).ok();
    queue.shutdown(true);
    assert!(queue.empty() && queue.task_done().is_ok() && queue.task_done().is_err());
}

#[test]
fn woken_futures_may_be_dropped_unpolled() {
    let lock = Rc::new(Lock::new(()));
    let guard = lock.clone().try_lock_owned().unwrap();
    let actors: Vec<PolledFuture<()>> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            pending(async move { drop(lock.lock().await) })
        })
        .collect();
    drop(guard);
    // Each passes the lock to the next; the last leaves it free.
    for actor in actors {
        assert!(actor.is_woken());
        drop(actor);
    }
    assert!(!lock.locked());
}
