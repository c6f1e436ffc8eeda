//! `Lock`: a value that one task uses at a time.
//!
//! Only the owner of the lock's one permit has a guard, and only a guard gives access to the value. The `unsafe` of
//! this file relies on that.

use super::permits::Permits;
use crate::task::named;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A value that one task uses at a time, across `await`s: `asyncio.Lock` with the guarded value inside.
///
/// Fair: first in, first out. A task that panics releases the lock. It is for the tasks of one thread (`!Sync`); share
/// it through an [`Rc`]. A value that is not held across an `await` needs no lock: a [`RefCell`](std::cell::RefCell) is
/// enough.
///
/// ```
/// use mainspring::{sleep, spawn, sync::Lock};
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let count = Rc::new(Lock::new(0));
/// let tasks = [(); 3].map(|()| {
///     let count = count.clone();
///     spawn(async move {
///         let mut count = count.lock().await;
///         let before = *count;
///         sleep(Duration::ZERO).await;
///         *count = before + 1;
///     })
/// });
/// for task in tasks {
///     task.await.unwrap();
/// }
/// assert_eq!(*count.lock().await, 3);
/// assert!(!count.locked());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "Mutex")]
pub struct Lock<T: ?Sized> {
    permits: Permits,
    value: UnsafeCell<T>,
}

impl<T> Lock<T> {
    /// A lock that is free.
    pub const fn new(value: T) -> Self {
        Lock { permits: Permits::new(1, 1), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// ```
    /// let lock = mainspring::sync::Lock::new(vec![1]);
    /// lock.try_lock().unwrap().push(2);
    /// assert_eq!(lock.into_inner(), [1, 2]);
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits for the lock, and holds it until the guard is dropped.
    ///
    /// Cancel safety: the lock is not acquired; the place in the queue is lost.
    #[doc(alias = "acquire")]
    pub async fn lock(&self) -> LockGuard<'_, T> {
        self.acquire_permit().await;
        LockGuard { lock: self }
    }

    /// The value, if the lock is free and no task waits for it.
    ///
    /// ```
    /// let lock = mainspring::sync::Lock::new('a');
    /// let guard = lock.try_lock().unwrap();
    /// assert!(lock.locked() && lock.try_lock().is_none());
    /// drop(guard);
    /// assert!(!lock.locked());
    /// ```
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        self.permits.try_acquire(1).ok()?;
        Some(LockGuard { lock: self })
    }

    /// [`lock`](Lock::lock) with a guard that owns a reference to the lock, so that it can move to another task.
    ///
    /// Cancel safety: as [`lock`](Lock::lock).
    ///
    /// ```
    /// # use mainspring::{spawn, sync::Lock};
    /// # use std::rc::Rc;
    /// # mainspring::run(async {
    /// let names = Rc::new(Lock::new(vec!["a"]));
    /// let mut guard = names.clone().lock_owned().await;
    /// spawn(async move { guard.push("b") }).await.unwrap();
    /// assert_eq!(*names.lock().await, ["a", "b"]);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn lock_owned(self: Rc<Self>) -> OwnedLockGuard<T> {
        self.acquire_permit().await;
        OwnedLockGuard { lock: self }
    }

    /// [`try_lock`](Lock::try_lock) with a guard that owns a reference to the lock.
    ///
    /// ```
    /// # use mainspring::sync::Lock;
    /// # use std::rc::Rc;
    /// let lock = Rc::new(Lock::new(1));
    /// let guard = lock.clone().try_lock_owned().unwrap();
    /// assert!(lock.clone().try_lock_owned().is_none());
    /// drop(guard);
    /// assert!(lock.try_lock_owned().is_some());
    /// ```
    pub fn try_lock_owned(self: Rc<Self>) -> Option<OwnedLockGuard<T>> {
        self.permits.try_acquire(1).ok()?;
        Some(OwnedLockGuard { lock: self })
    }

    /// Whether a task holds the lock, or the lock is assigned to a waiter.
    pub fn locked(&self) -> bool {
        self.permits.is_exhausted()
    }

    /// The value. An exclusive reference needs no locking.
    ///
    /// ```
    /// let mut lock = mainspring::sync::Lock::new(1);
    /// *lock.get_mut() += 1;
    /// assert_eq!(*lock.try_lock().unwrap(), 2);
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    async fn acquire_permit(&self) {
        // These permits are never closed.
        let _ = named(|| "Lock::lock", self.permits.acquire(1)).await;
    }
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Lock::new(T::default())
    }
}

