//! `Core`: the state of a loop, and how it is closed.
//!
//! # Ownership
//!
//! All `EventLoop`s of the program share one `Owner`, which owns the core and closes it when the last of them is
//! dropped. Objects *on* the loop (handles, tasks, transports) have a weak reference, so that a leaked one does not
//! keep the loop alive.
//!
//! # Threads
//!
//! The core never leaves its thread. Other threads have the inbox. Its address identifies the loop: [`wake_call`]
//! finds the core of an inbox if the loop is on the calling thread.

use super::exception_handler::{ExceptionContext, ExceptionHandler};
use super::keep_alive::KeepAlive;
use super::main_future::MainSlots;
use super::retained::RetainedList;
use super::running;
use crate::clock::Time;
use crate::error::Error;
use crate::executor::{Executor, ExecutorConfig};
use crate::host::{Call, Failure, Inbound, RustHost};
use crate::net::Resolver;
use crate::panics::catch;
use crate::task::{AnyTask, CellPool, FactorySlot, Step};
use crate::testing::Deadlock;
use mainspring_engine::name_lookup::LookupRules;
use mainspring_engine::ready_queue::Lane;
use mainspring_engine::wakeup::Inbox;
use mainspring_engine::{Engine, Host};
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct Core {
    pub(crate) engine: Engine<RustHost>,
    pub(crate) main: MainSlots,
    pub(super) exception_handler: ExceptionHandler,
    pub(super) name: String,
    /// Whether the clock is virtual. The tasks then record where they were spawned and what they wait for.
    pub(crate) is_virtual: bool,
    /// Shared with each [`Remote`](crate::Remote).
    pub(super) remotes: Arc<()>,
    pub(super) is_running: Cell<bool>,
    /// Whether the loop can run inside a running loop.
    pub(super) allows_nested: Cell<bool>,
    pub(super) is_closed: Cell<bool>,
    /// Refuses new work on this thread, as the sealed inbox does for other threads.
    pub(crate) is_sealed: Cell<bool>,
    pub(super) timers_made: Cell<u64>,
    /// The memory of tasks that are gone.
    pub(crate) cell_pool: CellPool,
    /// The tasks that are not done.
    tasks: RefCell<Slab<AnyTask>>,
    pub(crate) task_factory: FactorySlot,
    /// Keeps the loop from being idle until `tasks` is empty.
    keep_alive_while_tasks: Cell<Option<KeepAlive>>,
    pub(crate) tasks_made: Cell<u64>,
    pub(super) executor_config: ExecutorConfig,
    pub(super) executor: RefCell<Option<Arc<Executor>>>,
    /// Resolves host names instead of the system.
    pub(crate) resolver: OnceCell<Rc<dyn Resolver>>,
    /// Which lookups need a thread.
    pub(crate) lookup_rules: RefCell<LookupRules>,
    pub(super) retained: RetainedList,
    #[cfg(not(loom))]
    pub(crate) signals: crate::signal::CaughtSignals,
}

