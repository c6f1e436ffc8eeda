//! Cancelled waits on channels and queues: the value or the wake-up goes to the next waiter.

use crate::support::{PolledFuture, pending};
use mainspring::sync::{Queue, broadcast, mpsc, oneshot, watch};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

/// A pending future that borrows `on` for as long as it lives.
fn pending_on<T: 'static, R>(
    on: &Rc<RefCell<T>>,
    wait: impl AsyncFnOnce(&mut T) -> R + 'static,
) -> PolledFuture<R>
where
    R: std::fmt::Debug + 'static,
{
    let on = Rc::clone(on);
    #[expect(clippy::await_holding_refcell_ref, reason = "the borrow ends with the cancelled future")]
    pending(async move { wait(&mut on.borrow_mut()).await })
}

#[test]
fn a_change_seen_only_by_a_cancelled_wait_is_returned_by_the_next() {
    let (sender, receiver) = watch::channel(1);
    let receiver = Rc::new(RefCell::new(receiver));
    let cancelled =
        pending_on(&receiver, async |receiver: &mut watch::Receiver<i32>| receiver.changed().await);
    sender.send(2);
    assert!(cancelled.is_woken());
    drop(cancelled);
    assert!(receiver.borrow().has_changed());
    let again = Rc::clone(&receiver);
    #[expect(clippy::await_holding_refcell_ref, reason = "no other borrow exists")]
    let mut next = PolledFuture::new(async move { again.borrow_mut().changed().await });
    assert_eq!(next.poll(), Poll::Ready(Ok(())));
    assert!(!receiver.borrow().has_changed());
}

#[test]
fn a_value_checked_by_a_cancelled_wait_for_counts_as_seen() {
    let (sender, receiver) = watch::channel(1);
    sender.send(2);
    let receiver = Rc::new(RefCell::new(receiver));
    let cancelled = pending_on(&receiver, async |receiver: &mut watch::Receiver<i32>| {
        receiver.wait_for(|value| *value > 5).await.map(|value| *value)
    });
    drop(cancelled);
    assert!(!receiver.borrow().has_changed());
    // A value sent after the predicate ran does not count as seen.
    let cancelled = pending_on(&receiver, async |receiver: &mut watch::Receiver<i32>| {
        receiver.wait_for(|value| *value > 5).await.map(|value| *value)
    });
    sender.send(3);
    drop(cancelled);
    assert!(receiver.borrow().has_changed());
}

#[test]
fn a_value_for_a_cancelled_receive_is_returned_by_the_next() {
    let (sender, receiver) = broadcast::channel(4);
    let receiver = Rc::new(RefCell::new(receiver));
    let cancelled =
        pending_on(&receiver, async |receiver: &mut broadcast::Receiver<char>| receiver.recv().await);
    sender.send('a').unwrap();
    assert!(cancelled.is_woken());
    drop(cancelled);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));

    let (sender, receiver) = mpsc::channel(4);
    let receiver = Rc::new(RefCell::new(receiver));
    let cancelled = pending_on(&receiver, async |receiver: &mut mpsc::Receiver<char>| receiver.recv().await);
    sender.try_send('a').unwrap();
    assert!(cancelled.is_woken());
    drop(cancelled);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));

    let (sender, receiver) = oneshot::channel();
    let receiver = Rc::new(RefCell::new(receiver));
    let cancelled = pending_on(&receiver, async |receiver: &mut oneshot::Receiver<char>| receiver.await);
    sender.send('a').unwrap();
    assert!(cancelled.is_woken());
    drop(cancelled);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));
}

#[test]
fn a_cancelled_send_drops_its_value_and_frees_its_capacity() {
    let (sender, mut receiver) = mpsc::channel(1);
    let value = Rc::new("never sent");
    sender.try_send(Rc::new("in the channel")).unwrap();
    let (first, second) = (sender.clone(), sender.clone());
    let (clone, other) = (Rc::clone(&value), Rc::new("sent"));
    let cancelled = pending(async move { first.send(clone).await });
    let mut next = pending(async move { second.send(other).await });
    // The freed capacity is assigned to the waiter that is about to be cancelled.
    assert_eq!(receiver.try_recv().as_deref(), Ok(&"in the channel"));
    assert!(cancelled.is_woken() && !next.is_woken());
    drop(cancelled);
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(next.is_woken());
    assert_eq!(next.poll(), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv().as_deref(), Ok(&"sent"));
}

/// Of three waiters, one is cancelled before `end` and one after it; the other is woken.
fn assert_woken<F: Future<Output: std::fmt::Debug> + 'static>(wait: impl Fn() -> F, end: impl FnOnce()) {
    let (cancelled, mut stays, late) = (pending(wait()), pending(wait()), pending(wait()));
    drop(cancelled);
    end();
    drop(late);
    assert!(stays.is_woken() && stays.poll().is_ready());
}

#[test]
fn a_cancelled_wait_for_closed_does_not_affect_other_waiters() {
    let (sender, receiver) = mpsc::channel::<()>(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_woken(wait, || drop(receiver));

    let (sender, receiver) = watch::channel(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_woken(wait, || drop(receiver));

    let (sender, receiver) = broadcast::channel::<()>(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_woken(wait, || drop(receiver));

    let (sender, receiver) = oneshot::channel::<()>();
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_woken(wait, || drop(receiver));

    let queue = Rc::new(Queue::new(0));
    queue.put_nowait("work").unwrap();
    let wait = || {
        let queue = Rc::clone(&queue);
        async move { queue.join().await }
    };
    let end = || {
        queue.get_nowait().unwrap();
        queue.task_done().unwrap();
    };
    assert_woken(wait, end);
}
