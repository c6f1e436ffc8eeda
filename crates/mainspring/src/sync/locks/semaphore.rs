//! `Semaphore`: limits how many tasks do something at the same time.

use super::permits::{AcquireError, Permits, TryAcquireError};
use crate::task::named;
use std::fmt;
use std::rc::Rc;

/// Limits how many tasks do something at the same time, as `asyncio.Semaphore` and `asyncio.BoundedSemaphore`.
///
/// Fair: permits are granted first in, first out. A request for fewer permits does not overtake. It is for the tasks of
/// one thread (`!Sync`); share it through an [`Rc`].
///
/// ```
/// use mainspring::{sleep, spawn, sync::Semaphore};
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let two_at_a_time = Rc::new(Semaphore::new(2));
/// let tasks = [(); 5].map(|()| {
///     let semaphore = two_at_a_time.clone();
///     spawn(async move {
///         let _permit = semaphore.acquire().await;
///         sleep(Duration::ZERO).await;
///         semaphore.available_permits()
///     })
/// });
/// for task in tasks {
///     assert!(task.await.unwrap() < 2);
/// }
/// assert_eq!(two_at_a_time.available_permits(), 2);
/// assert!(!two_at_a_time.locked() && !two_at_a_time.is_closed());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "BoundedSemaphore")]
pub struct Semaphore {
    permits: Permits,
}

/// A release would exceed the bound of a bounded semaphore.
///
/// ```
/// use mainspring::sync::Semaphore;
///
/// let connections = Semaphore::bounded(10);
/// let refused = connections.release(1).unwrap_err();
/// assert_eq!(refused.to_string(), "the semaphore was released too often");
/// assert_eq!(connections.available_permits(), 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedTooOften;

impl fmt::Display for ReleasedTooOften {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore was released too often")
    }
}

impl std::error::Error for ReleasedTooOften {}

impl Semaphore {
    /// A semaphore with `value` permits. [`release`](Semaphore::release) can add any number.
    pub const fn new(value: usize) -> Self {
        Semaphore { permits: Permits::new(value, usize::MAX) }
    }

    /// A semaphore that starts with `value` permits and never has more.
    ///
    /// ```
    /// use mainspring::sync::{ReleasedTooOften, Semaphore};
    ///
    /// let semaphore = Semaphore::bounded(1);
    /// assert_eq!(semaphore.release(1), Err(ReleasedTooOften));
    /// semaphore.try_acquire().unwrap().forget();
    /// assert_eq!(semaphore.release(1), Ok(()));
    /// ```
    pub const fn bounded(value: usize) -> Self {
        Semaphore { permits: Permits::new(value, value) }
    }

