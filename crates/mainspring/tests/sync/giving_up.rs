//! Channels, and waits that are over by themselves: what giving one up leaves to the next.

use crate::support::{Actor, pending};
use mainspring::sync::{Queue, broadcast, mpsc, oneshot, watch};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

/// A future that borrows what it waits on for as long as it lives.
fn waits<T: 'static, R>(on: &Rc<RefCell<T>>, wait: impl AsyncFnOnce(&mut T) -> R + 'static) -> Actor<R>
where
    R: std::fmt::Debug + 'static,
{
    let on = Rc::clone(on);
    #[expect(clippy::await_holding_refcell_ref, reason = "one at a time, and dropped with what is given up")]
    pending(async move { wait(&mut on.borrow_mut()).await })
}

#[test]
fn a_change_that_came_to_a_watcher_who_gave_up_is_told_by_the_next() {
    let (sender, receiver) = watch::channel(1);
    let receiver = Rc::new(RefCell::new(receiver));
    let given_up = waits(&receiver, async |receiver: &mut watch::Receiver<i32>| receiver.changed().await);
    sender.send(2);
    assert!(given_up.is_woken());
    drop(given_up);
    assert!(receiver.borrow().has_changed());
    let again = Rc::clone(&receiver);
    #[expect(clippy::await_holding_refcell_ref, reason = "nobody else borrows it")]
    let mut next = Actor::new(async move { again.borrow_mut().changed().await });
    assert_eq!(next.poll(), Poll::Ready(Ok(())));
    assert!(!receiver.borrow().has_changed());
}

#[test]
fn what_a_predicate_was_shown_counts_as_seen_also_if_the_wait_is_given_up() {
    let (sender, receiver) = watch::channel(1);
    sender.send(2);
    let receiver = Rc::new(RefCell::new(receiver));
    let given_up = waits(&receiver, async |receiver: &mut watch::Receiver<i32>| {
        receiver.wait_for(|value| *value > 5).await.map(|value| *value)
    });
    drop(given_up);
    assert!(!receiver.borrow().has_changed());
    // And what came after that does not.
    let given_up = waits(&receiver, async |receiver: &mut watch::Receiver<i32>| {
        receiver.wait_for(|value| *value > 5).await.map(|value| *value)
    });
    sender.send(3);
    drop(given_up);
    assert!(receiver.borrow().has_changed());
}

#[test]
fn a_value_that_came_to_a_receiver_who_gave_up_is_received_by_the_next() {
    let (sender, receiver) = broadcast::channel(4);
    let receiver = Rc::new(RefCell::new(receiver));
    let given_up = waits(&receiver, async |receiver: &mut broadcast::Receiver<char>| receiver.recv().await);
    sender.send('a').unwrap();
    assert!(given_up.is_woken());
    drop(given_up);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));

    let (sender, receiver) = mpsc::channel(4);
    let receiver = Rc::new(RefCell::new(receiver));
    let given_up = waits(&receiver, async |receiver: &mut mpsc::Receiver<char>| receiver.recv().await);
    sender.try_send('a').unwrap();
    assert!(given_up.is_woken());
    drop(given_up);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));

    let (sender, receiver) = oneshot::channel();
    let receiver = Rc::new(RefCell::new(receiver));
    let given_up = waits(&receiver, async |receiver: &mut oneshot::Receiver<char>| receiver.await);
    sender.send('a').unwrap();
    assert!(given_up.is_woken());
    drop(given_up);
    assert_eq!(receiver.borrow_mut().try_recv(), Ok('a'));
}

#[test]
fn a_value_whose_sender_gave_up_is_dropped_and_its_place_is_the_next_ones() {
    let (sender, mut receiver) = mpsc::channel(1);
    let value = Rc::new("never sent");
    sender.try_send(Rc::new("in the channel")).unwrap();
    let (first, second) = (sender.clone(), sender.clone());
    let (clone, other) = (Rc::clone(&value), Rc::new("sent"));
    let given_up = pending(async move { first.send(clone).await });
    let mut next = pending(async move { second.send(other).await });
    // The room is promised to who is about to give up.
    assert_eq!(receiver.try_recv().as_deref(), Ok(&"in the channel"));
    assert!(given_up.is_woken() && !next.is_woken());
    drop(given_up);
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(next.is_woken());
    assert_eq!(next.poll(), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv().as_deref(), Ok(&"sent"));
}

/// Of three who wait, one gives up before `end` and one after it; the other is told.
fn assert_told<F: Future<Output: std::fmt::Debug> + 'static>(wait: impl Fn() -> F, end: impl FnOnce()) {
    let (given_up, mut stays, late) = (pending(wait()), pending(wait()), pending(wait()));
    drop(given_up);
    end();
    drop(late);
    assert!(stays.is_woken() && stays.poll().is_ready());
}

#[test]
fn who_waits_for_an_end_may_give_up_and_others_are_told() {
    let (sender, receiver) = mpsc::channel::<()>(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_told(wait, || drop(receiver));

    let (sender, receiver) = watch::channel(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_told(wait, || drop(receiver));

    let (sender, receiver) = broadcast::channel::<()>(1);
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_told(wait, || drop(receiver));

    let (sender, receiver) = oneshot::channel::<()>();
    let sender = Rc::new(sender);
    let wait = || {
        let sender = Rc::clone(&sender);
        async move { sender.closed().await }
    };
    assert_told(wait, || drop(receiver));

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
    assert_told(wait, end);
}
