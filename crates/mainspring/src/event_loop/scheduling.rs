//! What a program has the loop call: at once, later, in which lane; as a closure or as a task.

use super::EventLoop;
use crate::clock::Time;
use crate::error::Error;
use crate::handle::{Handle, TimerHandle};
use crate::host::Call;
use crate::lane::Lane;
use crate::task::{Task, TaskBuilder};
use std::rc::Rc;
use std::time::Duration;

impl EventLoop {
    /// Calls `callback` in the next pass, after what is ready already. The [`Handle`] can cancel that.
    ///
    /// [`Error::Closed`] if the loop is closed.
    ///
    /// ```
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let called = Rc::new(Cell::new(false));
    /// let flag = Rc::clone(&called);
    /// event_loop.call_soon(move || flag.set(true))?;
    /// assert!(!called.get(), "not before the loop runs");
    /// event_loop.run_until_idle()?;
    /// assert!(called.get());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_soon(&self, callback: impl FnOnce() + 'static) -> Result<Handle, Error> {
        self.call_soon_in(Lane::Normal, callback)
    }

    /// Calls `callback` in a pass, in its turn in `lane`: see [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(String::new()));
    /// for (lane, name) in [(Lane::Background, 'c'), (Lane::Normal, 'b'), (Lane::Io, 'a')] {
    ///     let order = Rc::clone(&order);
    ///     event_loop.call_soon_in(lane, move || order.borrow_mut().push(name))?;
    /// }
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), "abc");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_soon_in(&self, lane: Lane, callback: impl FnOnce() + 'static) -> Result<Handle, Error> {
        let core = self.core();
        core.check_open()?;
        let callback = core.debug_mode().callback(callback);
        core.engine.call_soon_in(lane.engine_lane(), Call::Handle(Rc::clone(&callback)));
        Ok(Handle(callback))
    }

    /// Calls `callback` when `delay` has passed, and not before. The [`TimerHandle`] can cancel that.
    ///
    /// [`Error::Closed`] if the loop is closed.
    ///
    /// ```
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// for delay in [20, 1] {
    ///     let order = Rc::clone(&order);
    ///     event_loop.call_later(Duration::from_millis(delay), move || order.borrow_mut().push(delay))?;
    /// }
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), [1, 20]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_later(
        &self,
        delay: Duration,
        callback: impl FnOnce() + 'static,
    ) -> Result<TimerHandle, Error> {
        self.call_at(self.time().saturating_add(delay), callback)
    }

    /// Calls `callback` when the loop's clock has reached `when`. Calls for the same time keep their order.
    ///
    /// [`Error::Closed`] if the loop is closed.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let when = event_loop.time().saturating_add(Duration::from_millis(1));
    /// let handle = event_loop.call_at(when, || println!("now"))?;
    /// assert_eq!(handle.when(), when);
    /// event_loop.run_until_idle()?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_at(&self, when: Time, callback: impl FnOnce() + 'static) -> Result<TimerHandle, Error> {
        self.call_at_in(Lane::Normal, when, callback)
    }

    /// Calls `callback` when `delay` has passed, in its turn in `lane` then: see [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(String::new()));
    /// for (lane, name) in [(Lane::Background, 'c'), (Lane::Normal, 'b'), (Lane::Io, 'a')] {
    ///     let order = Rc::clone(&order);
    ///     event_loop.call_later_in(lane, Duration::ZERO, move || order.borrow_mut().push(name))?;
    /// }
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), "abc");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_later_in(
        &self,
        lane: Lane,
        delay: Duration,
        callback: impl FnOnce() + 'static,
    ) -> Result<TimerHandle, Error> {
        self.call_at_in(lane, self.time().saturating_add(delay), callback)
    }

    /// Calls `callback` when the loop's clock has reached `when`, in its turn in `lane` then: see [`Lane`]. In the
    /// background it waits since that time, and is overdue as [`set_max_overdue`](EventLoop::set_max_overdue) says.
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let when = event_loop.time().saturating_add(Duration::from_millis(1));
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// for lane in [Lane::Background, Lane::Normal] {
    ///     let order = Rc::clone(&order);
    ///     event_loop.call_at_in(lane, when, move || order.borrow_mut().push(lane))?;
    /// }
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), [Lane::Normal, Lane::Background]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_at_in(
        &self,
        lane: Lane,
        when: Time,
        callback: impl FnOnce() + 'static,
    ) -> Result<TimerHandle, Error> {
        let core = self.core();
        core.check_open()?;
        let callback = core.debug_mode().callback(callback);
        let key = core.engine.call_at(when.0, Call::Timer(lane.engine_lane(), Rc::clone(&callback)));
        let sequence = core.timers_made.get();
        core.timers_made.set(sequence + 1);
        Ok(TimerHandle { callback, core: Rc::downgrade(core), key, when, sequence })
    }

    /// Runs `future` as a task. See [`spawn`](crate::spawn).
    ///
    /// [`Error::Closed`] if the loop is closed.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let task = event_loop.spawn(async { 6 * 7 })?;
    /// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<Task<F::Output>, Error>
    where
        F: IntoFuture<IntoFuture: 'static, Output: 'static>,
    {
        self.core().check_open()?;
        Ok(Task::start(self.core(), future.into_future()))
    }

    /// Runs `future` as a task whose every step waits its turn in `lane`: see [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let tidying = event_loop.spawn_in(Lane::Background, async {})?;
    /// event_loop.spawn(async move { assert!(!tidying.is_finished(), "it has time") })?;
    /// assert_eq!(event_loop.run_until_idle()?, 0);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_in<F>(&self, lane: Lane, future: F) -> Result<Task<F::Output>, Error>
    where
        F: IntoFuture<IntoFuture: 'static, Output: 'static>,
    {
        TaskBuilder::new().lane(lane).spawn_on(self, future)
    }

    /// Serves I/O before the calls that are ready (`true`), or in turn with them as asyncio does (`false`, as a new
    /// loop does): MicroPython's `fast_io`. What is called in [`Lane::Io`] in the middle of a pass is then served
    /// before the next call of that pass.
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.set_io_first(true);
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// let (first, second) = (Rc::clone(&order), Rc::clone(&order));
    /// event_loop.call_soon(move || {
    ///     let io = move || first.borrow_mut().push("io");
    ///     EventLoop::current().call_soon_in(Lane::Io, io).unwrap();
    /// })?;
    /// event_loop.call_soon(move || second.borrow_mut().push("the rest of the pass"))?;
    /// event_loop.run_once()?;
    /// assert_eq!(*order.borrow(), ["io", "the rest of the pass"]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_io_first(&self, io_first: bool) {
        self.core().engine.set_io_first(io_first);
    }

    /// How long a call in [`Lane::Background`] waits for a pass with nothing else to do before it takes its turn with
    /// the rest. `None`, as a new loop has it: for ever.
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane, yield_now};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.set_max_overdue(Some(Duration::from_millis(1)));
    /// let tidying = event_loop.spawn_in(Lane::Background, async { "tidy" })?;
    /// // The loop is never without anything else to do.
    /// event_loop.run_until_complete(async {
    ///     while !tidying.is_finished() {
    ///         yield_now().await;
    ///     }
    /// })?;
    /// assert_eq!(event_loop.run_until_complete(tidying)?, Ok("tidy"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_max_overdue(&self, limit: Option<Duration>) {
        self.core().engine.set_max_overdue(limit);
    }
}
