//! Locks, events, conditions, semaphores and barriers as programs use them.

use crate::support::{PolledFuture, pending, run, run_iterations};
use mainspring::sync::{
    AcquireError, Barrier, Condition, Event, Lock, Notify, OnceCell, ReleasedTooOften, RwLock, Semaphore,
    TryAcquireError,
};
use mainspring::{spawn, timeout};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

#[test]
fn a_lock_is_granted_in_request_order() {
    run(async {
        let lock = Rc::new(Lock::new(Vec::new()));
        let first = lock.clone().lock_owned().await;
        let tasks = [1, 2, 3].map(|number| {
            let lock = lock.clone();
            spawn(async move {
                let mut order = lock.lock().await;
                run_iterations(2).await;
                order.push(number);
            })
        });
        run_iterations(1).await;
        drop(first);
        // The lock is assigned to the next waiter: a newcomer does not get it.
        assert!(lock.locked() && lock.try_lock().is_none());
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*lock.lock().await, [1, 2, 3]);
    });
}

#[test]
fn a_task_cancelled_when_it_gets_the_lock_passes_it_on() {
    run(async {
        let lock = Rc::new(Lock::new(()));
        let guard = lock.clone().lock_owned().await;
        let waits = |lock: &Rc<Lock<()>>| {
            let lock = lock.clone();
            spawn(async move { drop(lock.lock().await) })
        };
        let (one, other) = (waits(&lock), waits(&lock));
        run_iterations(1).await;
        drop(guard);
        one.cancel();
        assert!(one.await.unwrap_err().is_cancelled());
        assert_eq!(other.await, Ok(()));
        assert!(!lock.locked());
    });
}

#[test]
fn a_panic_releases_the_lock() {
    run(async {
        let lock = Rc::new(Lock::new(1));
        let inner = lock.clone();
        let task = spawn(async move {
            let _guard = inner.lock().await;
            panic!("with the lock");
        });
        assert!(task.await.is_err());
        assert_eq!(*lock.lock().await, 1);
    });
}

#[test]
fn debug_and_into_inner_of_a_lock() {
    let mut lock = Lock::new(5);
    *lock.get_mut() += 1;
    assert_eq!(format!("{lock:?}"), "Lock { value: 6, waiting: 0, .. }");
    let guard = lock.try_lock().unwrap();
    assert_eq!(format!("{lock:?} {guard:?} {guard}"), "Lock { value: <locked>, waiting: 0, .. } 6 6");
    drop(guard);
    assert_eq!(lock.into_inner(), 6);
}

#[test]
fn a_lock_may_hold_an_unsized_value() {
    let lock: Rc<Lock<[u8]>> = Rc::new(Lock::new([1, 2, 3]));
    lock.try_lock().unwrap()[0] = 9;
    assert_eq!(lock.clone().try_lock_owned().unwrap()[..], [9, 2, 3]);
}

#[test]
fn readers_share_and_a_waiting_writer_blocks_new_readers() {
    test_support::meant_from_here();
    let lock: &'static RwLock<i32> = Box::leak(Box::new(RwLock::new(0)));
    let (one, two) = (lock.try_read().unwrap(), lock.try_read().unwrap());
    let mut writer = pending(async { *lock.write().await += 1 });
    assert!(lock.try_read().is_none());
    let mut reader = pending(async { *lock.read().await });
    drop(one);
    assert!(!writer.is_woken());
    drop(two);
    assert!(writer.is_woken() && !reader.is_woken());
    assert_eq!(writer.poll(), Poll::Ready(()));
    assert_eq!(reader.poll(), Poll::Ready(1));
}

#[test]
fn a_downgraded_writer_admits_readers_but_no_writer() {
    test_support::meant_from_here();
    let lock: &'static RwLock<i32> = Box::leak(Box::new(RwLock::new(0)));
    let writer = lock.try_write().unwrap();
    let reader = pending(async { *lock.read().await });
    let second = pending(async { *lock.write().await += 1 });
    let downgraded = writer.downgrade();
    assert!(reader.is_woken() && !second.is_woken());
    drop((reader, downgraded));
    assert!(second.is_woken());
}

#[test]
fn an_event_cleared_at_once_still_wakes_its_waiters() {
    let event = Rc::new(Event::new());
    let waits = event.clone();
    let mut waiting = pending(async move { waits.wait().await });
    event.set();
    event.clear();
    assert!(waiting.poll().is_ready());
    let waits = event.clone();
    assert!(PolledFuture::new(async move { waits.wait().await }).poll().is_pending());
    assert_eq!(format!("{event:?}"), "Event { set: false, waiting: 0, .. }");
}

#[test]
fn notify_wakes_that_many_waiters_in_order() {
    run(async {
        let shared = Rc::new((Lock::new(0), Condition::new()));
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks = [0, 1, 2].map(|number| {
            let (shared, order) = (shared.clone(), order.clone());
            spawn(async move {
                let guard = shared.0.lock().await;
                let guard = shared.1.wait(guard).await;
                order.borrow_mut().push((number, *guard));
            })
        });
        run_iterations(4).await;
        {
            let mut value = shared.0.lock().await;
            *value = 1;
            shared.1.notify(2);
        }
        run_iterations(4).await;
        assert_eq!(*order.borrow(), [(0, 1), (1, 1)]);
        *shared.0.lock().await = 2;
        shared.1.notify_all();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.borrow(), [(0, 1), (1, 1), (2, 2)]);
    });
}

