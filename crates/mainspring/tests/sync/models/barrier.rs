//! Barrier: which waiters pass, and with which index.

use crate::support::{Waiters, sorted};
use mainspring::sync::{Barrier, BrokenBarrierError};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;

#[derive(Clone, Debug)]
enum Step {
    Wait,
    Poll(Index),
    Cancel(Index),
    Reset,
    Abort,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Wait),
        4 => any::<Index>().prop_map(Step::Poll),
        2 => any::<Index>().prop_map(Step::Cancel),
        2 => Just(Step::Reset),
        1 => Just(Step::Abort),
    ];
    prop::collection::vec(step, 1..100)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_barrier_releases_exactly_its_number_of_parties(parties in 1..5usize, steps in steps()) {
        let barrier = Rc::new(Barrier::new(parties));
        let mut waiters = Waiters::new();
        let mut waiting: Vec<usize> = Vec::new();
        let mut answers: BTreeMap<usize, Result<usize, BrokenBarrierError>> = BTreeMap::new();
        let mut is_broken = false;
        for step in steps {
            match step {
                Step::Wait => {
                    let subject = Rc::clone(&barrier);
                    let (number, polled) = waiters.add(async move { subject.wait().await });
                    if is_broken {
                        prop_assert_eq!(polled, Poll::Ready(Err(BrokenBarrierError)));
                    } else if waiting.len() + 1 == parties {
                        prop_assert_eq!(polled, Poll::Ready(Ok(parties - 1)));
                        answers.extend(waiting.drain(..).enumerate().map(|(index, number)| (number, Ok(index))));
                    } else {
                        prop_assert_eq!(polled, Poll::Pending);
                        waiting.push(number);
                    }
                }
                Step::Poll(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    let expected = answers.remove(&number).map_or(Poll::Pending, Poll::Ready);
                    prop_assert_eq!(waiters.poll(number), expected);
                }
                Step::Cancel(index) => {
                    let Some(number) = waiters.pick(index) else { continue };
                    waiters.cancel(number);
                    waiting.retain(|other| *other != number);
                    answers.remove(&number);
                }
                Step::Reset | Step::Abort => {
                    is_broken = matches!(step, Step::Abort);
                    if is_broken { barrier.abort() } else { barrier.reset() }
                    answers.extend(waiting.drain(..).map(|number| (number, Err(BrokenBarrierError))));
                }
            }
            prop_assert_eq!(waiters.woken(), sorted(answers.keys().copied()));
            prop_assert_eq!((barrier.n_waiting(), barrier.broken()), (waiting.len(), is_broken));
        }
    }
}