impl Core {
    pub(super) fn new(
        engine: Engine<RustHost>,
        name: String,
        executor_config: ExecutorConfig,
        is_virtual: bool,
    ) -> Rc<Self> {
        let core = Rc::new(Core {
            engine,
            main: MainSlots::default(),
            exception_handler: ExceptionHandler::default(),
            name,
            is_virtual,
            remotes: Arc::new(()),
            is_running: Cell::new(false),
            allows_nested: Cell::new(false),
            is_closed: Cell::new(false),
            is_sealed: Cell::new(false),
            timers_made: Cell::new(0),
            cell_pool: CellPool::default(),
            tasks: RefCell::default(),
            task_factory: FactorySlot::default(),
            keep_alive_while_tasks: Cell::new(None),
            tasks_made: Cell::new(0),
            executor_config,
            executor: RefCell::default(),
            resolver: OnceCell::new(),
            lookup_rules: RefCell::default(),
            retained: RetainedList::default(),
            #[cfg(not(loom))]
            signals: crate::signal::CaughtSignals::default(),
        });
        core.engine.host().bind(&core);
        running::register_loop(&core);
        core
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox<Inbound>> {
        self.engine.inbox()
    }

    /// Whether this is the loop's inbox: its identity.
    #[inline(always)]
    pub(super) fn has_inbox(&self, inbox: *const Inbox<Inbound>) -> bool {
        std::ptr::eq(Arc::as_ptr(self.inbox()), inbox)
    }

    /// The time by the loop's clock.
    pub(crate) fn now(&self) -> Time {
        Time(self.engine.now())
    }

    #[inline(always)]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.get() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Nothing that the loop knows of can make it continue. An error if the future of `run_until_complete` can then never
    /// end.
    pub(crate) fn check_deadlock(&self) -> Result<(), Error> {
        // Another thread may use a remote, and a signal may arrive.
        let may_continue = Arc::strong_count(&self.remotes) > 1 || self.has_signal_handlers();
        if may_continue || !self.main.is_waiting() {
            return Ok(());
        }
        Err(Error::Deadlock(Deadlock::new(self)))
    }

    fn has_signal_handlers(&self) -> bool {
        #[cfg(not(loom))]
        return !self.signals.is_empty();
        #[cfg(loom)]
        false
    }

    /// Makes a call ready. A closed loop drops it.
    pub(crate) fn call_soon(&self, call: Call) {
        if self.is_closed.get() {
            drop(call);
        } else {
            self.engine.call_soon(call);
        }
    }

    /// Makes a call ready in `lane`, on an open loop. The normal lane is inlined: without the branch, the row `spawn` of
    /// `bench/peers` takes 5 % more instructions (callgrind), and a chain of `call_soon` 11 %.
    #[inline(always)]
    pub(crate) fn call_soon_in(&self, lane: Lane, call: Call) {
        if lane == Lane::Normal {
            self.engine.call_soon(call);
        } else {
            self.call_soon_in_other_lane(lane, call);
        }
    }

    #[cold]
    #[inline(never)]
    fn call_soon_in_other_lane(&self, lane: Lane, call: Call) {
        self.engine.call_soon_in(lane, call);
    }

    /// Makes the step of a task ready, on an open loop.
    #[inline(always)]
    pub(crate) fn schedule_step(&self, step: Step) {
        if step.header().is_normal() {
            self.engine.call_soon_with(|| Call::Task(step));
        } else {
            self.schedule_step_in_lane(step);
        }
    }

    #[cold]
    #[inline(never)]
    fn schedule_step_in_lane(&self, step: Step) {
        self.engine.call_soon_in(step.header().next_lane(), Call::Task(step));
    }

    pub(crate) fn call_exception_handler(&self, context: &ExceptionContext) {
        self.exception_handler.call_handler(context);
    }

    /// Reports a failure in an operation of a transport.
    #[cold]
    #[inline(never)]
    pub(crate) fn transport_failed(&self, failure: Failure) {
        self.call_exception_handler(&ExceptionContext::from_failure("A transport failed", failure));
    }

    /// The current executor. Made on first use.
    pub(crate) fn executor(&self) -> Arc<Executor> {
        let make = || Arc::new(Executor::new(self.executor_config.clone()));
        Arc::clone(self.executor.borrow_mut().get_or_insert_with(make))
    }

    /// Drops user values one by one, and reports destructors that panic. Two panics in one drop would abort the
    /// process.
    fn drop_each<T>(&self, values: Vec<T>) {
        for value in values {
            if let Err(text) = catch(|| drop(value)) {
                self.call_exception_handler(&ExceptionContext::from_panic("A destructor panicked", text));
            }
        }
    }

    /// Closes the loop: refuses new work, and drops everything on the loop's own thread.
    pub(super) fn close(&self) {
        if self.is_closed.replace(true) {
            return;
        }
        let executor = self.executor.borrow().clone();
        if let Some(executor) = executor {
            executor.shutdown(false);
        }
        #[cfg(not(loom))]
        self.signals.clear();
        self.cancel_all_tasks();
        self.drop_each(self.engine.take_ready());
        let mut arrived = Vec::new();
        self.inbox().drain_into(&mut arrived);
        self.drop_each(arrived);
        self.release_retained();
        self.drop_each(self.engine.close());
    }

    /// Cancels all tasks. On an open loop their futures are dropped in the next iteration.
    pub(super) fn cancel_all_tasks(&self) {
        for task in self.all_tasks() {
            task.cancel();
        }
    }

    /// The tasks that are not done, in no particular order.
    pub(crate) fn all_tasks(&self) -> Vec<AnyTask> {
        self.tasks.borrow().iter().map(|(_, task)| task.clone()).collect()
    }

    /// The number of tasks that are not done.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Keeps the loop from being idle until all tasks are done. The loop does not know what wakes a task that awaits
    /// a future of another library.
    pub(crate) fn keep_alive_for_tasks(&self) {
        let keep_alive = (self.task_count() > 0).then(|| KeepAlive::new(self.inbox()));
        self.keep_alive_while_tasks.set(keep_alive);
    }

    /// Adds a task. Returns its index.
    #[inline]
    pub(crate) fn insert_task(&self, task: AnyTask) -> usize {
        self.tasks.borrow_mut().insert(task)
    }

    /// Removes a task whose future is dropped.
    #[inline]
    pub(crate) fn remove_task(&self, index: usize) {
        let mut tasks = self.tasks.borrow_mut();
        let task = tasks.try_remove(index);
        let was_last = tasks.is_empty();
        drop(tasks);
        drop(task);
        if was_last {
            self.keep_alive_while_tasks.set(None);
        }
    }
}

/// Makes a call ready, from any thread. On the loop's own thread it is queued behind the ready calls, as by `call_soon`
/// in asyncio; other threads use the inbox. Fails if the loop is closed, or if it is sealed and this is new work.
pub(crate) fn wake_call(inbox: &Arc<Inbox<Inbound>>, call: Inbound) -> Result<(), Error> {
    let is_new_work = matches!(call, Inbound::Once(_));
    if let Some(core) = running::find_loop(Arc::as_ptr(inbox)) {
        core.check_open()?;
        if is_new_work && core.is_sealed.get() {
            return Err(Error::ShutDown);
        }
        // An earlier wake of the same task is received first.
        core.engine.receive_pending();
        if let Some(call) = call.into_call() {
            core.call_soon_in(core.engine.host().lane(&call), call);
        }
        return Ok(());
    }
    let pushed = if is_new_work { inbox.submit(call) } else { inbox.push(call) };
    match pushed {
        Ok(()) => Ok(()),
        Err(_) => Err(if inbox.is_closed() { Error::Closed } else { Error::ShutDown }),
    }
}
