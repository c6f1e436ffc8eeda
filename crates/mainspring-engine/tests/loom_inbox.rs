//! Models of the inbox that loom runs through every interleaving of its threads:
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_inbox`.
//!
//! A lost wake-up shows as a deadlock, which loom reports.
#![cfg(loom)]

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use mainspring_engine::wakeup::{Closed, Inbox, Waker};

/// An eventfd as a model: `wake` makes it readable, `sleep` waits until it is and acknowledges.
#[derive(Default)]
struct Bell {
    state: Mutex<Rung>,
    rang: Condvar,
}

#[derive(Default)]
struct Rung {
    readable: bool,
    times: usize,
}

impl Bell {
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

impl Waker for Bell {
    fn wake(&self) {
        let mut state = self.state.lock().unwrap();
        state.readable = true;
        state.times += 1;
        self.rang.notify_one();
    }
}

type Model<T> = Arc<Inbox<T, Bell>>;

fn inbox<T: Send>() -> Model<T> {
    Arc::new(Inbox::new(Bell::default()))
}

fn pusher(inbox: &Model<u8>, item: u8) -> thread::JoinHandle<()> {
    let inbox = Arc::clone(inbox);
    thread::spawn(move || inbox.push(item).unwrap())
}

/// Passes of a loop until it has `wanted` items; gives how often it slept.
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
            assert!(inbox.has_pending(), "what keeps the loop from sleeping must be what it will drain");
        }
    }
}

#[test]
fn two_pushers_always_reach_a_loop_that_goes_to_sleep() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [pusher(&inbox, 1), pusher(&inbox, 2)];
        receive(&inbox, 2);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}

#[test]
fn a_sleep_costs_one_wake_up_at_most() {
    loom::model(|| {
        let inbox = inbox();
        let pushers = [pusher(&inbox, 1), pusher(&inbox, 2)];
        let sleeps = receive(&inbox, 2);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        assert!(inbox.waker().times() <= sleeps);
    });
}

#[test]
fn a_loop_that_is_awake_is_never_woken() {
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
fn a_sleep_that_something_else_ended_leaves_no_item_behind() {
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
fn a_wake_up_without_an_item_ends_the_sleep_or_prevents_it() {
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
fn an_item_is_drained_or_left_at_the_close_or_handed_back() {
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
