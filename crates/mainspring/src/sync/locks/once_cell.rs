//! `OnceCell`: a value that is initialised once, by a future.

use super::permits::Permits;
use crate::task::named;
use std::cell;
use std::convert::Infallible;
use std::fmt;

/// A value that a future initialises on first use, as tokio's `OnceCell`. asyncio has no equivalent.
///
/// If several tasks need it at the same time, one initialises and the others wait. If that task fails, panics or is
/// cancelled, the next waiter tries. It is for the tasks of one thread (`!Sync`); share it through an
/// [`Rc`](std::rc::Rc).
///
/// ```
/// use mainspring::sync::OnceCell;
///
/// # mainspring::run(async {
/// let cell = OnceCell::new();
/// assert_eq!(cell.get(), None);
/// assert_eq!(cell.get_or_init(async || 42).await, &42);
/// assert_eq!(cell.get_or_init(async || unreachable!()).await, &42);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct OnceCell<T> {
    value: cell::OnceCell<T>,
    /// The owner of the one permit initialises the value.
    init_permit: Permits,
}

impl<T> OnceCell<T> {
    /// A cell without a value.
    pub const fn new() -> Self {
        OnceCell { value: cell::OnceCell::new(), init_permit: Permits::new(1, 1) }
    }

    /// The value, if it is initialised.
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value, if it is initialised.
    ///
    /// ```
    /// let mut cell = mainspring::sync::OnceCell::new();
    /// assert_eq!(cell.get_mut(), None);
    /// cell.set(1).unwrap();
    /// *cell.get_mut().unwrap() += 1;
    /// assert_eq!(cell.into_inner(), Some(2));
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Sets the value, or returns it if there is one already. A task that is initialising the cell then gets this
    /// value.
    ///
    /// ```
    /// let cell = mainspring::sync::OnceCell::new();
    /// assert_eq!(cell.set("first"), Ok(()));
    /// assert_eq!(cell.set("second"), Err("second"));
    /// assert_eq!(cell.get(), Some(&"first"));
    /// ```
    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)
    }

    /// The value, if it is initialised.
    ///
    /// ```
    /// use mainspring::sync::OnceCell;
    ///
    /// # mainspring::run(async {
    /// let cell = OnceCell::new();
    /// cell.get_or_init(async || String::from("made")).await;
    /// assert_eq!(cell.into_inner().as_deref(), Some("made"));
    /// assert_eq!(OnceCell::<u8>::new().into_inner(), None);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// The value. Runs `init` if there is none.
    ///
    /// Cancel safety: the future of `init` is dropped, and the next waiter initialises the cell.
    pub async fn get_or_init(&self, init: impl AsyncFnOnce() -> T) -> &T {
        match self.get_or_try_init(async || Ok::<T, Infallible>(init().await)).await {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// The value. Runs `init` if there is none, and returns its error.
    ///
    /// Cancel safety: as [`get_or_init`](OnceCell::get_or_init).
    ///
    /// ```
    /// # use mainspring::sync::OnceCell;
    /// # mainspring::run(async {
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(async || Err("not today")).await, Err("not today"));
    /// assert_eq!(cell.get_or_try_init(async || Ok::<_, &str>(1)).await, Ok(&1));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn get_or_try_init<E>(&self, init: impl AsyncFnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        // These permits are never closed.
        let _ = named(|| "OnceCell::get_or_init", self.init_permit.acquire(1)).await;
        let _guard = InitGuard(&self.init_permit);
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let value = init().await?;
        // `set` may have been called during `init`: its value stays, and this one is dropped.
        Ok(self.value.get_or_init(|| value))
    }
}

/// Holds the permit until it is dropped.
struct InitGuard<'a>(&'a Permits);

impl Drop for InitGuard<'_> {
    fn drop(&mut self) {
        self.0.release(1);
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnceCell").field(&self.get()).finish()
    }
}
