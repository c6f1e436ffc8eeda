//! Models of the inbox: loom runs every interleaving of its threads.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_inbox`.
//!
//! A lost wake-up shows as a deadlock, which loom reports.
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use mainspring_engine::wakeup::{Closed, Inbox, Waker};

/// A model of an eventfd: `wake` makes it readable; `sleep` waits until it is readable and clears it.
#[derive(Default)]
struct EventFdModel {
    state: Mutex<State>,
    rang: Condvar,
}

#[derive(Default)]
struct State {
    readable: bool,
    times: usize,
}

impl EventFdModel {
    fn sleep(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.readable {
            state = self.rang.wait(state).unwrap();
        }
        state.readable = false;
    }

    fn times(&self) -> usize {
        self.state.lock().unwrap().times
    }
}

impl Waker for EventFdModel {
    fn wake(&self) {
        let mut state = self.state.lock().unwrap();
        state.readable = true;
        state.times += 1;
        self.rang.notify_one();
    }
}

type Model<T> = Arc<Inbox<T, EventFdModel>>;

fn inbox<T: Send>() -> Model<T> {
    Arc::new(Inbox::new(EventFdModel::default()))
}

fn pusher(inbox: &Model<u8>, item: u8) -> thread::JoinHandle<()> {
    let inbox = Arc::clone(inbox);
    thread::spawn(move || inbox.push(item).unwrap())
}

/// Runs loop iterations until `wanted` items are received. Returns the number of sleeps.
fn receive(inbox: &Model<u8>, wanted: usize) -> usize {
    let mut items = Vec::new();
    let mut sleeps = 0;
    loop {
        if inbox.has_pending() {
            inbox.drain_into(&mut items);
        }
        if items.len() == wanted {
            return sleeps;
        }
        if inbox.prepare_sleep() {
            sleeps += 1;
            inbox.waker().sleep();
            inbox.awake();
        } else {
            assert!(inbox.has_pending(), "the loop does not sleep only if it has items to drain");
        }
    }
}

#[test]
fn two_pushers_reach_a_loop_that_is_going_to_sleep() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [pusher(&inbox, 1), pusher(&inbox, 2)];
        receive(&inbox, 2);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}

#[test]
fn a_sleep_causes_at_most_one_wake_up() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [pusher(&inbox, 1), pusher(&inbox, 2)];
        let sleeps = receive(&inbox, 2);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        assert!(inbox.waker().times() <= sleeps);
    });
}

#[test]
fn an_awake_loop_is_not_woken() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [pusher(&inbox, 1), pusher(&inbox, 2)];
        let mut items = Vec::new();
        inbox.drain_into(&mut items);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        inbox.drain_into(&mut items);
        assert_eq!(items.len(), 2);
        assert_eq!(inbox.waker().times(), 0);
    });
}

#[test]
fn a_sleep_ended_by_another_event_leaves_no_item_behind() {
    loom::model(|| {
        let inbox = inbox();
        let other = pusher(&inbox, 1);
        if inbox.prepare_sleep() {
            inbox.awake();
        }
        receive(&inbox, 1);
        other.join().unwrap();
    });
}

#[test]
fn an_explicit_wake_up_ends_or_prevents_the_sleep() {
    loom::model(|| {
        let inbox = inbox::<u8>();
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.wake())
        };
        if inbox.prepare_sleep() {
            inbox.waker().sleep();
            inbox.awake();
        }
        other.join().unwrap();
    });
}

#[test]
fn an_item_is_drained_or_returned_by_close_or_by_push() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [1u8, 2].map(|item| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.push(item).err().map(|Closed(item)| item))
        });
        let mut seen = Vec::new();
        inbox.drain_into(&mut seen);
        seen.extend(inbox.close());
        seen.extend(pushers.into_iter().filter_map(|pusher| pusher.join().unwrap()));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}
