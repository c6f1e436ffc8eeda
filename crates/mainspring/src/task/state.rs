//! [`TaskHeader`]: what a task and its handles share, except for the result. It is part of the task's cell
//! ([`cell`](super::cell)).
//!
//! # Rules of the phase
//!
//! - `Running` from the beginning.
//! - `Cancelling` after a cancellation: the future is not dropped yet. The step that drops it is in the normal lane if
//!   the task is in the background lane.
//! - `Finished`, `Cancelled` or `Panicked` after the future is dropped. The loop no longer lists the task, and its
//!   callbacks are scheduled.

use super::cell::{AnyTask, DirectSink, TaskRef, allocate};
use super::context::{ContextSlot, copy_current};
use super::{JoinError, TaskHandle, WaitReason};
use crate::event_loop::{Core, ExceptionContext, RunningCall, with_running_core};
use crate::handle::{Once, debug_lane};
use crate::host::Call;
use crate::lane::{Lane, OverdueLimit, Priority};
use crate::panics::catch;
use mainspring_engine::ready_queue::Lane as EngineLane;
use std::cell::Cell;
use std::fmt;
use std::future::Pending;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

/// The number of a task on its loop, from 1. No number is used twice.
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn(async { mainspring::current_task().map(|task| task.id()) });
/// let id = task.id();
/// assert_eq!(task.name(), format!("Task-{id}"));
/// assert_eq!(task.await, Ok(Some(id)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a task in messages.
#[derive(Clone)]
pub(crate) struct TaskName {
    pub(super) id: TaskId,
    given: Option<String>,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.given {
            Some(name) => f.write_str(name),
            None => write!(f, "Task-{}", self.id),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Cancelling,
    Finished,
    Cancelled,
    Panicked,
}

pub(super) type DoneCallback = Box<dyn FnOnce(&TaskHandle)>;

/// The part that does not depend on the type of the result.
pub(crate) struct TaskHeader {
    core: Weak<Core>,
    id: TaskId,
    /// Where the task was spawned.
    location: &'static Location<'static>,
    phase: Cell<Phase>,
    lane: Lane,
    /// The next step is in the normal lane.
    is_promoted: Cell<bool>,
    /// The result will not be taken.
    pub(super) is_detached: Cell<bool>,
    /// The index of the task in the core's list, or [`UNLISTED`].
    list_index: Cell<u32>,
    pub(super) context: ContextSlot,
    extras: Cell<Option<Box<Extras>>>,
}

/// Data that few tasks have.
#[derive(Default)]
struct Extras {
    name: Option<String>,
    waits_for: Option<WaitReason>,
    /// How long a step may wait in the background lane, if that is not the limit of the loop.
    limit: Option<Duration>,
    callbacks: Vec<DoneCallback>,
}

/// The index of a task that the core does not list.
const UNLISTED: u32 = u32::MAX;

pub(super) enum Progress<T> {
    Running(Option<Waker>),
    Finished(Result<T, JoinError>),
    Taken,
}

impl TaskHeader {
    pub(crate) fn id(&self) -> TaskId {
        self.id
    }

    pub(crate) fn task_name(&self) -> TaskName {
        let extras = self.extras.take();
        let given = extras.as_ref().and_then(|extras| extras.name.clone());
        self.extras.set(extras);
        TaskName { id: self.id, given }
    }

    /// Calls `f` with the extras, which are taken out of the cell: `f` must not run foreign code.
    fn with_extras<R>(&self, f: impl FnOnce(&mut Extras) -> R) -> R {
        let mut extras = self.extras.take().unwrap_or_default();
        let result = f(&mut extras);
        self.extras.set(Some(extras));
        result
    }

    #[inline]
    fn has_extras(&self) -> bool {
        let extras = self.extras.take();
        let has_extras = extras.is_some();
        self.extras.set(extras);
        has_extras
    }

    fn take_callbacks(&self) -> Vec<DoneCallback> {
        let mut extras = self.extras.take();
        let callbacks = extras.as_mut().map(|extras| std::mem::take(&mut extras.callbacks));
        self.extras.set(extras);
        callbacks.unwrap_or_default()
    }

