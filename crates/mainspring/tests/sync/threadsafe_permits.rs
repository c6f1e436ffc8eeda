//! The thread-safe channel: permits, `recv_many` and weak senders. The rules are those of `mpsc` (`mpsc_permits.rs`),
//! here across threads.

use crate::support::{PolledFuture, pending, run};
use mainspring::sync::threadsafe::{
    self, Permit, SendError, Sender, TryRecvError, TrySendError, WeakSender, WeakUnboundedSender,
};
use mainspring::{EventLoop, timeout};
use std::cell::Cell;
use std::sync::Barrier;
use std::task::Poll;
use std::thread;
use std::time::Duration;

#[test]
fn permits_and_weak_senders_may_move_to_any_thread() {
    fn anywhere<T: Send + Sync>() {}
    anywhere::<Permit<'static, Cell<u8>>>();
    anywhere::<WeakSender<Cell<u8>>>();
    anywhere::<WeakUnboundedSender<Cell<u8>>>();
    fn can_move(_: &impl Send) {}
    let (sender, mut receiver) = threadsafe::channel::<u8>(1);
    can_move(&sender.reserve());
    can_move(&receiver.recv_many(&mut Vec::new(), 1));
}

async fn reserve_and_send(sender: Sender<u8>, value: u8) -> Result<(), SendError<()>> {
    sender.reserve().await?.send(value);
    Ok(())
}

#[test]
fn send_and_reserve_share_one_queue() {
    let (sender, mut receiver) = threadsafe::channel(1);
    sender.try_send(0).unwrap();
    let mut first = pending(reserve_and_send(sender.clone(), 1));
    let mut second = pending({
        let sender = sender.clone();
        async move { sender.send(2).await.map_err(|_| SendError(())) }
    });
    let mut third = pending(reserve_and_send(sender.clone(), 3));
    assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Full(())));
    for (next, value) in [(&mut first, 0), (&mut second, 1), (&mut third, 2)] {
        assert_eq!(receiver.try_recv(), Ok(value));
        assert!(next.is_woken());
        assert_eq!(next.poll(), Poll::Ready(Ok(())));
    }
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn capacity_of_a_cancelled_or_dropped_permit_goes_to_the_next() {
    let (sender, mut receiver) = threadsafe::channel(1);
    let permit = sender.try_reserve().unwrap();
    let chosen = pending(reserve_and_send(sender.clone(), 1));
    let mut next = pending(reserve_and_send(sender.clone(), 2));
    thread::scope(|scope| scope.spawn(|| drop(permit)).join().unwrap());
    assert!(chosen.is_woken() && !next.is_woken());
    drop(chosen);
    assert!(next.is_woken());
    assert_eq!(next.poll(), Poll::Ready(Ok(())));
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(2), Err(TryRecvError::Empty)));
}

#[test]
fn a_closed_channel_ends_when_the_last_permit_is_used_or_dropped_on_any_thread() {
    let (sender, mut receiver) = threadsafe::channel(2);
    let (used, dropped) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    receiver.close();
    assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Closed(())));
    assert_eq!(
        PolledFuture::new(reserve_and_send(sender.clone(), 9)).poll(),
        Poll::Ready(Err(SendError(())))
    );
    thread::scope(|scope| {
        let receiving = scope.spawn(|| (receiver.blocking_recv(), receiver.blocking_recv()));
        used.send(1);
        drop(dropped);
        assert_eq!(receiving.join().unwrap(), (Some(1), None));
    });
}

#[test]
fn recv_many_keeps_the_order_of_each_thread() {
    for limit in [1, 7, usize::MAX] {
        let (sender, mut receiver) = threadsafe::channel(10);
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let sender = sender.clone();
                thread::spawn(move || {
                    for number in 0..100 {
                        sender.blocking_send((thread, number)).unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let received = run(async move {
            let mut received = Vec::new();
            loop {
                match receiver.recv_many(&mut received, limit).await {
                    0 => break received,
                    count => assert!(count <= limit.min(10)),
                }
            }
        });
        for thread in 0..3 {
            let its: Vec<_> =
                received.iter().filter(|value| value.0 == thread).map(|value| value.1).collect();
            assert_eq!(its, (0..100).collect::<Vec<_>>());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_cancelled_recv_many_loses_nothing() {
    let (sender, mut receiver) = threadsafe::channel(4);
    run(async {
        let mut batch = vec![0];
        timeout(Duration::ZERO, receiver.recv_many(&mut batch, 4)).await.unwrap_err();
        assert_eq!(batch, [0]);
        sender.try_send(1).unwrap();
        sender.try_send(2).unwrap();
        assert_eq!(receiver.recv_many(&mut batch, 0).await, 0);
        assert_eq!(receiver.recv_many(&mut batch, 4).await, 2);
        assert_eq!(batch, [0, 1, 2]);
    });
}

#[test]
fn a_loop_is_not_idle_while_a_task_waits_in_send_or_recv_many() {
    let event_loop = EventLoop::new().unwrap();
    let (sender, mut receiver) = threadsafe::channel(1);
    sender.try_send(1).unwrap();
    let reserved = event_loop.spawn(reserve_and_send(sender, 2)).unwrap();
    let other = thread::spawn(move || (receiver.blocking_recv(), receiver.blocking_recv()));
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(event_loop.run_until_complete(reserved).unwrap(), Ok(Ok(())));
    assert_eq!(other.join().unwrap(), (Some(1), Some(2)));

    let (sender, mut receiver) = threadsafe::channel(1);
    let many = event_loop.spawn(async move {
        let mut batch = Vec::new();
        receiver.recv_many(&mut batch, 2).await;
        batch
    });
    let other = thread::spawn(move || sender.blocking_send(3).unwrap());
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert_eq!(event_loop.run_until_complete(many.unwrap()).unwrap(), Ok(vec![3]));
    other.join().unwrap();
}

#[test]
fn a_weak_sender_sends_or_finds_the_channel_ended() {
    for _ in 0..200 {
        let (sender, mut receiver) = threadsafe::unbounded_channel();
        let together = Barrier::new(3);
        let sent = thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (weak, together) = (sender.downgrade(), &together);
                    scope.spawn(move || {
                        together.wait();
                        weak.upgrade().is_some_and(|sender| sender.send(()).is_ok())
                    })
                })
                .collect();
            together.wait();
            drop(sender);
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|&sent| sent).count()
        });
        let mut received = Vec::new();
        while receiver.blocking_recv_many(&mut received, 8) > 0 {}
        assert_eq!(received.len(), sent);
    }
}
