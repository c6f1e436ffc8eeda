//! `Core`: what a loop of this face is made of, and how it is taken apart.
//!
//! # Who holds whom
//!
//! User's `EventLoop`s share one `Owner`, which holds the core and closes it when the last of them is dropped.
//! Everything that lives *on* the loop (handles, tasks, transports) holds the core weakly, so a program that
//! forgets such a thing somewhere does not keep a loop alive with it.
//!
//! # Threads
//!
//! The core never leaves its thread. What other threads hold is the inbox, whose address also tells which loop
//! is meant: [`wake_call`] finds the core of an inbox if it belongs to the thread that asks.

use super::exceptions::{ExceptionContext, Exceptions};
use super::keep_alive::KeepAlive;
use super::main_future::MainSlot;
use super::retained::RetainedList;
use super::running;
use crate::clock::Time;
use crate::error::Error;
use crate::executor::{Executor, ExecutorConfig};
use crate::host::{Call, Failure, Inbound, RustHost, Step};
use crate::net::Resolver;
use crate::panics::catch;
use crate::task::{AnyTask, FactorySlot};
use mainspring_engine::wakeup::Inbox;
use mainspring_engine::{Engine, Host};
use slab::Slab;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long closing waits for another thread that is in the middle of waking a task: a few instructions, unless
/// that thread is gone (after a `fork`).
const MAX_WAIT_FOR_WAKERS: Duration = Duration::from_secs(1);

pub(crate) struct Core {
    pub(crate) engine: Engine<RustHost>,
    pub(crate) main: MainSlot,
    pub(super) exceptions: Exceptions,
    pub(super) name: String,
    pub(super) is_running: Cell<bool>,
    pub(super) is_closed: Cell<bool>,
    /// New work is refused on this thread too, as a sealed inbox does for the others.
    pub(crate) is_sealed: Cell<bool>,
    pub(super) timers_made: Cell<u64>,
    /// The tasks that are not done.
    tasks: RefCell<Slab<Rc<dyn AnyTask>>>,
    pub(crate) task_factory: FactorySlot,
    /// How many futures of tasks exist.
    pub(crate) live_futures: Cell<usize>,
    /// Keeps the loop from being idle until there are none.
    keep_alive_while_tasks: Cell<Option<KeepAlive>>,
    pub(crate) tasks_made: Cell<u64>,
    pub(super) executor_config: ExecutorConfig,
    pub(super) executor: RefCell<Option<Arc<Executor>>>,
    /// Looks names up in place of the system; set by the builder.
    pub(crate) resolver: OnceCell<Rc<dyn Resolver>>,
    pub(super) retained: RetainedList,
    #[cfg(not(loom))]
    pub(crate) signals: crate::signal::CaughtSignals,
}

