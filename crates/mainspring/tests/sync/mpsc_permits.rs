//! `mpsc`: permits, `recv_many` and weak senders.

use crate::support::{PolledFuture, pending};
use mainspring::sync::mpsc::{self, SendError, TryRecvError, TrySendError};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    static ACTION: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Runs the stored action when it is woken.
struct ActionWaker;

impl Wake for ActionWaker {
    fn wake(self: Arc<Self>) {
        if let Some(action) = ACTION.take() {
            action();
        }
    }
}

/// Polls a future that is pending, and runs `action` when it is woken.
fn wait_with_action<R>(
    future: impl Future<Output = R> + 'static,
    action: impl FnOnce() + 'static,
) -> impl Sized {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(ActionWaker));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    ACTION.set(Some(Box::new(action)));
    future
}

/// Waits for capacity, then sends the result of `make`.
fn reserve_and_send<T: 'static>(
    sender: &mpsc::Sender<T>,
    make: impl FnOnce() -> T + 'static,
) -> impl Future<Output = Result<(), SendError<()>>> + 'static {
    let sender = sender.clone();
    async move {
        sender.reserve().await?.send(make());
        Ok(())
    }
}

fn send<T: 'static>(sender: &mpsc::Sender<T>, value: T) -> impl Future<Output = bool> + 'static {
    let sender = sender.clone();
    async move { sender.send(value).await.is_ok() }
}

#[test]
fn reserved_capacity_is_exclusive() {
    let (sender, mut receiver) = mpsc::channel(2);
    let (first, second) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    assert_eq!((sender.capacity(), sender.max_capacity()), (0, 2));
    assert_eq!(sender.try_send('x'), Err(TrySendError::Full('x')));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut waiting = pending(send(&sender, 'c'));
    second.send('a');
    first.send('b');
    assert!(!waiting.is_woken());
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok('a'), Ok('b')));
    assert_eq!(waiting.poll(), Poll::Ready(true));
    assert_eq!(receiver.try_recv(), Ok('c'));
    assert_eq!((sender.capacity(), sender.max_capacity()), (2, 2));
}

#[test]
fn send_and_reserve_share_one_queue() {
    let (sender, mut receiver) = mpsc::channel(1);
    sender.try_send(0).unwrap();
    let mut first = pending(reserve_and_send(&sender, || 1));
    let mut second = pending(send(&sender, 2));
    let mut third = pending(reserve_and_send(&sender, || 3));
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(first.is_woken() && !second.is_woken() && !third.is_woken());
    // The capacity is assigned to the first waiter: a newcomer queues behind it.
    let mut late = pending(send(&sender, 4));
    assert_eq!(first.poll(), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(second.is_woken() && second.poll().is_ready());
    assert_eq!(receiver.try_recv(), Ok(2));
    assert!(third.is_woken() && third.poll().is_ready());
    assert_eq!(receiver.try_recv(), Ok(3));
    assert!(late.is_woken() && late.poll().is_ready());
}

#[test]
fn a_dropped_permit_gives_its_capacity_to_the_next_waiter() {
    let (sender, mut receiver) = mpsc::channel(1);
    let permit = sender.try_reserve().unwrap();
    let mut first = pending(send(&sender, 1));
    let second = pending(send(&sender, 2));
    drop(permit);
    assert!(first.is_woken() && !second.is_woken());
    assert_eq!(first.poll(), Poll::Ready(true));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(second.is_woken());
}

#[test]
fn a_cancelled_reserve_leaves_the_capacity_to_the_next() {
    let (sender, mut receiver) = mpsc::channel(1);
    sender.try_send(0).unwrap();
    let waits = pending(reserve_and_send(&sender, || 1));
    let chosen = pending(reserve_and_send(&sender, || 2));
    let mut next = pending(reserve_and_send(&sender, || 3));
    drop(waits);
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(chosen.is_woken() && !next.is_woken());
    drop(chosen);
    assert!(next.is_woken() && next.poll().is_ready());
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(sender.capacity(), 1);
}

#[test]
fn a_woken_waiter_whose_capacity_was_taken_keeps_its_place() {
    let (sender, mut receiver) = mpsc::channel(1);
    sender.try_send(0).unwrap();
    let mut first = pending(reserve_and_send(&sender, || 1));
    let second = pending(send(&sender, 2));
    assert_eq!(receiver.try_recv(), Ok(0));
    let permit = sender.try_reserve().unwrap();
    assert!(first.is_woken() && first.poll().is_pending());
    drop(permit);
    assert!(first.is_woken() && !second.is_woken());
    assert_eq!(first.poll(), Poll::Ready(Ok(())));
}

#[test]
fn a_closed_channel_ends_when_the_last_permit_is_used_or_dropped() {
    let (sender, mut receiver) = mpsc::channel(3);
    let (used, dropped) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    receiver.close();
    assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Closed(())));
    assert_eq!(PolledFuture::new(reserve_and_send(&sender, || 'x')).poll(), Poll::Ready(Err(SendError(()))));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    let mut receiving = pending(async move {
        let mut received = Vec::new();
        while let Some(value) = receiver.recv().await {
            received.push(value);
        }
        received
    });
    used.send('a');
    assert!(receiving.is_woken() && receiving.poll().is_pending());
    drop(dropped);
    assert!(receiving.is_woken());
    assert_eq!(receiving.poll(), Poll::Ready(vec!['a']));
}

