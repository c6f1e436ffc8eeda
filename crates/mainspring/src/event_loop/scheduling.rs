//! `call_soon`, `call_later`, `call_at`, `call_after`, `spawn`, and their variants for lanes.

use super::EventLoop;
use crate::clock::Time;
use crate::error::Error;
use crate::handle::{Handle, TimerHandle};
use crate::host::Call;
use crate::lane::{Lane, Priority};
use crate::task::{Task, TaskBuilder};
use std::rc::Rc;
use std::time::Duration;

impl EventLoop {
    /// Calls `callback` in the next iteration, after the calls that are ready. The [`Handle`] can cancel it.
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
        self.schedule_soon(Priority::current(), callback)
    }

    /// [`call_soon`](EventLoop::call_soon) in a [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(String::new()));
    /// for (lane, name) in [(Lane::Background, 'c'), (Lane::Normal, 'b'), (Lane::Urgent, 'a')] {
    ///     let order = Rc::clone(&order);
    ///     event_loop.call_soon_in(lane, move || order.borrow_mut().push(name))?;
    /// }
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), "abc");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_soon_in(&self, lane: Lane, callback: impl FnOnce() + 'static) -> Result<Handle, Error> {
        self.schedule_soon(Priority::in_lane(lane), callback)
    }

    #[track_caller]
    fn schedule_soon(&self, priority: Priority, callback: impl FnOnce() + 'static) -> Result<Handle, Error> {
        let core = self.core();
        core.check_open()?;
        let callback = core.debug_mode().callback(priority, callback);
        let call = Call::Handle(priority.lane, Rc::clone(&callback));
        core.call_soon_in(priority.lane.engine_lane(), call);
        Ok(Handle(callback))
    }

    /// Calls `callback` after `delay`, never earlier. The [`TimerHandle`] can cancel it.
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

    /// Calls `callback` when the loop's clock reaches `when`. Calls for the same time keep their order.
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
        self.schedule_at(Priority::current(), when, callback)
    }

    /// [`call_later`](EventLoop::call_later) in a [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(String::new()));
    /// for (lane, name) in [(Lane::Background, 'c'), (Lane::Normal, 'b'), (Lane::Urgent, 'a')] {
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

    /// [`call_at`](EventLoop::call_at) in a [`Lane`]. In the background lane it waits from `when` on, and becomes
    /// overdue as [`set_max_overdue`](EventLoop::set_max_overdue) defines.
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
        self.schedule_at(Priority::in_lane(lane), when, callback)
    }

    /// Calls `callback` in [`Lane::Background`] after `delay`: in the next iteration with nothing else to do.
    /// MicroPython's `after` of `fast_io`, for a callback.
    ///
    /// If the current code is in that lane, its limit applies: see [`background`](crate::background). Otherwise that of
    /// [`set_max_overdue`](EventLoop::set_max_overdue) does.
    ///
    /// [`Error::Closed`] if the loop is closed.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::{cell::RefCell, rc::Rc, time::Duration};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// let (cleanup, request) = (Rc::clone(&order), Rc::clone(&order));
    /// event_loop.call_after(Duration::ZERO, move || cleanup.borrow_mut().push("cleanup"))?;
    /// event_loop.call_later(Duration::ZERO, move || request.borrow_mut().push("request"))?;
    /// event_loop.run_until_idle()?;
    /// assert_eq!(*order.borrow(), ["request", "cleanup"]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn call_after(
        &self,
        delay: Duration,
        callback: impl FnOnce() + 'static,
    ) -> Result<TimerHandle, Error> {
        self.call_later_in(Lane::Background, delay, callback)
    }

    #[track_caller]
    fn schedule_at(
        &self,
        priority: Priority,
        when: Time,
        callback: impl FnOnce() + 'static,
    ) -> Result<TimerHandle, Error> {
        let core = self.core();
        core.check_open()?;
        let callback = core.debug_mode().callback(priority, callback);
        let key = core.engine.call_at(when.0, Call::Handle(priority.lane, Rc::clone(&callback)));
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

    /// Runs `future` as a task whose steps are all in `lane`: see [`Lane`].
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let background = event_loop.spawn_in(Lane::Background, async {})?;
    /// event_loop.spawn(async move { assert!(!background.is_finished(), "it has time") })?;
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

    /// Whether I/O runs before other ready calls, as MicroPython's `fast_io`. If so, the loop polls for I/O before each
    /// ready call in [`Lane::Normal`], and I/O is in [`Lane::Urgent`]. A call that enters that lane during an iteration
    /// runs before the next normal call of that iteration. The default is `false`: I/O and calls in turn, as in asyncio.
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
    ///     EventLoop::current().call_soon_in(Lane::Urgent, io).unwrap();
    /// })?;
    /// event_loop.call_soon(move || second.borrow_mut().push("the rest of the pass"))?;
    /// event_loop.run_once()?;
    /// assert_eq!(*order.borrow(), ["io", "the rest of the pass"]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_io_first(&self, io_first: bool) {
        self.core().engine.set_io_first(io_first);
    }

    /// Limits how long a call in [`Lane::Background`] waits for an iteration with nothing else to do. After this time it
    /// runs before the next normal call. The default is `None`: no limit. A limit of its own, such as that of
    /// [`background`](crate::background), takes precedence.
    ///
    /// ```
    /// use mainspring::{EventLoop, Lane, yield_now};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.set_max_overdue(Some(Duration::from_millis(1)));
    /// let background = event_loop.spawn_in(Lane::Background, async { "tidy" })?;
    /// // The loop is never idle.
    /// event_loop.run_until_complete(async {
    ///     while !background.is_finished() {
    ///         yield_now().await;
    ///     }
    /// })?;
    /// assert_eq!(event_loop.run_until_complete(background)?, Ok("tidy"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_max_overdue(&self, limit: Option<Duration>) {
        self.core().engine.set_max_overdue(limit);
    }
}