    /// Waits for a permit. Dropping the permit releases it. [`AcquireError`] if the semaphore is closed.
    ///
    /// Cancel safety: no permit is lost; the place in the queue is.
    ///
    /// ```
    /// # use mainspring::sync::Semaphore;
    /// # mainspring::run(async {
    /// let semaphore = Semaphore::new(2);
    /// let permit = semaphore.acquire().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1).await
    }

    /// Waits for `permits` permits. While this request is first in the queue, no other task gets any.
    ///
    /// Cancel safety: as [`acquire`](Semaphore::acquire).
    ///
    /// ```
    /// # use mainspring::sync::Semaphore;
    /// # mainspring::run(async {
    /// let semaphore = Semaphore::new(3);
    /// let two = semaphore.acquire_many(2).await.unwrap();
    /// assert!(semaphore.try_acquire_many(2).is_err());
    /// drop(two);
    /// assert_eq!(semaphore.available_permits(), 3);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        named(|| "Semaphore::acquire", self.permits.acquire(permits)).await?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// A permit if one is available and no task waits. [`TryAcquireError`] is the reason otherwise.
    ///
    /// ```
    /// use mainspring::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire().unwrap();
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::NoPermits);
    /// drop(permit);
    /// assert!(semaphore.try_acquire().is_ok());
    /// ```
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// `permits` permits if they are available and no task waits. [`TryAcquireError`] is the reason otherwise.
    ///
    /// ```
    /// let semaphore = mainspring::sync::Semaphore::new(3);
    /// let two = semaphore.try_acquire_many(2).unwrap();
    /// assert!(semaphore.try_acquire_many(2).is_err());
    /// assert_eq!(two.count(), 2);
    /// ```
    pub fn try_acquire_many(&self, permits: usize) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_acquire(permits)?;
        Ok(SemaphorePermit { semaphore: self, permits })
    }

    /// [`acquire`](Semaphore::acquire) with a permit that owns a reference to the semaphore, so that it can move to
    /// another task.
    ///
    /// Cancel safety: as [`acquire`](Semaphore::acquire).
    ///
    /// ```
    /// # use mainspring::sync::Semaphore;
    /// # use std::rc::Rc;
    /// # mainspring::run(async {
    /// let semaphore = Rc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().acquire_owned().await.unwrap();
    /// mainspring::spawn(async move { drop(permit) });
    /// let _mine = semaphore.acquire().await.unwrap();
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn acquire_owned(self: Rc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1).await
    }

    /// [`acquire_many`](Semaphore::acquire_many) with a permit that owns a reference to the semaphore.
    ///
    /// Cancel safety: as [`acquire`](Semaphore::acquire).
    ///
    /// ```
    /// # use mainspring::sync::Semaphore;
    /// # use std::rc::Rc;
    /// # mainspring::run(async {
    /// let megabytes = Rc::new(Semaphore::new(64));
    /// let permit = megabytes.clone().acquire_many_owned(48).await.unwrap();
    /// assert_eq!(megabytes.available_permits(), 16);
    /// mainspring::spawn(async move { drop(permit) }).await.unwrap();
    /// assert_eq!(megabytes.available_permits(), 64);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn acquire_many_owned(
        self: Rc<Self>,
        permits: usize,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        named(|| "Semaphore::acquire", self.permits.acquire(permits)).await?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits })
    }

    /// [`try_acquire`](Semaphore::try_acquire) with a permit that owns a reference to the semaphore.
    ///
    /// ```
    /// # use mainspring::sync::{Semaphore, TryAcquireError};
    /// # use std::rc::Rc;
    /// let semaphore = Rc::new(Semaphore::new(1));
    /// let permit = semaphore.clone().try_acquire_owned().unwrap();
    /// assert!(semaphore.locked());
    /// assert_eq!(semaphore.clone().try_acquire_owned().unwrap_err(), TryAcquireError::NoPermits);
    /// drop(permit);
    /// assert!(!semaphore.locked());
    /// ```
    pub fn try_acquire_owned(self: Rc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// [`try_acquire_many`](Semaphore::try_acquire_many) with a permit that owns a reference to the semaphore.
    ///
    /// ```
    /// # use mainspring::sync::Semaphore;
    /// # use std::rc::Rc;
    /// let semaphore = Rc::new(Semaphore::new(3));
    /// let two = semaphore.clone().try_acquire_many_owned(2).unwrap();
    /// assert_eq!(two.count(), 2);
    /// assert!(semaphore.clone().try_acquire_many_owned(2).is_err());
    /// ```
    pub fn try_acquire_many_owned(
        self: Rc<Self>,
        permits: usize,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_acquire(permits)?;
        Ok(OwnedSemaphorePermit { semaphore: self, permits })
    }

    /// Adds permits and wakes the waiters that get them. [`ReleasedTooOften`], and adds none, if that would exceed
    /// the bound.
    ///
    /// ```
    /// use mainspring::{spawn, sync::Semaphore};
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// // Counts arrived work.
    /// let arrived = Rc::new(Semaphore::new(0));
    /// let waits = arrived.clone();
    /// let task = spawn(async move { waits.acquire_many(2).await.unwrap().forget() });
    /// arrived.release(1).unwrap();
    /// arrived.release(2).unwrap();
    /// task.await.unwrap();
    /// assert_eq!(arrived.available_permits(), 1);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "add_permits")]
    pub fn release(&self, permits: usize) -> Result<(), ReleasedTooOften> {
        if self.permits.try_add(permits) { Ok(()) } else { Err(ReleasedTooOften) }
    }

    /// Removes up to `permits` available permits for good. Returns how many.
    ///
    /// ```
    /// let semaphore = mainspring::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(2), 2);
    /// assert_eq!(semaphore.forget_permits(2), 1);
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.permits.remove_available(permits)
    }

    /// The number of available permits.
    pub fn available_permits(&self) -> usize {
        self.permits.available()
    }

    /// Whether acquiring a permit would wait.
    pub fn locked(&self) -> bool {
        self.permits.is_exhausted()
    }

    /// Closes the semaphore: current and later waiters get [`AcquireError`]. Acquired permits stay valid.
    ///
    /// ```
    /// # use mainspring::sync::{AcquireError, Semaphore};
    /// # mainspring::run(async {
    /// let semaphore = Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// assert_eq!(semaphore.acquire().await.err(), Some(AcquireError));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether [`close`](Semaphore::close) was called.
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available_permits())
            .field("waiting", &self.permits.waiting())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`]. Dropping this releases them. It stays on its thread (`!Send`).
///
/// ```
/// let semaphore = mainspring::sync::Semaphore::new(3);
/// let mut all = semaphore.try_acquire_many(3).unwrap();
/// let two = all.split(2).unwrap();
/// assert_eq!((all.count(), two.count()), (1, 2));
/// drop(two);
/// all.forget();
/// assert_eq!(semaphore.available_permits(), 2);
/// ```
#[must_use = "dropping the permit releases it"]
#[derive(Debug)]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

/// A [`SemaphorePermit`] that owns a reference to its semaphore, so that it can move to another task of its thread
/// (`!Send`). See [`Semaphore::acquire_owned`].
///
/// ```
/// use mainspring::sync::Semaphore;
/// use std::rc::Rc;
///
/// let semaphore = Rc::new(Semaphore::new(3));
/// let mut all = semaphore.clone().try_acquire_many_owned(3).unwrap();
/// let one = all.split(1).unwrap();
/// assert!(all.split(9).is_none());
/// assert_eq!((all.count(), one.count()), (2, 1));
/// one.forget();
/// drop(all);
/// assert_eq!(semaphore.available_permits(), 2);
/// ```
#[must_use = "dropping the permit releases it"]
#[derive(Debug)]
pub struct OwnedSemaphorePermit {
    semaphore: Rc<Semaphore>,
    permits: usize,
}

/// The methods of both kinds of permits.
macro_rules! permits {
    ($permit:ty) => {
        impl $permit {
            /// The number of permits.
            pub fn count(&self) -> usize {
                self.permits
            }

            /// Removes the permits from the semaphore for good.
            pub fn forget(mut self) {
                self.permits = 0;
            }

            /// Splits off `permits` permits. `None` if there are fewer.
            pub fn split(&mut self, permits: usize) -> Option<Self> {
                self.permits = self.permits.checked_sub(permits)?;
                Some(Self { semaphore: Clone::clone(&self.semaphore), permits })
            }
        }

        impl Drop for $permit {
            fn drop(&mut self) {
                self.semaphore.permits.release(self.permits);
            }
        }
    };
}

permits!(SemaphorePermit<'_>);
permits!(OwnedSemaphorePermit);