#[test]
fn a_waiting_receiver_that_closes_still_gets_the_last_value() {
    let (sender, mut receiver) = mpsc::channel(1);
    let permit = sender.try_reserve().unwrap();
    let closing = Rc::new(Cell::new(false));
    let close = closing.clone();
    let mut receiving = pending(async move {
        std::future::poll_fn(|cx| {
            if close.take() {
                receiver.close();
            }
            receiver.poll_recv(cx)
        })
        .await
    });
    closing.set(true);
    assert!(receiving.poll().is_pending());
    permit.send("last");
    assert!(receiving.is_woken());
    assert_eq!(receiving.poll(), Poll::Ready(Some("last")));
}

#[test]
fn a_value_sent_after_the_receiver_is_dropped_is_dropped_at_once() {
    let (sender, receiver) = mpsc::channel(2);
    let (used, dropped) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    let value = Rc::new(());
    drop(receiver);
    used.send(value.clone());
    assert_eq!(Rc::strong_count(&value), 1);
    drop(dropped);
    assert_eq!(sender.capacity(), 2);
}

#[test]
fn a_forgotten_permit_does_not_block_the_receiver() {
    let (sender, mut receiver) = mpsc::channel::<()>(1);
    std::mem::forget(sender.try_reserve().unwrap());
    drop(sender);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn a_waker_may_reserve_send_and_close_while_a_permit_is_used_or_dropped() {
    let (sender, receiver) = mpsc::channel(2);
    let permit = sender.try_reserve().unwrap();
    let inner = sender.clone();
    let receiver = Rc::new(RefCell::new(receiver));
    let waiting = receiver.clone();
    #[expect(clippy::await_holding_refcell_ref, reason = "no other borrow exists")]
    let waits = wait_with_action(async move { waiting.borrow_mut().recv().await }, move || {
        inner.try_reserve().unwrap().send(2);
        assert_eq!(inner.capacity(), 0);
    });
    permit.send(1);
    drop(waits);
    assert_eq!(receiver.borrow().len(), 2);
    let inner = receiver.clone();
    let (taken, permit) = (receiver.borrow_mut().try_recv(), sender.try_reserve().unwrap());
    assert_eq!(taken, Ok(1));
    let waits = wait_with_action(send(&sender, 3), move || inner.borrow_mut().close());
    drop(permit);
    drop(waits);
    assert!(sender.is_closed());

    let (sender, receiver) = mpsc::channel::<u8>(1);
    let permit = sender.try_reserve().unwrap();
    let waits = wait_with_action(reserve_and_send(&sender, || 1), move || drop(receiver));
    drop(permit);
    drop(waits);
    assert!(sender.is_closed());
}

#[test]
fn a_panicking_waker_leaves_the_channel_usable() {
    let (sender, mut receiver) = mpsc::channel(1);
    let permit = sender.try_reserve().unwrap();
    let waits = wait_with_action(reserve_and_send(&sender, || 1), || panic!("in a waker"));
    let mut next = pending(send(&sender, 2));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(permit))).is_err());
    drop(waits);
    assert!(next.is_woken() && next.poll().is_ready());
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(sender.capacity(), 1);
}

#[test]
fn the_destructor_of_an_undelivered_value_may_use_the_channel() {
    struct Uses(mpsc::Sender<Uses>, Rc<Cell<bool>>);
    impl Drop for Uses {
        fn drop(&mut self) {
            self.1.set(self.0.try_reserve().is_err() && self.0.capacity() == 1);
        }
    }
    let (sender, receiver) = mpsc::channel(1);
    let seen = Rc::new(Cell::new(false));
    let permit = sender.try_reserve().unwrap();
    drop(receiver);
    permit.send(Uses(sender.clone(), seen.clone()));
    assert!(seen.get());
}

