//! The thread-safe channel: no accepted value is lost, no refused value is kept, and no waiter sleeps forever.

use crate::support::{PolledFuture, pending, run, run_iterations};
use mainspring::sync::threadsafe::{
    self, Receiver, SendError, Sender, TryRecvError, TrySendError, UnboundedSender,
};
use mainspring::{EventLoop, Runtime, spawn, timeout};
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::task::Poll;
use std::time::Duration;

#[test]
fn both_halves_may_move_to_any_thread() {
    fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Sender<std::cell::Cell<u8>>>();
    anywhere::<UnboundedSender<std::cell::Cell<u8>>>();
    anywhere::<Receiver<std::cell::Cell<u8>>>();
    fn can_move(_: &impl Send) {}
    let (sender, mut receiver) = threadsafe::channel::<u8>(1);
    can_move(&sender.send(1));
    can_move(&sender.closed());
    can_move(&receiver.recv());
}

#[test]
fn values_of_many_threads_arrive_in_the_order_of_each_thread() {
    for capacity in [1, 3, 1000] {
        let (sender, mut receiver) = threadsafe::channel(capacity);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for number in 0..200 {
                        sender.blocking_send((thread, number)).unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let received = run(async move {
            let mut received = vec![Vec::new(); 4];
            while let Some((thread, number)) = receiver.recv().await {
                received[thread].push(number);
            }
            received
        });
        assert_eq!(received, vec![(0..200).collect::<Vec<_>>(); 4]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_sleeping_loop_is_woken_by_a_thread_without_a_loop() {
    let (sender, mut receiver) = threadsafe::unbounded_channel();
    let (asleep, is_asleep) = mpsc::channel();
    let other = std::thread::spawn(move || {
        is_asleep.recv().unwrap();
        sender.send(42).unwrap();
    });
    let value = run(async move {
        let mut receiving = Box::pin(receiver.recv());
        poll_fn(|cx| {
            assert!(receiving.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        asleep.send(()).unwrap();
        receiving.await
    });
    assert_eq!(value, Some(42));
    other.join().unwrap();
}

#[test]
fn two_loops_on_two_threads_exchange_values() {
    let there = Runtime::start().unwrap();
    let (to, mut from) = threadsafe::channel(1);
    let (back, mut answers) = threadsafe::channel(1);
    let echo = there.spawn(move || async move {
        while let Some(number) = from.recv().await {
            back.send(number * 2).await.unwrap();
        }
    });
    run(async move {
        for number in 0..500 {
            to.send(number).await.unwrap();
            assert_eq!(answers.recv().await, Some(number * 2));
        }
        drop(to);
        assert_eq!(answers.recv().await, None);
    });
    assert_eq!(echo.wait(), Ok(()));
}

#[test]
fn a_receiver_moves_from_a_thread_to_a_loop_and_back() {
    let (sender, mut receiver) = threadsafe::channel(1);
    let sending =
        std::thread::spawn(move || (0..30).for_each(|number| sender.blocking_send(number).unwrap()));
    for round in 0..5 {
        assert_eq!(receiver.blocking_recv(), Some(round * 6));
        receiver = run(async move {
            for number in 1..6 {
                assert_eq!(receiver.recv().await, Some(round * 6 + number));
            }
            receiver
        });
    }
    assert_eq!(receiver.blocking_recv(), None);
    sending.join().unwrap();
}

#[test]
fn a_waiting_sender_gets_its_value_back_when_the_receiver_is_dropped() {
    let (sender, receiver) = threadsafe::channel(1);
    sender.try_send(0).unwrap();
    let blocked = sender.clone();
    let blocked = std::thread::spawn(move || blocked.blocking_send(1));
    let waiting = sender.clone();
    let mut waiting = pending(async move { waiting.send(2).await });
    let watching = sender.clone();
    let mut closed = pending(async move { watching.closed().await });
    drop(receiver);
    assert_eq!(blocked.join().unwrap(), Err(SendError(1)));
    assert_eq!(waiting.poll(), Poll::Ready(Err(SendError(2))));
    assert!(closed.poll().is_ready());
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    assert!(sender.is_closed());
}

#[test]
fn a_closed_channel_delivers_accepted_values() {
    let (sender, mut receiver) = threadsafe::channel(2);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    assert_eq!(sender.capacity(), 0);
    let blocked = sender.clone();
    let blocked = std::thread::spawn(move || blocked.blocking_send(3));
    receiver.close();
    assert_eq!(blocked.join().unwrap(), Err(SendError(3)));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.blocking_recv(), Some(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(receiver.blocking_recv(), None);
}

#[test]
fn capacity_is_granted_in_request_order() {
    let (sender, mut receiver) = threadsafe::channel(1);
    sender.try_send(0).unwrap();
    let (first, second) = (sender.clone(), sender.clone());
    let mut first = pending(async move { first.send(1).await });
    let mut second = pending(async move { second.send(2).await });
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(first.is_woken() && !second.is_woken());
    // Capacity assigned to the first waiter goes neither to the second nor to a newcomer.
    assert!(second.poll().is_pending());
    let mut third = pending(async move { sender.send(3).await });
    assert_eq!(first.poll(), Poll::Ready(Ok(())));
    for (next, value) in [(&mut second, 1), (&mut third, 2)] {
        assert_eq!(receiver.try_recv(), Ok(value));
        assert_eq!(next.poll(), Poll::Ready(Ok(())));
    }
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn cancelling_loses_no_value_and_no_capacity() {
    let (sender, mut receiver) = threadsafe::channel(1);
    // A receiver that was woken for a value and is then cancelled.
    let mut receiving = Box::pin(async move {
        let mut first = Box::pin(receiver.recv());
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await.is_pending());
        pend_once().await;
        drop(first);
        receiver.recv().await
    });
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(receiving.as_mut().poll(&mut cx).is_pending());
    sender.try_send('a').unwrap();
    assert_eq!(receiving.as_mut().poll(&mut cx), Poll::Ready(Some('a')));
    drop(receiving);
    // A sender that was assigned capacity and is then cancelled: the next gets it.
    let (sender, mut receiver) = threadsafe::channel(1);
    sender.try_send(0).unwrap();
    let (first, second) = (sender.clone(), sender);
    let first = pending(async move { first.send(1).await });
    let mut second = pending(async move { second.send(2).await });
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(first.is_woken());
    drop(first);
    assert!(second.is_woken());
    assert_eq!(second.poll(), Poll::Ready(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(2));
}

/// Pending once, without a loop.
async fn pend_once() {
    let mut is_first = true;
    poll_fn(|_| if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

#[test]
fn polling_and_awaiting_a_receiver_can_be_mixed() {
    let (sender, mut receiver) = threadsafe::channel(2);
    let mut polling = PolledFuture::new(async move {
        assert!(poll_fn(|cx| Poll::Ready(receiver.poll_recv(cx))).await.is_pending());
        receiver
    });
    let Poll::Ready(mut receiver) = polling.poll() else { panic!("the receive is pending") };
    sender.try_send(1).unwrap();
    assert!(polling.is_woken());
    let mut receiving = PolledFuture::new(async move { receiver.recv().await });
    assert_eq!(receiving.poll(), Poll::Ready(Some(1)));
}

#[test]
fn unreceived_values_are_dropped_with_the_receiver_and_may_use_the_channel() {
    struct Counts(Arc<AtomicUsize>, Sender<Counts>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            assert!(self.1.is_closed());
            assert_eq!(self.1.capacity(), 3);
        }
    }
    let (sender, receiver) = threadsafe::channel(3);
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        assert!(sender.try_send(Counts(Arc::clone(&dropped), sender.clone())).is_ok());
    }
    drop(receiver);
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

#[test]
fn a_waker_may_use_the_channel_that_calls_it() {
    struct Sends(Sender<u8>, mpsc::Sender<bool>);
    impl std::task::Wake for Sends {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0.try_send(2).is_ok()).unwrap();
        }
    }
    let (sender, mut receiver) = threadsafe::channel(2);
    let (tell, told) = mpsc::channel();
    let waker = std::task::Waker::from(Arc::new(Sends(sender.clone(), tell)));
    assert!(receiver.poll_recv(&mut std::task::Context::from_waker(&waker)).is_pending());
    sender.try_send(1).unwrap();
    assert!(told.recv().unwrap());
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
}

#[test]
fn a_loop_is_not_idle_while_a_task_waits_for_another_thread() {
    let event_loop = EventLoop::new().unwrap();
    let (sender, mut receiver) = threadsafe::channel(1);
    let received = event_loop.spawn(async move { receiver.recv().await }).unwrap();
    let other = std::thread::spawn(move || sender.blocking_send(1).unwrap());
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(event_loop.run_until_complete(received).unwrap(), Ok(Some(1)));
    other.join().unwrap();
    // It is idle once the wait is cancelled.
    let (_sender, mut receiver) = threadsafe::channel::<()>(1);
    event_loop
        .spawn(async move {
            timeout(Duration::ZERO, receiver.recv()).await.unwrap_err();
            std::future::pending::<()>().await;
        })
        .unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 1);
}

#[test]
fn a_runtime_that_shuts_down_receives_all_accepted_values() {
    let runtime = Runtime::start().unwrap();
    let (sender, mut receiver) = threadsafe::channel(2);
    let count = runtime.spawn(move || async move {
        let mut count = 0;
        while receiver.recv().await.is_some() {
            count += 1;
        }
        count
    });
    let sending =
        std::thread::spawn(move || (0..100).for_each(|number| sender.blocking_send(number).unwrap()));
    runtime.shutdown().unwrap();
    assert_eq!(count.wait(), Ok(100));
    sending.join().unwrap();
}

#[test]
fn closing_the_loop_returns_the_values_of_waiting_senders() {
    let event_loop = EventLoop::new().unwrap();
    let (sender, mut receiver) = threadsafe::channel(1);
    event_loop.spawn(async move { while receiver.recv().await.is_some() {} }).unwrap();
    sender.try_send(1).unwrap();
    let blocked = sender.clone();
    let blocked = std::thread::spawn(move || blocked.blocking_send(2));
    event_loop.close().unwrap();
    assert_eq!(blocked.join().unwrap(), Err(SendError(2)));
    assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
}

#[test]
fn values_are_dropped_or_returned_when_the_receiver_is_dropped_concurrently() {
    for _ in 0..100 {
        let (sender, receiver) = threadsafe::channel(1);
        let value = Arc::new(());
        let start = Arc::new(Barrier::new(2));
        let sending = {
            let (value, start) = (Arc::clone(&value), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                let mut accepted = 0;
                while let Ok(()) = sender.blocking_send(Arc::clone(&value)) {
                    accepted += 1;
                }
                accepted
            })
        };
        start.wait();
        drop(receiver);
        assert!(sending.join().unwrap() <= 1);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn tasks_of_one_loop_may_use_the_thread_safe_channel() {
    run(async {
        let (sender, mut receiver) = threadsafe::channel(1);
        let sending = spawn(async move {
            for number in 0..10 {
                sender.send(number).await.unwrap();
            }
        });
        run_iterations(3).await;
        let mut received = Vec::new();
        while let Some(number) = receiver.recv().await {
            received.push(number);
        }
        assert_eq!(received, (0..10).collect::<Vec<_>>());
        sending.await.unwrap();
    });
}