#[test]
fn a_cancelled_condition_wait_holds_no_lock() {
    run(async {
        let (lock, condition) = (Lock::new(()), Condition::new());
        let guard = lock.lock().await;
        assert!(timeout(Duration::ZERO, condition.wait(guard)).await.is_err());
        assert!(!lock.locked());
        assert_eq!(format!("{condition:?}"), "Condition { waiting: 0, .. }");
    });
}

#[test]
fn a_condition_accepts_owned_guards() {
    run(async {
        let shared = Rc::new((Rc::new(Lock::new(0)), Condition::new()));
        let other = shared.clone();
        let task = spawn(async move {
            let guard = other.0.clone().lock_owned().await;
            *other.1.wait_for(guard, |value| *value == 3).await
        });
        for _ in 0..3 {
            *shared.0.lock().await += 1;
            shared.1.notify(1);
            run_iterations(3).await;
        }
        assert_eq!(task.await, Ok(3));
    });
}

#[test]
fn a_large_request_is_not_overtaken_by_smaller_ones() {
    let semaphore = Rc::new(Semaphore::new(2));
    let held = semaphore.try_acquire().unwrap();
    let many = pending(semaphore.clone().acquire_many_owned(2));
    let few = pending(semaphore.clone().acquire_owned());
    assert_eq!(semaphore.try_acquire().err(), Some(TryAcquireError::NoPermits));
    drop(held);
    assert!(many.is_woken() && !few.is_woken());
    // Cancelling the large request unblocks the smaller ones.
    drop(many);
    assert!(few.is_woken());
}

#[test]
fn a_closed_semaphore_refuses_waiters_and_new_requests() {
    let semaphore = Rc::new(Semaphore::new(1));
    let permit = semaphore.clone().try_acquire_owned().unwrap();
    let mut waiting = pending(semaphore.clone().acquire_owned());
    semaphore.close();
    assert!(matches!(waiting.poll(), Poll::Ready(Err(AcquireError))));
    assert_eq!(semaphore.try_acquire().err(), Some(TryAcquireError::Closed));
    drop(permit);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_bounded_semaphore_refuses_releases_beyond_its_bound() {
    let semaphore = Semaphore::bounded(2);
    let both = semaphore.try_acquire_many(2).unwrap();
    semaphore.release(1).unwrap();
    drop(both);
    assert_eq!(semaphore.available_permits(), 2);
    assert_eq!(semaphore.release(1), Err(ReleasedTooOften));
    let most = Semaphore::new(usize::MAX);
    assert_eq!(most.release(1), Err(ReleasedTooOften));
}

#[test]
fn a_barrier_needs_at_least_one_party_and_is_reusable() {
    run(async {
        assert_eq!(Barrier::new(0).wait().await, Ok(0));
        let barrier = Rc::new(Barrier::new(2));
        for _ in 0..3 {
            let other = barrier.clone();
            let task = spawn(async move { other.wait().await });
            run_iterations(1).await;
            assert_eq!(barrier.n_waiting(), 1);
            assert_eq!(barrier.wait().await, Ok(1));
            assert_eq!(task.await.unwrap(), Ok(0));
        }
        assert_eq!(format!("{barrier:?}"), "Barrier { parties: 2, waiting: 0, broken: false, .. }");
    });
}

#[test]
fn notify_waiters_wakes_futures_created_before_it_even_if_unpolled() {
    test_support::meant_from_here();
    let notify: &'static Notify = Box::leak(Box::default());
    let mut early = PolledFuture::new(notify.notified());
    notify.notify_waiters();
    assert!(early.poll().is_ready());
    assert!(PolledFuture::new(notify.notified()).poll().is_pending());
    notify.notify_one();
    notify.notify_one();
    assert!(PolledFuture::new(notify.notified()).poll().is_ready());
    assert!(PolledFuture::new(notify.notified()).poll().is_pending());
}

#[test]
fn a_once_cell_is_initialised_by_the_next_when_the_first_fails_or_is_cancelled() {
    let cell = Rc::new(OnceCell::new());
    let (one, two, three) = (cell.clone(), cell.clone(), cell.clone());
    let first = pending(async move { *one.get_or_init(async || std::future::pending::<i32>().await).await });
    let mut second = pending(async move { two.get_or_try_init(async || Err("no")).await.copied() });
    let mut third = pending(async move { *three.get_or_init(async || 3).await });
    drop(first);
    assert!(second.is_woken() && !third.is_woken());
    assert_eq!(second.poll(), Poll::Ready(Err("no")));
    assert_eq!(third.poll(), Poll::Ready(3));
    assert_eq!((cell.get(), cell.set(4)), (Some(&3), Err(4)));
}

#[test]
fn a_once_cell_set_during_initialisation_keeps_the_set_value() {
    let cell = Rc::new(OnceCell::new());
    let inner = cell.clone();
    let mut making = PolledFuture::new(async move {
        let set = inner.clone();
        *inner.get_or_init(async || set.set(1).map_or(0, |()| 2)).await
    });
    assert_eq!(making.poll(), Poll::Ready(1));
    drop(making);
    assert_eq!(Rc::into_inner(cell).and_then(OnceCell::into_inner), Some(1));
}