    pub(super) fn set_name(&self, name: String) {
        self.with_extras(|extras| extras.name = Some(name));
        if let Some(core) = self.core().filter(|core| core.running_call().is_watched() && !self.is_done()) {
            self.show_to(core.running_call());
        }
    }

    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.location
    }

    /// Shows the name and the origin of the task to a thread that watches for stalls.
    pub(crate) fn show_to(&self, running: &RunningCall) {
        running.task_named(self.id, self.task_name(), self.location);
    }

    /// Records what the step of the task waits for.
    pub(super) fn record_wait(&self, waits_for: Option<WaitReason>) {
        self.with_extras(|extras| extras.waits_for = waits_for);
    }

    /// What [`TaskHeader::record_wait`] has recorded.
    pub(crate) fn waits_for(&self) -> Option<WaitReason> {
        let extras = self.extras.take();
        let waits_for = extras.as_ref().and_then(|extras| extras.waits_for);
        self.extras.set(extras);
        waits_for
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn is_done(&self) -> bool {
        !matches!(self.phase.get(), Phase::Running | Phase::Cancelling)
    }

    /// A cancellation that is requested, and has not dropped the future yet.
    pub(super) fn is_cancelling(&self) -> bool {
        self.phase.get() == Phase::Cancelling
    }

    /// Begins a cancellation. Returns `false` if the task is done, or was cancelled before.
    pub(super) fn begin_cancel(&self) -> bool {
        let is_running = self.phase.get() == Phase::Running;
        if is_running {
            self.phase.set(Phase::Cancelling);
        }
        is_running
    }

    /// The lane of the steps.
    pub(super) fn lane(&self) -> Lane {
        self.lane
    }

    /// How long a step may wait in the background lane. `None`: the limit of the loop.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let extras = self.extras.take();
        let limit = extras.as_ref().and_then(|extras| extras.limit);
        self.extras.set(extras);
        limit
    }

    /// Whether all steps are in the normal lane.
    #[inline(always)]
    pub(crate) fn is_normal(&self) -> bool {
        self.lane == Lane::Normal
    }

    /// The lane of the next step.
    #[inline(always)]
    pub(crate) fn next_lane(&self) -> EngineLane {
        if self.is_promoted.get() { EngineLane::Normal } else { self.lane.engine_lane() }
    }

    /// If the task is in the background lane, moves its next step to the normal lane, whether it is queued or not.
    pub(super) fn promote(&self, core: &Core) {
        if self.lane == Lane::Background && core.check_open().is_ok() {
            self.is_promoted.set(true);
            core.engine.recheck_background();
        }
    }

    /// A step begins. Returns what it passes on to tasks and callbacks that it creates.
    pub(crate) fn begin_step(&self) -> Priority {
        self.is_promoted.set(false);
        Priority { lane: self.lane, limit: OverdueLimit::from(self.limit()) }
    }

    pub(super) fn core(&self) -> Option<Rc<Core>> {
        self.core.upgrade()
    }

    /// The loop lists the task.
    pub(super) fn set_listed(&self, list_index: usize) {
        // No program has so many tasks that the index does not fit: they would take hundreds of gigabytes.
        self.list_index.set(u32::try_from(list_index).unwrap_or(UNLISTED));
    }

    /// The future is dropped. Runs no foreign code.
    #[inline(always)]
    fn done(&self, core: &Core) {
        let list_index = self.list_index.replace(UNLISTED);
        if list_index != UNLISTED {
            core.remove_task(list_index as usize);
            if core.running_call().is_watched() {
                core.running_call().task_done(self.id);
            }
        }
    }

    /// Runs foreign code at the end of the task, and reports its panic.
    pub(super) fn catch(&self, foreign: impl FnOnce()) {
        if let Err(text) = catch(foreign) {
            self.report(&text);
        }
    }

    /// The fields of the `Debug` output.
    pub(super) fn debug_fields(&self, output: &mut fmt::DebugStruct<'_, '_>) {
        output.field("name", &self.task_name().to_string());
        debug_lane(output, self.lane());
        output.field("phase", &self.phase());
    }

    pub(super) fn report(&self, text: &str) {
        if let Some(core) = self.core() {
            let message = format!("{} panicked and was never awaited", self.task_name());
            core.call_exception_handler(&ExceptionContext::from_panic(&message, text.to_owned()));
        }
    }
}

