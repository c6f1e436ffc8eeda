//! Channels: both halves, dropped in every order.

use crate::support::{PolledFuture, pending, run, run_iterations};
use mainspring::spawn;
use mainspring::sync::{broadcast, mpsc, oneshot, watch};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

#[test]
fn a_channel_ends_when_the_last_sender_is_dropped() {
    let (sender, mut receiver) = mpsc::channel(1);
    let other = sender.clone();
    drop(sender);
    other.try_send(1).unwrap();
    drop(other);
    let mut receiving = PolledFuture::new(async move { (receiver.recv().await, receiver.recv().await) });
    assert_eq!(receiving.poll(), Poll::Ready((Some(1), None)));
}

#[test]
fn a_waiting_sender_fails_when_the_receiver_is_dropped() {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(Rc::new(1)).unwrap();
    let watching = sender.clone();
    let mut closed = pending(async move { watching.closed().await });
    let mut sending = pending(async move { sender.send(Rc::new(2)).await });
    drop(receiver);
    assert!(closed.poll().is_ready());
    assert_eq!(sending.poll(), Poll::Ready(Err(mpsc::SendError(Rc::new(2)))));
}

#[test]
fn values_sent_before_close_are_received() {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    sender.clone().send('a').unwrap();
    receiver.close();
    assert!(sender.is_closed() && sender.send('b').is_err());
    assert_eq!((receiver.len(), receiver.is_empty()), (1, false));
    assert_eq!(receiver.try_recv(), Ok('a'));
    assert_eq!(receiver.try_recv(), Err(mpsc::TryRecvError::Closed));
}

#[test]
fn polling_and_awaiting_a_receiver_can_be_mixed() {
    let (sender, mut receiver) = mpsc::channel(2);
    let mut polling = PolledFuture::new(async move {
        let first = poll_fn(|cx| Poll::Ready(receiver.poll_recv(cx))).await;
        assert!(first.is_pending());
        receiver
    });
    let Poll::Ready(mut receiver) = polling.poll() else { panic!("the receive is pending") };
    // The polled receiver's waiter is chosen for the value, then abandoned.
    sender.try_send(1).unwrap();
    assert!(polling.is_woken());
    let mut receiving = PolledFuture::new(async move { receiver.recv().await });
    assert_eq!(receiving.poll(), Poll::Ready(Some(1)));
}