impl<T> From<T> for Lock<T> {
    fn from(value: T) -> Self {
        Lock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("Lock");
        let waiting = self.permits.waiting();
        match self.try_lock() {
            Some(guard) => lock.field("value", &&*guard),
            None => lock.field("value", &format_args!("<locked>")),
        };
        lock.field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// Access to the value of a [`Lock`]. Dropping it releases the lock. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::sync::Lock;
///
/// # mainspring::run(async {
/// let balance = Lock::new(10);
/// let mut guard = balance.lock().await;
/// *guard -= 3;
/// drop(guard);
/// assert_eq!(*balance.lock().await, 7);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard<'a, T: ?Sized> {
    lock: &'a Lock<T>,
}

/// A [`LockGuard`] that owns a reference to its lock, so that it can move to another task of its thread (`!Send`).
///
/// ```
/// use mainspring::sync::{Lock, OwnedLockGuard};
/// use std::rc::Rc;
///
/// /// Exclusive access to a log, as long as this exists.
/// struct Session {
///     log: OwnedLockGuard<Vec<String>>,
/// }
///
/// # mainspring::run(async {
/// let log = Rc::new(Lock::new(Vec::new()));
/// let mut session = Session { log: log.clone().lock_owned().await };
/// session.log.push("hello".to_owned());
/// assert!(log.locked());
/// drop(session);
/// assert_eq!(*log.lock().await, ["hello"]);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping the guard releases the lock"]
pub struct OwnedLockGuard<T: ?Sized> {
    lock: Rc<Lock<T>>,
}

/// A guard that [`Condition::wait`](super::Condition::wait) can release and acquire again: [`LockGuard`] or
/// [`OwnedLockGuard`].
///
/// ```
/// use mainspring::sync::{AnyLockGuard, Condition, Lock};
///
/// /// Waits for an item, with either kind of guard.
/// async fn next<G>(guard: G, is_filled: &Condition) -> Option<u32>
/// where
///     G: AnyLockGuard<Target = Vec<u32>>,
/// {
///     is_filled.wait_for(guard, |items| !items.is_empty()).await.pop()
/// }
///
/// # mainspring::run(async {
/// let (items, is_filled) = (Lock::new(vec![7]), Condition::new());
/// assert_eq!(next(items.lock().await, &is_filled).await, Some(7));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub trait AnyLockGuard: DerefMut + sealed::Relock {}

impl<T: ?Sized> AnyLockGuard for LockGuard<'_, T> {}
impl<T: ?Sized> AnyLockGuard for OwnedLockGuard<T> {}

mod sealed {
    /// How a guard is released and acquired again.
    pub trait Relock: Sized {
        type Unlocked;

        fn unlock(self) -> Self::Unlocked;

        fn relock(unlocked: Self::Unlocked) -> impl Future<Output = Self>;
    }
}

impl<'a, T: ?Sized> sealed::Relock for LockGuard<'a, T> {
    type Unlocked = &'a Lock<T>;

    fn unlock(self) -> &'a Lock<T> {
        self.lock
    }

    fn relock(lock: &'a Lock<T>) -> impl Future<Output = Self> {
        lock.lock()
    }
}

impl<T: ?Sized> sealed::Relock for OwnedLockGuard<T> {
    type Unlocked = Rc<Lock<T>>;

    fn unlock(self) -> Rc<Lock<T>> {
        Rc::clone(&self.lock)
    }

    fn relock(lock: Rc<Lock<T>>) -> impl Future<Output = Self> {
        lock.lock_owned()
    }
}

macro_rules! guard {
    ([$($generics:tt)*] $guard:ty) => {
        impl<$($generics)* T: ?Sized> Deref for $guard {
            type Target = T;

            fn deref(&self) -> &T {
                // SAFETY: this guard has the only permit of the lock until it is dropped, so no other guard exists.
                // `get_mut` and `into_inner` need the lock itself, which the guard borrows or shares. The lock is not
                // `Sync`, so all of this is on one thread.
                unsafe { &*self.lock.value.get() }
            }
        }

        impl<$($generics)* T: ?Sized> DerefMut for $guard {
            fn deref_mut(&mut self) -> &mut T {
                // SAFETY: as in `deref`. The guard itself is borrowed mutably, so this reference is the only one.
                unsafe { &mut *self.lock.value.get() }
            }
        }

        impl<$($generics)* T: ?Sized> Drop for $guard {
            fn drop(&mut self) {
                self.lock.permits.release(1);
            }
        }

        impl<$($generics)* T: ?Sized + fmt::Debug> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<$($generics)* T: ?Sized + fmt::Display> fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

guard!(['a,] LockGuard<'a, T>);
guard!([] OwnedLockGuard<T>);
