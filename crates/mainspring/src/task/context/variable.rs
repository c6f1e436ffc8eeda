//! `ContextVar`: one variable, and setting its value for a while.

use super::{Value, with_slot};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

/// A variable whose value belongs to the task that sets it, and to the tasks started from there. See the
/// [module](super).
///
/// Use it in a `static`. It is `Sync` for any `T`, because values never leave the thread on which they were set.
///
/// ```
/// use mainspring::context::ContextVar;
///
/// static USER: ContextVar<String> = ContextVar::new("user");
///
/// assert_eq!(USER.name(), "user");
/// assert_eq!(USER.get(), None);
/// let token = USER.set("ada".to_owned());
/// assert_eq!(USER.get().as_deref(), Some("ada"));
/// assert_eq!(USER.with(|user| user.map(String::len)), Some(3));
/// token.reset();
/// assert_eq!(USER.get(), None);
/// ```
pub struct ContextVar<T: 'static> {
    name: &'static str,
    /// Zero until it is first used.
    key: AtomicU64,
    value: PhantomData<fn(T) -> T>,
}

impl<T: 'static> ContextVar<T> {
    /// A variable without a value. The name is for messages.
    pub const fn new(name: &'static str) -> Self {
        ContextVar { name, key: AtomicU64::new(0), value: PhantomData }
    }

    /// The variable's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn key(&self) -> u64 {
        static LAST_KEY: AtomicU64 = AtomicU64::new(0);
        let key = self.key.load(Ordering::Relaxed);
        if key != 0 {
            return key;
        }
        let new_key = LAST_KEY.fetch_add(1, Ordering::Relaxed) + 1;
        match self.key.compare_exchange(0, new_key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new_key,
            Err(key) => key,
        }
    }

    /// The value in the current context, if there is one.
    pub fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.cloned())
    }

    /// Passes the value in the current context to `f`.
    pub fn with<R>(&self, f: impl FnOnce(Option<&T>) -> R) -> R {
        let key = self.key();
        let value = with_slot(|slot| slot.find(key)).flatten();
        f(value.as_deref().and_then(<dyn Any>::downcast_ref))
    }

    /// Sets the value in the current context. The token restores the previous value.
    pub fn set(&self, value: T) -> Token<T> {
        let key = self.key();
        let value: Value = Rc::new(value);
        let former = with_slot(|slot| slot.replace(key, Some(value))).flatten();
        Token { key, former, value: PhantomData }
    }

    /// Runs `future` with this value, which is visible only to that future.
    ///
    /// Every step of the future sees the value, and so does its destructor. A value that the future sets itself lasts
    /// until it ends.
    ///
    /// ```
    /// use mainspring::context::ContextVar;
    ///
    /// static DEPTH: ContextVar<u32> = ContextVar::new("depth");
    ///
    /// # mainspring::run(async {
    /// let captured = DEPTH.scope(1, async {
    ///     mainspring::yield_now().await;
    ///     DEPTH.get()
    /// });
    /// assert_eq!(captured.await, Some(1));
    /// assert_eq!(DEPTH.get(), None);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    ///
    /// Cancel safety: that of `future`.
    pub fn scope<F: IntoFuture>(&self, value: T, future: F) -> impl Future<Output = F::Output> + use<T, F> {
        let key = self.key();
        let value: Option<Value> = Some(Rc::new(value));
        async move {
            let future = pin!(Some(future.into_future()));
            let mut scoped = Scoped { key, value, future };
            std::future::poll_fn(move |cx| {
                scoped.step(|future| match future.as_pin_mut() {
                    Some(future) => future.poll(cx),
                    None => Poll::Pending,
                })
            })
            .await
        }
    }

    /// Calls `function` with this value: [`ContextVar::scope`] without `await`.
    ///
    /// ```
    /// use mainspring::context::ContextVar;
    ///
    /// static DEPTH: ContextVar<u32> = ContextVar::new("depth");
    ///
    /// assert_eq!(DEPTH.sync_scope(1, || DEPTH.get()), Some(1));
    /// assert_eq!(DEPTH.get(), None);
    /// ```
    pub fn sync_scope<R>(&self, value: T, function: impl FnOnce() -> R) -> R {
        let mut value: Option<Value> = Some(Rc::new(value));
        with_value(self.key(), &mut value, function)
    }
}

impl<T> fmt::Debug for ContextVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ContextVar").field(&self.name).finish()
    }
}

/// The value of a variable before [`ContextVar::set`]. Dropping it does nothing. It stays on its thread (`!Send`), as
/// the values do.
///
/// ```
/// use mainspring::context::ContextVar;
///
/// static USER: ContextVar<&str> = ContextVar::new("user");
///
/// USER.set("ada");
/// let token = USER.set("grace");
/// token.reset();
/// assert_eq!(USER.get(), Some("ada"));
/// ```
pub struct Token<T: 'static> {
    key: u64,
    former: Option<Value>,
    value: PhantomData<fn(T) -> T>,
}

impl<T> Token<T> {
    /// Restores the previous value of the variable in the current context, or removes its value if it had none.
    pub fn reset(self) {
        let replaced = with_slot(|slot| slot.replace(self.key, self.former));
        drop(replaced);
    }
}

impl<T> fmt::Debug for Token<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("had_value", &self.former.is_some()).finish_non_exhaustive()
    }
}

/// Runs `function` with `value` as the current value of a variable. Afterwards `value` is the final value of the
/// variable.
fn with_value<R>(key: u64, value: &mut Option<Value>, function: impl FnOnce() -> R) -> R {
    struct Restore<'a>(u64, &'a mut Option<Value>, Option<Value>);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            let former = self.2.take();
            *self.1 = with_slot(|slot| slot.replace(self.0, former)).flatten();
        }
    }
    let scoped_value = value.take();
    let former = with_slot(|slot| slot.replace(key, scoped_value)).flatten();
    let _restore = Restore(key, value, former);
    function()
}

/// A future with its own value of a variable.
struct Scoped<'a, F> {
    key: u64,
    value: Option<Value>,
    /// `None` when it was dropped.
    future: Pin<&'a mut Option<F>>,
}

impl<F> Scoped<'_, F> {
    fn step<R>(&mut self, step: impl FnOnce(Pin<&mut Option<F>>) -> R) -> R {
        let future = self.future.as_mut();
        with_value(self.key, &mut self.value, || step(future))
    }
}

impl<F> Drop for Scoped<'_, F> {
    fn drop(&mut self) {
        self.step(|mut future| future.set(None));
    }
}