#[test]
fn a_dropped_receiver_drops_the_sent_values() {
    let (sender, receiver) = mpsc::channel(4);
    let value = Rc::new(());
    for _ in 0..3 {
        sender.try_send(value.clone()).unwrap();
    }
    assert_eq!((sender.capacity(), sender.max_capacity()), (1, 4));
    drop(receiver);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn two_tasks_exchange_values() {
    run(async {
        let (to, mut from) = mpsc::channel(1);
        let (back, mut answers) = mpsc::channel(1);
        let echo = spawn(async move {
            while let Some(number) = from.recv().await {
                if back.send(number).await.is_err() {
                    return;
                }
            }
        });
        for number in 0..1000 {
            to.send(number).await.unwrap();
            assert_eq!(answers.recv().await, Some(number));
        }
        drop(to);
        echo.await.unwrap();
    });
}

#[test]
fn a_oneshot_value_arrives_or_the_receiver_sees_the_drop() {
    let (sender, receiver) = oneshot::channel::<i32>();
    let mut receiving = pending(receiver);
    drop(sender);
    assert_eq!(receiving.poll(), Poll::Ready(Err(oneshot::RecvError)));
    let (sender, receiver) = oneshot::channel();
    let mut receiving = pending(receiver);
    sender.send(1).unwrap();
    assert!(receiving.is_woken());
    assert_eq!(receiving.poll(), Poll::Ready(Ok(1)));
}

#[test]
fn a_closed_oneshot_receiver_gets_a_value_sent_before() {
    let (sender, mut receiver) = oneshot::channel();
    sender.send('a').unwrap();
    receiver.close();
    assert_eq!(PolledFuture::new(receiver).poll(), Poll::Ready(Ok('a')));
    let (sender, mut receiver) = oneshot::channel();
    receiver.close();
    assert_eq!(sender.send('b'), Err('b'));
    assert_eq!(PolledFuture::new(receiver).poll(), Poll::Ready(Err(oneshot::RecvError)));
}

#[test]
fn an_unreceived_value_is_dropped_with_the_receiver() {
    let (sender, receiver) = oneshot::channel();
    let value = Rc::new(());
    sender.send(value.clone()).unwrap();
    assert_eq!(Rc::strong_count(&value), 2);
    drop(receiver);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn a_watch_receiver_sees_the_latest_value_and_each_change_once() {
    run(async {
        let (sender, mut receiver) = watch::channel(0);
        let mut other = receiver.clone();
        sender.send(1);
        assert_eq!(*sender.send(2), 1);
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.get(), 2);
        assert!(!receiver.has_changed() && other.has_changed() && !sender.subscribe().has_changed());
        let task = spawn(async move { receiver.changed().await });
        run_iterations(1).await;
        drop(sender);
        assert_eq!(task.await.unwrap(), Err(watch::RecvError));
        assert_eq!(other.wait_for(|value| *value == 2).await.map(|value| *value), Ok(2));
        assert_eq!(other.changed().await, Err(watch::RecvError));
    });
}

#[test]
fn a_watch_sender_sees_that_no_receiver_is_left() {
    let (sender, receiver) = watch::channel(());
    let sender = Rc::new(sender);
    let watching = sender.clone();
    let mut closed = pending(async move { watching.closed().await });
    let second = sender.subscribe();
    drop(receiver);
    assert!(!closed.is_woken());
    drop(second);
    assert!(closed.poll().is_ready());
}

#[test]
fn every_broadcast_receiver_gets_every_value_at_its_own_pace() {
    run(async {
        let (sender, mut slow) = broadcast::channel(3);
        let mut quick = slow.resubscribe();
        for number in 0..5 {
            assert_eq!(sender.send(number), Ok(2));
            assert_eq!(quick.recv().await, Ok(number));
        }
        assert_eq!(slow.len(), 3);
        assert_eq!(slow.recv().await, Err(broadcast::RecvError::Lagged(2)));
        let mut rest = Vec::new();
        let task = spawn(async move {
            while let Ok(number) = slow.recv().await {
                rest.push(number);
            }
            rest
        });
        run_iterations(1).await;
        sender.send(5).unwrap();
        drop(sender);
        assert_eq!(task.await.unwrap(), [2, 3, 4, 5]);
        assert_eq!(quick.try_recv(), Ok(5));
        assert_eq!(quick.try_recv(), Err(broadcast::TryRecvError::Closed));
    });
}

#[test]
fn a_value_received_by_all_is_dropped() {
    let (sender, mut one) = broadcast::channel(8);
    let other = one.resubscribe();
    let value = Rc::new(());
    for _ in 0..2 {
        sender.send(value.clone()).unwrap();
    }
    drop((one.try_recv(), one.try_recv()));
    assert_eq!(Rc::strong_count(&value), 3);
    drop(other);
    assert_eq!(Rc::strong_count(&value), 1);
}

#[test]
fn an_unchanged_value_wakes_no_receiver() {
    let (sender, receiver) = watch::channel(vec![1]);
    let former = receiver.get();
    let mut other = receiver.clone();
    let mut changing = pending(async move { other.changed().await });
    let is_told = sender.send_if_modified(|numbers| {
        numbers.clear();
        false
    });
    assert!(!is_told && !changing.is_woken() && !receiver.has_changed());
    assert!(Rc::ptr_eq(&former, &receiver.get()));
    assert!(sender.send_if_modified(|numbers| {
        // The closure changes a copy: the current value can still be read.
        numbers.push(receiver.get().len());
        true
    }));
    assert_eq!((changing.poll(), receiver.get().as_slice()), (Poll::Ready(Ok(())), &[1, 1][..]));
}

#[test]
fn a_panicking_change_changes_nothing() {
    let (sender, receiver) = watch::channel(1);
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sender.send_if_modified(|value| {
            *value = 2;
            panic!("in a change")
        })
    }));
    assert!(changed.is_err() && !receiver.has_changed());
    assert_eq!(*sender.get(), 1);
}

#[test]
fn a_broadcast_sender_sees_that_no_receiver_is_left() {
    let (sender, receiver) = broadcast::channel(2);
    sender.send(1).unwrap();
    let sender = Rc::new(sender);
    let watching = sender.clone();
    let mut closed = pending(async move { watching.closed().await });
    let other = receiver.resubscribe();
    drop(receiver);
    assert!(!closed.is_woken());
    drop(other);
    assert!(closed.is_woken());
    // A receiver subscribed before `closed()` was polled again: it keeps waiting.
    let late = sender.subscribe();
    assert!(closed.poll().is_pending());
    drop(late);
    assert!(closed.is_woken() && closed.poll().is_ready());
    let watching = sender.clone();
    assert!(PolledFuture::new(async move { watching.closed().await }).poll().is_ready());
}

#[test]
fn a_waker_of_closed_may_subscribe_and_send() {
    struct Sends(broadcast::Sender<u8>, Cell<Option<broadcast::Receiver<u8>>>);
    thread_local! {
        static SENDS: RefCell<Option<Rc<Sends>>> = const { RefCell::new(None) };
    }
    struct SendingWaker;
    impl Wake for SendingWaker {
        fn wake(self: Arc<Self>) {
            let sends = SENDS.take().unwrap();
            let receiver = sends.0.subscribe();
            sends.0.send(2).unwrap();
            sends.1.set(Some(receiver));
        }
    }
    let (sender, receiver) = broadcast::channel(1);
    sender.send(1).unwrap();
    let sends = Rc::new(Sends(sender, Cell::new(None)));
    SENDS.set(Some(sends.clone()));
    let mut closed = Box::pin(sends.0.closed());
    let waker = Waker::from(Arc::new(SendingWaker));
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(receiver);
    let received = sends.1.take().map(|mut receiver| receiver.try_recv());
    assert_eq!(received, Some(Ok(2)));
}
