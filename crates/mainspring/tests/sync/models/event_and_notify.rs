//! Event and Notify: which waiters are woken.

use crate::support::{Waiters, sorted};
use mainspring::sync::{Event, Notify};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;

#[derive(Clone, Debug)]
enum Step {
    Wait,
    Poll(Index),
    Move(Index),
    Cancel(Index),
    One,
    All,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Wait),
        4 => any::<Index>().prop_map(Step::Poll),
        1 => any::<Index>().prop_map(Step::Move),
        3 => any::<Index>().prop_map(Step::Cancel),
        4 => Just(Step::One),
        1 => Just(Step::All),
        2 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..100)
}

/// Waiters, and notified waiters. The flag: notified individually.
#[derive(Default)]
struct Model {
    waiting: Vec<usize>,
    notified: Vec<(usize, bool)>,
}

impl Model {
    fn notify_all(&mut self) {
        self.notified.extend(self.waiting.drain(..).map(|number| (number, false)));
    }

    fn notify_one_waiter(&mut self) -> bool {
        let is_one = !self.waiting.is_empty();
        if is_one {
            self.notified.push((self.waiting.remove(0), true));
        }
        is_one
    }

    /// Removes a waiter; if it was notified, returns whether individually.
    fn leave(&mut self, number: usize) -> Option<bool> {
        self.waiting.retain(|other| *other != number);
        let index = self.notified.iter().position(|(other, _)| *other == number)?;
        Some(self.notified.remove(index).1)
    }

    fn notified(&self) -> Vec<usize> {
        sorted(self.notified.iter().map(|(number, _)| *number))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_event_wakes_all_waiters_when_it_is_set(steps in steps()) {
        let event = Rc::new(Event::new());
        let mut model = Model::default();
        let mut waiters = Waiters::new();
        let mut is_set = false;
        for step in steps {
            match step {
                Step::Wait => {
                    let event = Rc::clone(&event);
                    let (number, polled) = waiters.add(async move { event.wait().await });
                    prop_assert_eq!(polled.is_ready(), is_set);
                    if !is_set {
                        model.waiting.push(number);
                    }
                }
                Step::Poll(index) | Step::Move(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    let is_notified = model.notified().contains(&number);
                    let polled = match step {
                        Step::Move(_) => waiters.move_to_another_task(number),
                        _ => waiters.poll(number),
                    };
                    prop_assert_eq!(polled.is_ready(), is_notified);
                    if is_notified {
                        model.leave(number);
                    }
                }
                Step::Cancel(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    waiters.cancel(number);
                    model.leave(number);
                }
                Step::One | Step::All => {
                    event.set();
                    is_set = true;
                    model.notify_all();
                }
                Step::Clear => {
                    event.clear();
                    is_set = false;
                }
            }
            prop_assert_eq!(event.is_set(), is_set);
            prop_assert_eq!(waiters.woken(), model.notified());
        }
    }

    #[test]
    fn a_notification_reaches_one_waiter_despite_cancellations(steps in steps()) {
        let notify = Rc::new(Notify::new());
        let mut model = Model::default();
        let mut waiters = Waiters::new();
        let mut has_permit = false;
        for step in steps {
            match step {
                Step::Wait => {
                    let notify = Rc::clone(&notify);
                    let (number, polled) = waiters.add(async move { notify.notified().await });
                    prop_assert_eq!(polled.is_ready(), std::mem::take(&mut has_permit));
                    if polled.is_pending() {
                        model.waiting.push(number);
                    }
                }
                Step::Poll(index) | Step::Move(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    let is_notified = model.notified().contains(&number);
                    prop_assert_eq!(waiters.poll(number).is_ready(), is_notified);
                    if is_notified {
                        model.leave(number);
                    }
                }
                Step::Cancel(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    waiters.cancel(number);
                    if model.leave(number) == Some(true) && !model.notify_one_waiter() {
                        has_permit = true;
                    }
                }
                Step::One => {
                    notify.notify_one();
                    has_permit |= !model.notify_one_waiter();
                }
                Step::All => {
                    notify.notify_waiters();
                    model.notify_all();
                }
                Step::Clear => {}
            }
            prop_assert_eq!(waiters.woken(), model.notified());
        }
    }
}
