//! [`TaskState`]: the state that a task and its handles share. Everything except the result is in [`TaskHeader`].
//!
//! # Rules of the phase
//!
//! - `Running` from the beginning. The canceller is set when the task is started.
//! - `Cancelling` after a cancellation: the canceller is dropped, the future is not yet. The step that drops it is in
//!   the normal lane if the task is in the background lane.
//! - `Finished`, `Cancelled` or `Panicked` after the future is dropped. The loop no longer lists the task, and its
//!   callbacks are scheduled.

use super::context::ContextSlot;
use super::{JoinError, TaskHandle, WaitReason};
use crate::event_loop::{Core, ExceptionContext, RunningCall};
use crate::handle::{Once, debug_lane};
use crate::host::{Call, Canceller};
use crate::lane::Lane;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::task::Waker;

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

/// A task with any type of result.
pub(crate) trait AnyTask {
    fn header(&self) -> &TaskHeader;
}

pub(super) type DoneCallback = Box<dyn FnOnce(&TaskHandle)>;

/// The part that does not depend on the type of the result.
pub(crate) struct TaskHeader {
    core: Weak<Core>,
    id: TaskId,
    /// Where the task was spawned.
    location: &'static Location<'static>,
    phase: Cell<Phase>,
    /// The lane of the steps, when the task is started.
    lane: Cell<Lane>,
    /// The result will not be taken.
    pub(super) is_detached: Cell<bool>,
    /// The index of the task in the core's list, or [`UNLISTED`].
    list_index: Cell<usize>,
    /// Dropping it cancels the task.
    canceller: Cell<Option<Canceller>>,
    pub(super) context: ContextSlot,
    extras: Cell<Option<Box<Extras>>>,
}

/// Data that few tasks have.
#[derive(Default)]
struct Extras {
    name: Option<String>,
    waits_for: Option<WaitReason>,
    callbacks: Vec<DoneCallback>,
}

/// The index of a task that the core does not list.
const UNLISTED: usize = usize::MAX;

pub(super) struct TaskState<T> {
    pub(super) header: TaskHeader,
    pub(super) progress: RefCell<Progress<T>>,
}

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

    pub(crate) fn cancel(&self) -> bool {
        if self.phase.get() != Phase::Running {
            return false;
        }
        self.promote();
        self.phase.set(Phase::Cancelling);
        let canceller = self.canceller.take();
        drop(canceller);
        true
    }

    pub(super) fn lane(&self) -> Lane {
        self.lane.get()
    }

    /// If the task is in the background lane, moves its next step to the normal lane.
    pub(super) fn promote(&self) {
        if self.lane.get() != Lane::Background {
            return;
        }
        let canceller = self.canceller.take();
        if let (Some(canceller), Some(core)) = (&canceller, self.core()) {
            core.promote(canceller.metadata());
        }
        self.canceller.set(canceller);
    }

    pub(super) fn core(&self) -> Option<Rc<Core>> {
        self.core.upgrade()
    }

    /// The task is started and can be cancelled from now on. A cancellation that was requested earlier takes effect.
    pub(super) fn set_started(&self, list_index: usize, lane: Lane, canceller: Canceller) {
        self.list_index.set(list_index);
        self.lane.set(lane);
        self.canceller.set(Some(canceller));
        if self.phase.get() != Phase::Running {
            self.promote();
            drop(self.canceller.take());
        }
    }

    /// The future is dropped. Runs no foreign code.
    fn done(&self, phase: Phase) {
        self.phase.set(phase);
        if let Some(canceller) = self.canceller.take() {
            canceller.detach();
        }
        let list_index = self.list_index.replace(UNLISTED);
        if let Some(core) = self.core().filter(|_| list_index != UNLISTED) {
            core.future_ended();
            core.remove_task(list_index);
            if core.running_call().is_watched() {
                core.running_call().task_done(self.id);
            }
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

impl<T: 'static> TaskState<T> {
    /// The state of a new task.
    #[track_caller]
    pub(super) fn new(core: &Rc<Core>, name: Option<String>, context: ContextSlot) -> Rc<Self> {
        let number = core.tasks_made.get() + 1;
        core.tasks_made.set(number);
        Self::with_id(Rc::downgrade(core), TaskId(number), name, context)
    }

    /// The state of a task that was refused.
    #[track_caller]
    pub(super) fn refused(core: Option<&Rc<Core>>) -> Rc<Self> {
        let state = match core {
            Some(core) => Self::new(core, None, ContextSlot::default()),
            None => Self::with_id(Weak::new(), TaskId(0), None, ContextSlot::default()),
        };
        state.settle(Err(JoinError::refused()));
        state
    }

    #[track_caller]
    fn with_id(core: Weak<Core>, id: TaskId, name: Option<String>, context: ContextSlot) -> Rc<Self> {
        let extras = name.map(|name| Box::new(Extras { name: Some(name), ..Extras::default() }));
        Rc::new(TaskState {
            header: TaskHeader {
                core,
                id,
                location: Location::caller(),
                phase: Cell::new(Phase::Running),
                lane: Cell::new(Lane::Normal),
                is_detached: Cell::new(false),
                list_index: Cell::new(UNLISTED),
                canceller: Cell::new(None),
                context,
                extras: Cell::new(extras),
            },
            progress: RefCell::new(Progress::Running(None)),
        })
    }

    /// Sets the result, once, after the future is dropped.
    pub(super) fn settle(self: &Rc<Self>, result: Result<T, JoinError>) {
        self.header.done(match &result {
            Ok(_) => Phase::Finished,
            Err(error) if error.is_panic() => Phase::Panicked,
            Err(_) => Phase::Cancelled,
        });
        let callbacks = self.header.take_callbacks();
        if !callbacks.is_empty() {
            let handle = TaskHandle(Rc::clone(self) as Rc<dyn AnyTask>);
            callbacks.into_iter().for_each(|callback| handle.schedule(callback));
        }
        // Foreign code runs from here on; our own state is complete.
        if self.header.is_detached.get() {
            match result {
                Err(error) if error.is_panic() => self.header.report(error.panic_text().unwrap_or_default()),
                unwanted => drop(unwanted),
            }
        } else {
            let former = self.progress.replace(Progress::Finished(result));
            if let Progress::Running(Some(waker)) = former {
                waker.wake();
            }
        }
    }
}

impl<T> AnyTask for TaskState<T> {
    fn header(&self) -> &TaskHeader {
        &self.header
    }
}
