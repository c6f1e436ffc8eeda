//! Semaphore, Lock and RwLock: permits are granted in order.

use crate::support::{Waiters, sorted};
use mainspring::sync::{
    Lock, OwnedLockGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// A primitive that grants permits, and may be closed.
trait PermitSource: Clone + 'static {
    type Held: 'static;

    fn acquire(&self, permits: usize) -> Pin<Box<dyn Future<Output = Option<Self::Held>>>>;

    fn try_acquire(&self, permits: usize) -> Option<Self::Held>;

    /// Operations that not every primitive has. Returns `false` if this one lacks it.
    fn special(&self, special: Special) -> bool;

    /// Whether the primitive reports as many permits, as far as its API shows them.
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
    Cancel(Index),
    DropPermit(Index),
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
        3 => any::<Index>().prop_map(Step::Cancel),
        6 => any::<Index>().prop_map(Step::DropPermit),
        1 => special.prop_map(Step::Special),
    ];
    prop::collection::vec(step, 1..100)
}

struct Model {
    available: usize,
    is_closed: bool,
    /// Waiters in order of arrival, with the permits they request.
    waiting: Vec<(usize, usize)>,
    /// Woken waiters with their permits; `None` if the primitive was closed.
    woken_waiters: BTreeMap<usize, Option<usize>>,
}

impl Model {
    fn grant(&mut self) {
        while let Some(&(number, permits)) = self.waiting.first()
            && permits <= self.available
        {
            self.waiting.remove(0);
            self.available -= permits;
            self.woken_waiters.insert(number, Some(permits));
        }
    }

    fn take(&mut self, permits: usize) -> bool {
        let can = !self.is_closed && self.waiting.is_empty() && permits <= self.available;
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
                self.woken_waiters.extend(self.waiting.drain(..).map(|(number, _)| (number, None)));
            }
        }
        self.grant();
    }
}

fn check<L: PermitSource>(source: L, available: usize, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut model =
        Model { available, is_closed: false, waiting: Vec::new(), woken_waiters: BTreeMap::new() };
    let mut waiters = Waiters::new();
    let mut held: Vec<(usize, L::Held)> = Vec::new();
    for step in steps {
        match step {
            Step::Acquire(permits) => {
                let (number, polled) = waiters.add(source.acquire(permits));
                match polled {
                    Poll::Ready(Some(held_now)) => {
                        prop_assert!(model.take(permits));
                        held.push((permits, held_now));
                    }
                    Poll::Ready(None) => prop_assert!(model.is_closed),
                    Poll::Pending => {
                        prop_assert!(!model.is_closed && !model.take(permits));
                        model.waiting.push((number, permits));
                    }
                }
            }
            Step::TryAcquire(permits) => {
                let got = source.try_acquire(permits);
                prop_assert_eq!(got.is_some(), model.take(permits));
                held.extend(got.map(|got| (permits, got)));
            }
            Step::Poll(index) | Step::Move(index) => {
                let Some(number) = waiters.pick(index) else { continue };
                let polled = match step {
                    Step::Move(_) => waiters.move_to_another_task(number),
                    _ => waiters.poll(number),
                };
                match (polled, model.woken_waiters.remove(&number)) {
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
            Step::Cancel(index) => {
                let Some(number) = waiters.pick(index) else { continue };
                waiters.cancel(number);
                model.waiting.retain(|(other, _)| *other != number);
                model.available += model.woken_waiters.remove(&number).flatten().unwrap_or(0);
                model.grant();
            }
            Step::DropPermit(index) if !held.is_empty() => {
                let (permits, guard) = held.remove(index.index(held.len()));
                drop(guard);
                model.available += permits;
                model.grant();
            }
            Step::DropPermit(_) => {}
            Step::Special(special) => {
                if source.special(special) {
                    model.special(special);
                }
            }
        }
        prop_assert_eq!(waiters.woken(), sorted(model.woken_waiters.keys().copied()));
        prop_assert!(source.agrees(model.available, !model.waiting.is_empty()));
    }
    Ok(())
}

impl PermitSource for Rc<Semaphore> {
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

impl PermitSource for Rc<Lock<()>> {
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

/// The permits of a writer, in the model.
const ALL: usize = 1000;

#[expect(dead_code, reason = "held, to be dropped")]
enum Access {
    Read(RwLockReadGuard<'static, ()>),
    Write(RwLockWriteGuard<'static, ()>),
}

impl PermitSource for &'static RwLock<()> {
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
    fn a_semaphore_grants_permits_in_order(available in 0..4usize, steps in steps(0..4usize)) {
        check(Rc::new(Semaphore::new(available)), available, steps)?;
    }

    #[test]
    fn a_lock_is_granted_in_order(steps in steps(Just(1))) {
        check(Rc::new(Lock::new(())), 1, steps)?;
    }

    #[test]
    fn an_rwlock_is_granted_in_order(steps in steps(prop_oneof![2 => Just(1), 1 => Just(ALL)])) {
        test_support::meant_from_here();
        let lock: &'static RwLock<()> = Box::leak(Box::new(RwLock::new(())));
        check(lock, ALL, steps)?;
    }
}
