//! Condition: a notification reaches somebody who then has the lock.

use crate::support::{Crowd, sorted};
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
    GiveUp(Index),
    Notify(usize),
    NotifyAll,
    Lock,
    Unlock,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Wait),
        6 => any::<Index>().prop_map(Step::Poll),
        3 => any::<Index>().prop_map(Step::GiveUp),
        4 => (0..3usize).prop_map(Step::Notify),
        1 => Just(Step::NotifyAll),
        2 => Just(Step::Lock),
        4 => Just(Step::Unlock),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Told, and does not know it yet.
    Notified,
    /// Waits for the lock.
    Locking,
    /// The lock is its own, and it does not know it yet.
    Owning,
}

#[derive(Default)]
struct Model {
    line: Vec<usize>,
    /// Those who were notified, alone or not, in the order in which they came for the lock.
    notified: Vec<(usize, bool, Stage)>,
    is_held: bool,
}

impl Model {
    fn is_locked(&self) -> bool {
        self.is_held || self.notified.iter().any(|(_, _, stage)| *stage == Stage::Owning)
    }

    fn notify(&mut self, count: usize, is_alone: bool) {
        for number in self.line.drain(..count.min(self.line.len())) {
            self.notified.push((number, is_alone, Stage::Notified));
        }
    }

    /// The lock goes to who came for it first.
    fn pass_lock_on(&mut self) {
        if self.is_locked() {
            return;
        }
        if let Some(next) = self.notified.iter_mut().find(|(_, _, stage)| *stage == Stage::Locking) {
            next.2 = Stage::Owning;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_notification_reaches_somebody_who_gets_the_lock(steps in steps()) {
        let shared = Rc::new((Rc::new(Lock::new(())), Condition::new()));
        let (lock, condition) = &*shared;
        let mut model = Model::default();
        let mut crowd: Crowd<OwnedLockGuard<()>> = Crowd::new();
        let mut held: Option<OwnedLockGuard<()>> = None;
        for step in steps {
            match step {
                Step::Wait => {
                    let guard = Rc::clone(lock).try_lock_owned();
                    prop_assert_eq!(guard.is_some(), !model.is_locked());
                    let Some(guard) = guard else { continue };
                    let subject = Rc::clone(&shared);
                    let (number, polled) = crowd.add(async move { subject.1.wait(guard).await });
                    prop_assert!(polled.is_pending());
                    model.line.push(number);
                }
                Step::Poll(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    let polled = crowd.poll(number);
                    let found = model.notified.iter().position(|(other, _, _)| *other == number);
                    let Some(index) = found else {
                        prop_assert!(polled.is_pending());
                        continue;
                    };
                    if model.notified[index].2 == Stage::Notified {
                        let (_, is_alone, _) = model.notified.remove(index);
                        model.notified.push((number, is_alone, Stage::Locking));
                        model.pass_lock_on();
                    }
                    let place = model.notified.iter().position(|(other, _, _)| *other == number).unwrap();
                    let has_lock = model.notified[place].2 == Stage::Owning;
                    prop_assert_eq!(polled.is_ready(), has_lock);
                    if let Poll::Ready(guard) = polled {
                        model.notified.remove(place);
                        model.is_held = true;
                        held = Some(guard);
                    }
                }
                Step::GiveUp(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    crowd.give_up(number);
                    model.line.retain(|other| *other != number);
                    let found = model.notified.iter().position(|(other, _, _)| *other == number);
                    if let Some(index) = found {
                        let (_, is_alone, _) = model.notified.remove(index);
                        model.pass_lock_on();
                        if is_alone {
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
                    model.pass_lock_on();
                }
            }
            let due = model.notified.iter().filter(|(_, _, stage)| *stage != Stage::Locking);
            prop_assert_eq!(crowd.woken(), sorted(due.map(|(number, _, _)| *number)));
            prop_assert_eq!(lock.locked(), model.is_locked());
        }
        // Nobody is stuck: when all are notified and the lock goes round, all come back.
        drop(held);
        condition.notify_all();
        let mut rounds = crowd.waiting() + 1;
        while let Some(number) = crowd.woken().first().copied() {
            if let Poll::Ready(guard) = crowd.poll(number) {
                drop(guard);
                rounds -= 1;
                prop_assert!(rounds > 0);
            }
        }
        prop_assert_eq!(crowd.waiting(), 0);
    }
}