impl Core {
    pub(super) fn new(engine: Engine<RustHost>, name: String, executor_config: ExecutorConfig) -> Rc<Self> {
        let core = Rc::new(Core {
            engine,
            main: MainSlot::default(),
            exceptions: Exceptions::default(),
            name,
            is_running: Cell::new(false),
            is_closed: Cell::new(false),
            is_sealed: Cell::new(false),
            timers_made: Cell::new(0),
            tasks: RefCell::default(),
            task_factory: FactorySlot::default(),
            live_futures: Cell::new(0),
            keep_alive_while_tasks: Cell::new(None),
            tasks_made: Cell::new(0),
            executor_config,
            executor: RefCell::default(),
            resolver: OnceCell::new(),
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

    /// The time by the loop's clock.
    pub(crate) fn now(&self) -> Time {
        Time(self.engine.now())
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.get() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Makes a call ready; a closed loop drops it.
    pub(crate) fn call_soon(&self, call: Call) {
        if self.is_closed.get() {
            drop(call);
        } else {
            self.engine.call_soon(call);
        }
    }

    pub(crate) fn call_exception_handler(&self, context: &ExceptionContext) {
        self.exceptions.call_handler(context);
    }

    /// Tells of a failure in the middle of what a program has asked of a transport.
    #[cold]
    #[inline(never)]
    pub(crate) fn transport_failed(&self, failure: Failure) {
        self.call_exception_handler(&ExceptionContext::of_failure("A transport failed", failure));
    }

    /// The executor that is in use, made when it is first asked for.
    pub(crate) fn executor(&self) -> Arc<Executor> {
        let make = || Arc::new(Executor::new(self.executor_config.clone()));
        Arc::clone(self.executor.borrow_mut().get_or_insert_with(make))
    }

    /// Drops what is the user's; a destructor that panics is reported. One by one: two that panic in one drop would end
    /// the process.
    fn drop_each<T>(&self, values: Vec<T>) {
        for value in values {
            if let Err(text) = catch(|| drop(value)) {
                self.call_exception_handler(&ExceptionContext::of_panic("A destructor panicked", text));
            }
        }
    }

    /// Closes the loop: nothing new is taken, and what is there is dropped here, on the loop's own thread.
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
        self.drop_futures_in_flight();
        self.release_retained();
        self.drop_each(self.engine.close());
    }

    /// Cancels all tasks. On a loop that is open, their futures are dropped in the next pass.
    pub(super) fn cancel_all_tasks(&self) {
        for task in self.all_tasks() {
            task.meta().cancel();
        }
    }

    /// The tasks that are not done, in no order.
    pub(crate) fn all_tasks(&self) -> Vec<Rc<dyn AnyTask>> {
        self.tasks.borrow().iter().map(|(_, task)| Rc::clone(task)).collect()
    }

    /// Keeps the loop from being idle until the tasks that there are have ended. The loop cannot see what wakes a task
    /// that awaits a future of another library.
    pub(crate) fn keep_alive_for_tasks(&self) {
        let keep_alive = (self.live_futures.get() > 0).then(|| KeepAlive::new(self.inbox()));
        self.keep_alive_while_tasks.set(keep_alive);
    }

    /// The future of a task is gone.
    pub(crate) fn future_ended(&self) {
        let left = self.live_futures.get().saturating_sub(1);
        self.live_futures.set(left);
        if left == 0 {
            self.keep_alive_while_tasks.set(None);
        }
    }

    /// Lists a task, and gives the place where.
    pub(crate) fn insert_task(&self, task: Rc<dyn AnyTask>) -> usize {
        self.tasks.borrow_mut().insert(task)
    }

    /// Takes a task out of the list.
    pub(crate) fn remove_task(&self, place: usize) {
        let task = self.tasks.borrow_mut().try_remove(place);
        drop(task);
    }

    /// A future is dropped by whoever takes the step that its task has coming. Such a step may be in the inbox,
    /// or on its way there in another thread; it must not be refused there, because the future has to be
    /// dropped here.
    fn drop_futures_in_flight(&self) {
        let deadline = Instant::now() + MAX_WAIT_FOR_WAKERS;
        loop {
            let mut arrived = Vec::new();
            self.inbox().drain_into(&mut arrived);
            self.drop_each(arrived);
            if self.live_futures.get() == 0 || Instant::now() >= deadline {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Makes a step ready from any thread: on the loop's own thread behind what is ready there (asyncio: in the
/// order of `call_soon`), from any other through the inbox. `Err` if the loop is closed, or is sealed and this is new
/// work.
pub(crate) fn wake_call(inbox: &Arc<Inbox<Inbound>>, call: Inbound) -> Result<(), Error> {
    let is_new_work = matches!(call, Inbound::Once(_));
    if let Some(core) = running::find_loop(inbox) {
        core.check_open()?;
        if is_new_work && core.is_sealed.get() {
            return Err(Error::ShutDown);
        }
        let call = call.into();
        core.engine.call_soon_in(core.engine.host().lane(&call), call);
        return Ok(());
    }
    let pushed = if is_new_work { inbox.submit(call) } else { inbox.push(call) };
    match pushed {
        Ok(()) => Ok(()),
        Err(refused) => {
            if let Inbound::Task(step) = refused.0 {
                // Its future belongs to the loop's thread. Closing has waited for it and given up: leaking it
                // is what is left.
                std::mem::forget(step);
            }
            Err(if inbox.is_closed() { Error::Closed } else { Error::ShutDown })
        }
    }
}

/// [`wake_call`] for a step of a task, which knows where it belongs.
pub(crate) fn wake_step(step: Step) {
    if let Err(step) = running::call_soon_if_running(step) {
        let inbox = Arc::clone(&step.metadata().inbox);
        // A closed loop has no use for it: the future is dropped with the step, or was before.
        let _ = wake_call(&inbox, Inbound::Task(step));
    }
}
