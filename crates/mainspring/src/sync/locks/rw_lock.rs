//! `RwLock`: a value that many tasks read or one changes.
//!
//! A reader has one permit, a writer has all. The `unsafe` of this file relies on that.

use super::permits::Permits;
use crate::task::named;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

const MAX_READERS: usize = usize::MAX;

/// A value that many tasks read or one changes, across `await`s, as tokio's `RwLock`. asyncio has no equivalent.
///
/// Fair: readers that arrive after a writer wait for it. So a task that holds a read guard must not wait for a second
/// one: a writer may wait in between. It is for the tasks of one thread (`!Sync`); share it through an
/// [`Rc`](std::rc::Rc).
///
/// ```
/// use mainspring::sync::RwLock;
///
/// # mainspring::run(async {
/// let lock = RwLock::new(1);
/// {
///     let (one, other) = (lock.read().await, lock.read().await);
///     assert_eq!(*one + *other, 2);
///     assert!(lock.try_write().is_none());
/// }
/// let mut writer = lock.write().await;
/// *writer += 1;
/// assert!(lock.try_read().is_none());
/// assert_eq!(*writer.downgrade(), 2);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct RwLock<T: ?Sized> {
    permits: Permits,
    value: UnsafeCell<T>,
}

impl<T> RwLock<T> {
    /// A lock that is free.
    pub const fn new(value: T) -> Self {
        RwLock { permits: Permits::new(MAX_READERS, MAX_READERS), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// ```
    /// let lock = mainspring::sync::RwLock::new('a');
    /// *lock.try_write().unwrap() = 'b';
    /// assert_eq!(lock.into_inner(), 'b');
    /// ```
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no task changes the value and all earlier waiters were served.
    ///
    /// Cancel safety: nothing is acquired; the place in the queue is lost.
    pub async fn read(&self) -> RwLockReadGuard<'_, T> {
        // These permits are never closed.
        let _ = named(|| "RwLock::read", self.permits.acquire(1)).await;
        RwLockReadGuard { lock: self }
    }

    /// Waits until no task reads or changes the value and all earlier waiters were served.
    ///
    /// Cancel safety: as [`read`](RwLock::read).
    pub async fn write(&self) -> RwLockWriteGuard<'_, T> {
        let _ = named(|| "RwLock::write", self.permits.acquire(MAX_READERS)).await;
        RwLockWriteGuard { lock: self }
    }

    /// Read access, if no task changes the value or waits to.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.permits.try_acquire(1).ok()?;
        Some(RwLockReadGuard { lock: self })
    }

    /// Write access, if no task holds the lock or waits for it.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.permits.try_acquire(MAX_READERS).ok()?;
        Some(RwLockWriteGuard { lock: self })
    }

    /// The value. An exclusive reference needs no locking.
    ///
    /// ```
    /// let mut lock = mainspring::sync::RwLock::new('a');
    /// *lock.get_mut() = 'b';
    /// assert_eq!(*lock.try_read().unwrap(), 'b');
    /// ```
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lock = f.debug_struct("RwLock");
        let waiting = self.permits.waiting();
        match self.try_read() {
            Some(guard) => lock.field("value", &&*guard),
            None => lock.field("value", &format_args!("<locked>")),
        };
        lock.field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// Read access to the value of a [`RwLock`]. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::sync::{RwLock, RwLockReadGuard};
///
/// fn total(prices: &RwLockReadGuard<'_, Vec<u32>>) -> u32 {
///     prices.iter().sum()
/// }
///
/// # mainspring::run(async {
/// let prices = RwLock::new(vec![1, 2]);
/// assert_eq!(total(&prices.read().await), 3);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping the guard releases the lock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

/// Write access to the value of a [`RwLock`]. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::sync::RwLock;
///
/// # mainspring::run(async {
/// let prices = RwLock::new(vec![1, 2]);
/// let mut writer = prices.write().await;
/// writer.push(3);
/// assert!(prices.try_read().is_none());
/// drop(writer);
/// assert_eq!(prices.read().await.len(), 3);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping the guard releases the lock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Downgrades to read access. No other writer gets the lock in between; other readers may.
    ///
    /// ```
    /// let lock = mainspring::sync::RwLock::new(1);
    /// let mut writer = lock.try_write().unwrap();
    /// *writer = 2;
    /// let reader = writer.downgrade();
    /// assert_eq!(*lock.try_read().unwrap(), 2);
    /// assert!(lock.try_write().is_none());
    /// # drop(reader);
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let lock = self.lock;
        // One permit stays with the reader. Waking runs foreign code and may panic, so the reader is made first.
        std::mem::forget(self);
        let reader = RwLockReadGuard { lock };
        lock.permits.release(MAX_READERS - 1);
        reader
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard has a permit, so no writer has all of them, and only writers give mutable access. The
        // lock is not `Sync`, so all of this is on one thread.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard has all permits, so no other guard exists. The lock is not `Sync`, so all of this is on
        // one thread.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`. The guard itself is borrowed mutably, so this reference is the only one.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.permits.release(1);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.permits.release(MAX_READERS);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
