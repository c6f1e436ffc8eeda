//! Semaphore, Lock and RwLock: what is lent out in order.

use crate::support::{Crowd, sorted};
use mainspring::sync::{
    Lock, OwnedLockGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// What is tested: it lends `permits` out, or is closed.
trait Lender: Clone + 'static {
    type Held: 'static;

    fn acquire(&self, permits: usize) -> Pin<Box<dyn Future<Output = Option<Self::Held>>>>;

    fn try_acquire(&self, permits: usize) -> Option<Self::Held>;

    /// What differs between the lenders. `false` if the lender has no such thing.
    fn special(&self, special: Special) -> bool;

    /// How many permits there are, as far as one can tell.
    fn agrees(&self, available: usize, is_any_waiting: bool) -> bool;
}

#[derive(Clone, Copy, Debug)]
enum Special {
    Release(usize),
    Forget(usize),
    Close,
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(usize),
    TryAcquire(usize),
    Poll(Index),
    Move(Index),
    GiveUp(Index),
    GiveBack(Index),
    Special(Special),
}

fn steps(permits: impl Strategy<Value = usize> + Clone + 'static) -> impl Strategy<Value = Vec<Step>> {
    let special = prop_oneof![
        6 => (0..3usize).prop_map(Special::Release),
        3 => (0..3usize).prop_map(Special::Forget),
        1 => Just(Special::Close),
    ];
    let step = prop_oneof![
        8 => permits.clone().prop_map(Step::Acquire),
        3 => permits.prop_map(Step::TryAcquire),
        5 => any::<Index>().prop_map(Step::Poll),
        1 => any::<Index>().prop_map(Step::Move),
        3 => any::<Index>().prop_map(Step::GiveUp),
        6 => any::<Index>().prop_map(Step::GiveBack),
        1 => special.prop_map(Step::Special),
    ];
    prop::collection::vec(step, 1..100)
}

struct Model {
    available: usize,
    is_closed: bool,
    /// In the order they came, with what they want.
    line: Vec<(usize, usize)>,
    /// Whose turn it is, with what is theirs; nothing if the lender was closed.
    chosen: BTreeMap<usize, Option<usize>>,
}

impl Model {
    fn serve(&mut self) {
        while let Some(&(number, permits)) = self.line.first()
            && permits <= self.available
        {
            self.line.remove(0);
            self.available -= permits;
            self.chosen.insert(number, Some(permits));
        }
    }

    fn take(&mut self, permits: usize) -> bool {
        let can = !self.is_closed && self.line.is_empty() && permits <= self.available;
        if can {
            self.available -= permits;
        }
        can
    }

    fn special(&mut self, special: Special) {
        match special {
            Special::Release(permits) => self.available += permits,
            Special::Forget(permits) => self.available -= permits.min(self.available),
            Special::Close => {
                self.is_closed = true;
                self.chosen.extend(self.line.drain(..).map(|(number, _)| (number, None)));
            }
        }
        self.serve();
    }
}

fn check<L: Lender>(lender: L, available: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model = Model { available, is_closed: false, line: Vec::new(), chosen: BTreeMap::new() };
    let mut crowd = Crowd::new();
    let mut held: Vec<(usize, L::Held)> = Vec::new();
    for step in steps {
        match step {
            Step::Acquire(permits) => {
                let (number, polled) = crowd.add(lender.acquire(permits));
                match polled {
                    Poll::Ready(Some(held_now)) => {
                        prop_assert!(model.take(permits));
                        held.push((permits, held_now));
                    }
                    Poll::Ready(None) => prop_assert!(model.is_closed),
                    Poll::Pending => {
                        prop_assert!(!model.is_closed && !model.take(permits));
                        model.line.push((number, permits));
                    }
                }
            }
            Step::TryAcquire(permits) => {
                let got = lender.try_acquire(permits);
                prop_assert_eq!(got.is_some(), model.take(permits));
                held.extend(got.map(|got| (permits, got)));
            }
            Step::Poll(index) | Step::Move(index) => {
                let Some(number) = crowd.pick(index) else { continue };
                let polled = match step {
                    Step::Move(_) => crowd.move_to_another_task(number),
                    _ => crowd.poll(number),
                };
                match (polled, model.chosen.remove(&number)) {
                    (Poll::Pending, None) | (Poll::Ready(None), Some(None)) => {}
                    (Poll::Ready(Some(got)), Some(Some(permits))) => held.push((permits, got)),
                    (polled, expected) => {
                        prop_assert!(
                            false,
                            "{number}: {:?}, not {expected:?}",
                            polled.map(|got| got.is_some())
                        );
                    }
                }
            }
            Step::GiveUp(index) => {
                let Some(number) = crowd.pick(index) else { continue };
                crowd.give_up(number);
                model.line.retain(|(other, _)| *other != number);
                model.available += model.chosen.remove(&number).flatten().unwrap_or(0);
                model.serve();
            }
            Step::GiveBack(index) if !held.is_empty() => {
                let (permits, guard) = held.remove(index.index(held.len()));
                drop(guard);
                model.available += permits;
                model.serve();
            }
            Step::GiveBack(_) => {}
            Step::Special(special) => {
                if lender.special(special) {
                    model.special(special);
                }
            }
        }
        prop_assert_eq!(crowd.woken(), sorted(model.chosen.keys().copied()));
        prop_assert!(lender.agrees(model.available, !model.line.is_empty()));
    }
    Ok(())
}

