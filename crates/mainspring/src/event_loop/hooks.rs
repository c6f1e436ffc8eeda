//! Hooks: functions that the loop calls around each iteration and before it waits.

use super::Builder;
use std::time::Duration;

/// The hooks of a loop.
#[derive(Default)]
pub(crate) struct Hooks {
    iteration_begin: Option<Box<dyn Fn()>>,
    iteration_end: Option<Box<dyn Fn()>>,
    idle: Option<Box<dyn Fn(Option<Duration>)>>,
}

impl Hooks {
    /// Which hooks the engine has to call.
    pub(super) fn enabled(&self) -> mainspring_engine::Hooks {
        mainspring_engine::Hooks {
            iteration_begin: self.iteration_begin.is_some(),
            iteration_end: self.iteration_end.is_some(),
            idle: self.idle.is_some(),
        }
    }

    pub(crate) fn call_iteration_begin(&self) {
        if let Some(hook) = &self.iteration_begin {
            hook();
        }
    }

    pub(crate) fn call_iteration_end(&self) {
        if let Some(hook) = &self.iteration_end {
            hook();
        }
    }

    pub(crate) fn call_idle(&self, timeout: Option<Duration>) {
        if let Some(hook) = &self.idle {
            hook(timeout);
        }
    }
}

/// Hooks. A panic of a hook is reported to the exception handler.
impl Builder {
    /// Calls `hook` at the beginning of each iteration. Calls that it schedules run in the same iteration.
    ///
    /// ```
    /// use mainspring::Builder;
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let (begun, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    /// let (begin, end) = (Rc::clone(&begun), Rc::clone(&ended));
    /// let event_loop = Builder::new()
    ///     .on_iteration_begin(move || begin.set(begin.get() + 1))
    ///     .on_iteration_end(move || end.set(end.get() + 1))
    ///     .build()?;
    /// event_loop.run_once()?;
    /// event_loop.run_once()?;
    /// assert_eq!((begun.get(), ended.get()), (2, 2));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn on_iteration_begin(mut self, hook: impl Fn() + 'static) -> Self {
        self.hooks.iteration_begin = Some(Box::new(hook));
        self
    }

    /// Calls `hook` at the end of each iteration.
    pub fn on_iteration_end(mut self, hook: impl Fn() + 'static) -> Self {
        self.hooks.iteration_end = Some(Box::new(hook));
        self
    }

    /// Calls `hook` before the loop waits, with the longest time that it is about to wait (`None`: without limit). If the
    /// hook schedules a call, the loop does not wait.
    ///
    /// ```
    /// use mainspring::{Builder, EventLoop};
    ///
    /// // Without the hook, this loop would wait for ever.
    /// let event_loop = Builder::new()
    ///     .on_idle(|timeout| {
    ///         assert!(timeout.is_none());
    ///         EventLoop::current().stop();
    ///     })
    ///     .build()?;
    /// event_loop.run_forever()?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn on_idle(mut self, hook: impl Fn(Option<Duration>) + 'static) -> Self {
        self.hooks.idle = Some(Box::new(hook));
        self
    }
}