/// Receives a batch of at most `limit` values; returns it with the receiver.
async fn batch<T>(mut receiver: mpsc::Receiver<T>, limit: usize) -> (Vec<T>, mpsc::Receiver<T>) {
    let mut values = Vec::new();
    let count = receiver.recv_many(&mut values, limit).await;
    assert_eq!(count, values.len());
    (values, receiver)
}

#[test]
fn recv_many_returns_available_values_up_to_its_limit() {
    let (sender, mut receiver) = mpsc::channel(4);
    let receive = |receiver, limit| match PolledFuture::new(batch(receiver, limit)).poll() {
        Poll::Ready(received) => received,
        Poll::Pending => panic!("the receive is pending"),
    };
    (0..4).for_each(|number| sender.try_send(number).unwrap());
    let mut values;
    (values, receiver) = receive(receiver, 0);
    assert!(values.is_empty());
    (values, receiver) = receive(receiver, 3);
    assert_eq!(values, [0, 1, 2]);
    (values, receiver) = receive(receiver, usize::MAX);
    assert_eq!(values, [3]);
    sender.try_send(4).unwrap();
    drop(sender);
    (values, receiver) = receive(receiver, 2);
    assert_eq!(values, [4]);
    (values, _) = receive(receiver, 2);
    assert!(values.is_empty());
}

#[test]
fn recv_many_waits_for_the_first_value_and_wakes_waiting_senders() {
    let (sender, receiver) = mpsc::channel(2);
    let mut receiving = pending(batch(receiver, 8));
    (0..2).for_each(|number| sender.try_send(number).unwrap());
    let (mut first, mut second) = (pending(send(&sender, 2)), pending(send(&sender, 3)));
    assert!(receiving.is_woken());
    let Poll::Ready((values, mut receiver)) = receiving.poll() else { panic!("the receive is pending") };
    assert_eq!(values, [0, 1]);
    assert!(first.is_woken() && second.is_woken());
    assert!(second.poll().is_ready() && first.poll().is_ready());
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(3), Ok(2)));
}

#[test]
fn a_cancelled_recv_many_loses_nothing() {
    let (sender, receiver) = mpsc::channel(2);
    let shared = Rc::new(RefCell::new((receiver, vec!["before"])));
    let inner = shared.clone();
    #[expect(clippy::await_holding_refcell_ref, reason = "no other borrow exists")]
    let cancelled = pending(async move {
        let (receiver, values) = &mut *inner.borrow_mut();
        receiver.recv_many(values, 2).await
    });
    sender.try_send("after").unwrap();
    assert!(cancelled.is_woken());
    drop(cancelled);
    let (receiver, values) = &mut *shared.borrow_mut();
    assert_eq!((values.as_slice(), receiver.try_recv()), (&["before"][..], Ok("after")));
}

#[test]
fn a_weak_sender_does_not_keep_the_channel_open() {
    let (sender, mut receiver) = mpsc::channel(1);
    let weak = sender.downgrade();
    let mut receiving = pending(async move { (receiver.recv().await, receiver.recv().await) });
    let strong = weak.upgrade().unwrap();
    drop(sender);
    assert!(!receiving.is_woken());
    strong.try_send(1).unwrap();
    assert!(receiving.poll().is_pending());
    drop(strong);
    assert_eq!(receiving.poll(), Poll::Ready((Some(1), None)));
    assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());
}

#[test]
fn a_waker_cannot_upgrade_a_weak_sender_after_the_end() {
    let (sender, mut receiver) = mpsc::unbounded_channel::<()>();
    let weak = sender.downgrade();
    let seen = Rc::new(Cell::new(None));
    let inner = seen.clone();
    let _waits = wait_with_action(async move { receiver.recv().await }, move || {
        inner.set(Some(weak.upgrade().is_none()));
    });
    drop(sender);
    assert_eq!(seen.get(), Some(true));
}

#[test]
fn a_weak_sender_keeps_no_value_alive() {
    let (sender, receiver) = mpsc::channel(1);
    let weak = sender.downgrade();
    let value = Rc::new(());
    sender.try_send(value.clone()).unwrap();
    drop(sender);
    drop(receiver);
    assert_eq!(Rc::strong_count(&value), 1);
    assert!(weak.upgrade().is_none());
}