impl Lender for Rc<Semaphore> {
    type Held = OwnedSemaphorePermit;

    fn acquire(&self, permits: usize) -> Pin<Box<dyn Future<Output = Option<Self::Held>>>> {
        let semaphore = Rc::clone(self);
        Box::pin(async move { semaphore.acquire_many_owned(permits).await.ok() })
    }

    fn try_acquire(&self, permits: usize) -> Option<Self::Held> {
        Rc::clone(self).try_acquire_many_owned(permits).ok()
    }

    fn special(&self, special: Special) -> bool {
        match special {
            Special::Release(permits) => self.release(permits).unwrap(),
            Special::Forget(permits) => drop(self.forget_permits(permits)),
            Special::Close => self.close(),
        }
        true
    }

    fn agrees(&self, available: usize, is_any_waiting: bool) -> bool {
        self.available_permits() == available && self.locked() == (available == 0 || is_any_waiting)
    }
}

impl Lender for Rc<Lock<()>> {
    type Held = OwnedLockGuard<()>;

    fn acquire(&self, _: usize) -> Pin<Box<dyn Future<Output = Option<Self::Held>>>> {
        let lock = Rc::clone(self);
        Box::pin(async move { Some(lock.lock_owned().await) })
    }

    fn try_acquire(&self, _: usize) -> Option<Self::Held> {
        Rc::clone(self).try_lock_owned()
    }

    fn special(&self, _: Special) -> bool {
        false
    }

    fn agrees(&self, available: usize, is_any_waiting: bool) -> bool {
        self.locked() == (available == 0 || is_any_waiting)
    }
}

/// What a writer takes, in the model.
const ALL: usize = 1000;

#[expect(dead_code, reason = "held, to be dropped")]
enum Access {
    Read(RwLockReadGuard<'static, ()>),
    Write(RwLockWriteGuard<'static, ()>),
}

impl Lender for &'static RwLock<()> {
    type Held = Access;

    fn acquire(&self, permits: usize) -> Pin<Box<dyn Future<Output = Option<Access>>>> {
        let lock = *self;
        match permits {
            ALL => Box::pin(async move { Some(Access::Write(lock.write().await)) }),
            _ => Box::pin(async move { Some(Access::Read(lock.read().await)) }),
        }
    }

    fn try_acquire(&self, permits: usize) -> Option<Access> {
        if permits == ALL { self.try_write().map(Access::Write) } else { self.try_read().map(Access::Read) }
    }

    fn special(&self, _: Special) -> bool {
        false
    }

    fn agrees(&self, available: usize, is_any_waiting: bool) -> bool {
        self.try_read().is_some() == (available > 0 && !is_any_waiting)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_semaphore_lends_in_order(available in 0..4usize, steps in steps(0..4usize)) {
        check(Rc::new(Semaphore::new(available)), available, steps)?;
    }

    #[test]
    fn a_lock_is_lent_in_order(steps in steps(Just(1))) {
        check(Rc::new(Lock::new(())), 1, steps)?;
    }

    #[test]
    fn a_lock_for_readers_and_writers_is_lent_in_order(steps in steps(prop_oneof![2 => Just(1), 1 => Just(ALL)])) {
        test_support::meant_from_here();
        let lock: &'static RwLock<()> = Box::leak(Box::new(RwLock::new(())));
        check(lock, ALL, steps)?;
    }
}
