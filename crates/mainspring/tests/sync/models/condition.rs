//! Condition: a notification reaches a waiter that then gets the lock.

use crate::support::{Waiters, sorted};
use mainspring::sync::{Condition, Lock, OwnedLockGuard};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;
use std::task::Poll;

#[derive(Clone, Debug)]
enum Step {
    /// Takes the lock if it is free, and waits with it.
    Wait,
    Poll(Index),
    Cancel(Index),
    Notify(usize),
    NotifyAll,
    Lock,
    Unlock,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Wait),
        6 => any::<Index>().prop_map(Step::Poll),
        3 => any::<Index>().prop_map(Step::Cancel),
        4 => (0..3usize).prop_map(Step::Notify),
        1 => Just(Step::NotifyAll),
        2 => Just(Step::Lock),
        4 => Just(Step::Unlock),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Notified, but not polled since.
    Notified,
    /// Waits for the lock.
    Locking,
    /// Owns the lock, but was not polled since.
    Owning,
}

#[derive(Default)]
struct Model {
    waiting: Vec<usize>,
    /// Notified waiters, in the order in which they requested the lock. The flag: notified by `notify(n)`, not by
    /// `notify_all`.
    notified: Vec<(usize, bool, State)>,
    is_held: bool,
}

impl Model {
    fn is_locked(&self) -> bool {
        self.is_held || self.notified.iter().any(|(_, _, state)| *state == State::Owning)
    }

    fn notify(&mut self, count: usize, is_individual: bool) {
        for number in self.waiting.drain(..count.min(self.waiting.len())) {
            self.notified.push((number, is_individual, State::Notified));
        }
    }

    /// The lock goes to the first waiter that requested it.
    fn grant_lock(&mut self) {
        if self.is_locked() {
            return;
        }
        if let Some(next) = self.notified.iter_mut().find(|(_, _, state)| *state == State::Locking) {
            next.2 = State::Owning;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_notification_reaches_a_waiter_that_gets_the_lock(steps in steps()) {
        let shared = Rc::new((Rc::new(Lock::new(())), Condition::new()));
        let (lock, condition) = &*shared;
        let mut model = Model::default();
        let mut waiters: Waiters<OwnedLockGuard<()>> = Waiters::new();
        let mut held: Option<OwnedLockGuard<()>> = None;
        for step in steps {
            match step {
                Step::Wait => {
                    let guard = Rc::clone(lock).try_lock_owned();
                    prop_assert_eq!(guard.is_some(), !model.is_locked());
                    let Some(guard) = guard else { continue };
                    let subject = Rc::clone(&shared);
                    let (number, polled) = waiters.add(async move { subject.1.wait(guard).await });
                    prop_assert!(polled.is_pending());
                    model.waiting.push(number);
                }
                Step::Poll(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    let polled = waiters.poll(number);
                    let found = model.notified.iter().position(|(other, _, _)| *other == number);
                    let Some(index) = found else {
                        prop_assert!(polled.is_pending());
                        continue;
                    };
                    if model.notified[index].2 == State::Notified {
                        let (_, is_individual, _) = model.notified.remove(index);
                        model.notified.push((number, is_individual, State::Locking));
                        model.grant_lock();
                    }
                    let place = model.notified.iter().position(|(other, _, _)| *other == number).unwrap();
                    let has_lock = model.notified[place].2 == State::Owning;
                    prop_assert_eq!(polled.is_ready(), has_lock);
                    if let Poll::Ready(guard) = polled {
                        model.notified.remove(place);
                        model.is_held = true;
                        held = Some(guard);
                    }
                }
                Step::Cancel(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    waiters.cancel(number);
                    model.waiting.retain(|other| *other != number);
                    let found = model.notified.iter().position(|(other, _, _)| *other == number);
                    if let Some(index) = found {
                        let (_, is_individual, _) = model.notified.remove(index);
                        model.grant_lock();
                        if is_individual {
                            model.notify(1, true);
                        }
                    }
                }
                Step::Notify(count) => {
                    condition.notify(count);
                    model.notify(count, true);
                }
                Step::NotifyAll => {
                    condition.notify_all();
                    model.notify(usize::MAX, false);
                }
                Step::Lock => {
                    if let Some(guard) = Rc::clone(lock).try_lock_owned() {
                        prop_assert!(!model.is_locked());
                        held = Some(guard);
                        model.is_held = true;
                    }
                }
                Step::Unlock => {
                    held = None;
                    model.is_held = false;
                    model.grant_lock();
                }
            }
            let due = model.notified.iter().filter(|(_, _, state)| *state != State::Locking);
            prop_assert_eq!(waiters.woken(), sorted(due.map(|(number, _, _)| *number)));
            prop_assert_eq!(lock.locked(), model.is_locked());
        }
        // No waiter is stuck: after `notify_all`, each gets the lock in turn and returns.
        drop(held);
        condition.notify_all();
        let mut rounds = waiters.waiting() + 1;
        while let Some(number) = waiters.woken().first().copied() {
            if let Poll::Ready(guard) = waiters.poll(number) {
                drop(guard);
                rounds -= 1;
                prop_assert!(rounds > 0);
            }
        }
        prop_assert_eq!(waiters.waiting(), 0);
    }
}
