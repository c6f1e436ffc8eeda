//! Event and Notify: who is told.

use crate::support::{Crowd, sorted};
use mainspring::sync::{Event, Notify};
use proptest::prelude::*;
use proptest::sample::Index;
use std::rc::Rc;

#[derive(Clone, Debug)]
enum Step {
    Wait,
    Poll(Index),
    Move(Index),
    GiveUp(Index),
    One,
    All,
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Wait),
        4 => any::<Index>().prop_map(Step::Poll),
        1 => any::<Index>().prop_map(Step::Move),
        3 => any::<Index>().prop_map(Step::GiveUp),
        4 => Just(Step::One),
        1 => Just(Step::All),
        2 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..100)
}

/// Who waits, and who was told; with whether that was for this one alone.
#[derive(Default)]
struct Model {
    line: Vec<usize>,
    told: Vec<(usize, bool)>,
}

impl Model {
    fn tell_all(&mut self) {
        self.told.extend(self.line.drain(..).map(|number| (number, false)));
    }

    fn tell_one(&mut self) -> bool {
        let is_one = !self.line.is_empty();
        if is_one {
            self.told.push((self.line.remove(0), true));
        }
        is_one
    }

    /// Whether it was told, and alone.
    fn leave(&mut self, number: usize) -> Option<bool> {
        self.line.retain(|other| *other != number);
        let index = self.told.iter().position(|(other, _)| *other == number)?;
        Some(self.told.remove(index).1)
    }

    fn told(&self) -> Vec<usize> {
        sorted(self.told.iter().map(|(number, _)| *number))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_event_tells_all_who_wait_when_it_is_set(steps in steps()) {
        let event = Rc::new(Event::new());
        let mut model = Model::default();
        let mut crowd = Crowd::new();
        let mut is_set = false;
        for step in steps {
            match step {
                Step::Wait => {
                    let event = Rc::clone(&event);
                    let (number, polled) = crowd.add(async move { event.wait().await });
                    prop_assert_eq!(polled.is_ready(), is_set);
                    if !is_set {
                        model.line.push(number);
                    }
                }
                Step::Poll(index) | Step::Move(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    let is_told = model.told().contains(&number);
                    let polled = match step {
                        Step::Move(_) => crowd.move_to_another_task(number),
                        _ => crowd.poll(number),
                    };
                    prop_assert_eq!(polled.is_ready(), is_told);
                    if is_told {
                        model.leave(number);
                    }
                }
                Step::GiveUp(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    crowd.give_up(number);
                    model.leave(number);
                }
                Step::One | Step::All => {
                    event.set();
                    is_set = true;
                    model.tell_all();
                }
                Step::Clear => {
                    event.clear();
                    is_set = false;
                }
            }
            prop_assert_eq!(event.is_set(), is_set);
            prop_assert_eq!(crowd.woken(), model.told());
        }
    }

    #[test]
    fn a_notification_reaches_one_whoever_gives_up(steps in steps()) {
        let notify = Rc::new(Notify::new());
        let mut model = Model::default();
        let mut crowd = Crowd::new();
        let mut is_kept = false;
        for step in steps {
            match step {
                Step::Wait => {
                    let notify = Rc::clone(&notify);
                    let (number, polled) = crowd.add(async move { notify.notified().await });
                    prop_assert_eq!(polled.is_ready(), std::mem::take(&mut is_kept));
                    if polled.is_pending() {
                        model.line.push(number);
                    }
                }
                Step::Poll(index) | Step::Move(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    let is_told = model.told().contains(&number);
                    prop_assert_eq!(crowd.poll(number).is_ready(), is_told);
                    if is_told {
                        model.leave(number);
                    }
                }
                Step::GiveUp(index) => {
                    let Some(number) = crowd.pick(index) else { continue };
                    crowd.give_up(number);
                    if model.leave(number) == Some(true) && !model.tell_one() {
                        is_kept = true;
                    }
                }
                Step::One => {
                    notify.notify_one();
                    is_kept |= !model.tell_one();
                }
                Step::All => {
                    notify.notify_waiters();
                    model.tell_all();
                }
                Step::Clear => {}
            }
            prop_assert_eq!(crowd.woken(), model.told());
        }
    }
}