impl TaskHandle {
    /// Schedules `callback`, or stores it until the task is done.
    pub(super) fn call_when_done(&self, callback: DoneCallback) {
        let header = self.0.header();
        if header.is_done() {
            self.schedule(callback);
        } else {
            header.with_extras(|extras| extras.callbacks.push(callback));
        }
    }

    fn schedule(&self, callback: DoneCallback) {
        let header = self.0.header();
        let Some(core) = header.core() else { return };
        if core.check_open().is_ok() {
            let task = self.clone();
            core.call_soon(Call::Handle(Lane::Normal, Once::shared(move || callback(&task))));
        } else {
            let name = header.task_name();
            let message = format!("{name} was done after its loop was closed: its callback is not called");
            core.call_exception_handler(&ExceptionContext::new(message));
        }
    }
}

/// What a new task begins with.
pub(super) struct TaskOptions {
    pub(super) location: &'static Location<'static>,
    pub(super) name: Option<String>,
    pub(super) context: ContextSlot,
    pub(super) priority: Priority,
}

impl TaskOptions {
    /// The context and the priority of the current code.
    #[inline(always)]
    pub(super) fn inherited(location: &'static Location<'static>) -> Self {
        TaskOptions { location, name: None, context: copy_current(), priority: Priority::current() }
    }
}

impl TaskHeader {
    /// The header of a new task.
    #[inline(always)]
    pub(super) fn new(core: Option<&Rc<Core>>, options: TaskOptions) -> Self {
        let (core, number) = match core {
            Some(core) => {
                let number = core.tasks_made.get() + 1;
                core.tasks_made.set(number);
                (Rc::downgrade(core), number)
            }
            None => (Weak::new(), 0),
        };
        let TaskOptions { location, name, context, priority } = options;
        let limit = priority.limit.get();
        let has_extras = name.is_some() || limit.is_some();
        let extras = has_extras.then(|| Box::new(Extras { name, limit, ..Extras::default() }));
        TaskHeader {
            core,
            id: TaskId(number),
            location,
            phase: Cell::new(Phase::Running),
            lane: priority.lane,
            is_promoted: Cell::new(false),
            is_detached: Cell::new(false),
            list_index: Cell::new(UNLISTED),
            context,
            extras: Cell::new(extras),
        }
    }
}

impl<T: 'static> TaskRef<T> {
    /// A task that was refused.
    #[track_caller]
    pub(super) fn refused(core: Option<&Rc<Core>>) -> Self {
        let options = TaskOptions {
            location: Location::caller(),
            name: None,
            context: ContextSlot::default(),
            priority: Priority::NORMAL,
        };
        let task = allocate::<Pending<T>, DirectSink<T>>(core, options);
        task.settle(Err(JoinError::refused()));
        task
    }

    /// Sets the result, once, after the future is dropped. Does not panic.
    #[inline(always)]
    pub(super) fn settle(&self, result: Result<T, JoinError>) {
        let phase = match &result {
            Ok(_) => Phase::Finished,
            Err(error) if error.is_panic() => Phase::Panicked,
            Err(_) => Phase::Cancelled,
        };
        self.header.phase.set(phase);
        if with_running_core(self.any().inbox(), |core| self.header.done(core)).is_none()
            && let Some(core) = self.header.core()
        {
            self.header.done(&core);
        }
        if self.header.has_extras() {
            self.any().schedule_callbacks();
        }
        // Foreign code runs from here on; our own state is complete.
        if self.header.is_detached.get() {
            return self.discard(result);
        }
        let former = self.progress.replace(Progress::Finished(result));
        if let Progress::Running(Some(waker)) = former {
            self.header.catch(|| waker.wake());
        }
    }

    /// The result will not be taken.
    #[inline(never)]
    fn discard(&self, result: Result<T, JoinError>) {
        match result {
            Err(error) if error.is_panic() => self.header.report(error.panic_text().unwrap_or_default()),
            unwanted => self.header.catch(|| drop(unwanted)),
        }
    }
}

impl AnyTask {
    #[inline(never)]
    fn schedule_callbacks(&self) {
        let handle = TaskHandle(self.clone());
        self.header().take_callbacks().into_iter().for_each(|callback| handle.schedule(callback));
    }
}
