//! Models of the thread-safe channel: loom runs every interleaving of its locks.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_channel`.
#![cfg(loom)]

use loom::thread;
use mainspring::sync::threadsafe::{self, SendError};

#[test]
fn a_waiting_receiver_gets_every_value_and_then_the_end() {
    loom::model(|| {
        let (sender, mut receiver) = threadsafe::unbounded_channel();
        let sending = thread::spawn(move || {
            sender.send(1).unwrap();
            sender.send(2).unwrap();
        });
        assert_eq!((receiver.blocking_recv(), receiver.blocking_recv()), (Some(1), Some(2)));
        assert_eq!(receiver.blocking_recv(), None);
        sending.join().unwrap();
    });
}

#[test]
fn a_waiting_sender_gets_freed_capacity() {
    loom::model(|| {
        let (sender, mut receiver) = threadsafe::channel(1);
        let sending = thread::spawn(move || {
            sender.blocking_send(1).unwrap();
            sender.blocking_send(2).unwrap();
        });
        assert_eq!((receiver.blocking_recv(), receiver.blocking_recv()), (Some(1), Some(2)));
        sending.join().unwrap();
    });
}

#[test]
fn the_channel_ends_after_the_last_value_of_the_last_sender() {
    let mut model = loom::model::Builder::new();
    // Every interleaving of this many steps would take an hour.
    model.preemption_bound = Some(3);
    model.check(|| {
        let (sender, mut receiver) = threadsafe::unbounded_channel();
        let other = sender.clone();
        let senders = [thread::spawn(move || sender.send(1)), thread::spawn(move || other.send(2))];
        let mut sum = 0;
        while let Some(value) = receiver.blocking_recv() {
            sum += value;
        }
        assert_eq!(sum, 3);
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
    });
}

#[test]
fn a_value_is_accepted_or_returned_when_the_receiver_is_dropped() {
    loom::model(|| {
        let (sender, mut receiver) = threadsafe::channel(1);
        let sending = thread::spawn(move || (sender.blocking_send(1), sender.blocking_send(2)));
        receiver.close();
        let received: Vec<i32> = std::iter::from_fn(|| receiver.blocking_recv()).collect();
        match sending.join().unwrap() {
            (Ok(()), Err(SendError(2))) => assert_eq!(received, [1]),
            (Err(SendError(1)), Err(SendError(2))) => assert!(received.is_empty()),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_waiting_sender_is_woken_when_the_receiver_is_dropped() {
    loom::model(|| {
        let (sender, receiver) = threadsafe::channel(1);
        sender.try_send(1).unwrap();
        let sending = thread::spawn(move || sender.blocking_send(2));
        drop(receiver);
        assert_eq!(sending.join().unwrap(), Err(SendError(2)));
    });
}

#[test]
fn a_weak_sender_sends_before_the_end_or_cannot_upgrade() {
    loom::model(|| {
        let (sender, mut receiver) = threadsafe::unbounded_channel();
        let weak = sender.downgrade();
        let sending = thread::spawn(move || weak.upgrade().map(|sender| sender.send(1)));
        drop(sender);
        let received = receiver.blocking_recv();
        assert_eq!(sending.join().unwrap(), received.map(|_| Ok(())));
        assert_eq!(receiver.blocking_recv(), None);
    });
}

#[test]
fn a_closed_receiver_waits_for_outstanding_permits() {
    loom::model(|| {
        let (sender, mut receiver) = threadsafe::channel(2);
        let sending = thread::spawn(move || {
            let permits = (sender.try_reserve(), sender.try_reserve());
            if let (Ok(used), Ok(dropped)) = permits {
                used.send(1);
                drop(dropped);
            }
        });
        receiver.close();
        let mut received = Vec::new();
        while receiver.blocking_recv_many(&mut received, 2) > 0 {}
        assert!(received.len() <= 1);
        assert_eq!(receiver.blocking_recv(), None);
        sending.join().unwrap();
    });
}
