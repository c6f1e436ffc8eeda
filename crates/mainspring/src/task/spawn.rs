//! [`spawn`], [`TaskBuilder`], and the function that makes a future a task of the loop.

use super::Task;
use super::catch_unwind::{CatchUnwind, ResultSink, allocate_task};
use super::context::{self, Context};
use super::state::TaskState;
use crate::error::Error;
use crate::event_loop::{Core, EventLoop, timed};
use crate::host::Call;
use crate::lane::Lane;
use std::panic::Location;
use std::rc::Rc;

/// Runs `future` as a task on the current loop. Its first step is in the next iteration.
///
/// asyncio's `create_task`. The future need not be `Send`, and neither is the [`Task`].
///
/// # Panics
///
/// If no loop runs on this thread. [`EventLoop::spawn`](crate::EventLoop::spawn) works without.
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn(async { 6 * 7 });
/// assert_eq!(task.await, Ok(42));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[doc(alias = "create_task")]
#[doc(alias = "ensure_future")]
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: IntoFuture<IntoFuture: 'static, Output: 'static>,
{
    Task::start(EventLoop::current().core(), future.into_future())
}

/// [`spawn`] with a name, for messages.
///
/// # Panics
///
/// As [`spawn`].
///
/// ```
/// # mainspring::run(async {
/// let task = mainspring::spawn_named("answer", async { 6 * 7 });
/// assert_eq!(task.name(), "answer");
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn spawn_named<F>(name: impl Into<String>, future: F) -> Task<F::Output>
where
    F: IntoFuture<IntoFuture: 'static, Output: 'static>,
{
    TaskBuilder::new().name(name).spawn(future)
}

/// Starts a task with a name, a context or a lane. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::TaskBuilder;
/// use mainspring::context::Context;
///
/// # mainspring::run(async {
/// let task = TaskBuilder::new().name("clean").context(Context::new()).spawn(async { 6 * 7 });
/// assert_eq!(task.name(), "clean");
/// assert_eq!(task.await, Ok(42));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a builder starts nothing before `spawn`"]
pub struct TaskBuilder {
    name: Option<String>,
    context: Option<Context>,
    lane: Lane,
}

impl TaskBuilder {
    /// A builder with the defaults of [`spawn`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the task's name. The default is `Task-1` and so on.
    pub fn name(self, name: impl Into<String>) -> Self {
        TaskBuilder { name: Some(name.into()), ..self }
    }

    /// Sets the task's context variables. The default is a copy of the current ones.
    pub fn context(self, context: Context) -> Self {
        TaskBuilder { context: Some(context), ..self }
    }

    /// Sets the lane of the task's steps. The default is [`Lane::Normal`].
    ///
    /// ```
    /// use mainspring::{Lane, TaskBuilder};
    ///
    /// # mainspring::run(async {
    /// let background = TaskBuilder::new().lane(Lane::Background).spawn(async { "tidy" });
    /// let other = mainspring::spawn(async move { background.is_finished() });
    /// assert_eq!(other.await, Ok(false), "it has time");
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn lane(self, lane: Lane) -> Self {
        TaskBuilder { lane, ..self }
    }

    /// Starts the task on the current loop.
    ///
    /// # Panics
    ///
    /// As [`spawn`].
    ///
    /// ```
    /// use mainspring::TaskBuilder;
    ///
    /// # mainspring::run(async {
    /// let task = TaskBuilder::new().name("answer").spawn(async { 6 * 7 });
    /// assert_eq!(task.await, Ok(42));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> Task<F::Output>
    where
        F: IntoFuture<IntoFuture: 'static, Output: 'static>,
    {
        self.start(EventLoop::current().core(), future.into_future())
    }

    /// Starts the task on `event_loop`. [`Error::Closed`] if that is closed.
    ///
    /// ```
    /// use mainspring::{EventLoop, TaskBuilder};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let task = TaskBuilder::new().name("answer").spawn_on(&event_loop, async { 6 * 7 })?;
    /// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_on<F>(self, event_loop: &EventLoop, future: F) -> Result<Task<F::Output>, Error>
    where
        F: IntoFuture<IntoFuture: 'static, Output: 'static>,
    {
        event_loop.core().check_open()?;
        Ok(self.start(event_loop.core(), future.into_future()))
    }

    #[track_caller]
    fn start<T: 'static>(self, core: &Rc<Core>, future: impl Future<Output = T> + 'static) -> Task<T> {
        let context = self.context.map_or_else(context::copy_current, Context::into_slot);
        let state = TaskState::new(core, self.name, context);
        start_task_in(core, self.lane, Rc::clone(&state), future);
        Task { state }
    }
}

impl<T: 'static> Task<T> {
    /// Starts a task.
    #[track_caller]
    pub(crate) fn start(core: &Rc<Core>, future: impl Future<Output = T> + 'static) -> Self {
        let state = TaskState::new(core, None, context::copy_current());
        start_task(core, Rc::clone(&state), future);
        Task { state }
    }
}

/// Makes `future` a task of the loop. Calls the task factory if there is one.
#[track_caller]
pub(super) fn start_task<F, S>(core: &Rc<Core>, sink: S, future: F)
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    start_task_in(core, Lane::Normal, sink, future);
}

/// [`start_task`] with a lane.
#[track_caller]
fn start_task_in<F, S>(core: &Rc<Core>, lane: Lane, sink: S, future: F)
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    match core.task_factory.get() {
        None => start_wrapped(core, lane, sink, future),
        Some(factory) => {
            let wrapped = factory.wrap(sink.state(), future);
            start_wrapped(core, lane, sink, wrapped);
        }
    }
}

#[track_caller]
fn start_wrapped<F, S>(core: &Rc<Core>, lane: Lane, sink: S, future: F)
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    if core.check_open().is_err() {
        // The code that made the future, or the factory, has closed the loop. Dropping the guard settles the task.
        return drop(CatchUnwind::new(future, sink));
    }
    if core.debug_mode().is_on() {
        let future = timed(Rc::downgrade(core), future, Location::caller());
        schedule(core, lane, sink, future);
    } else {
        schedule(core, lane, sink, future);
    }
}

/// Schedules the first step.
fn schedule<F, S>(core: &Rc<Core>, lane: Lane, sink: S, future: F)
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    let state = Rc::clone(sink.state());
    core.live_futures.set(core.live_futures.get() + 1);
    let (step, canceller) = allocate_task(core, lane, CatchUnwind::new(future, sink));
    let list_index = core.insert_task(Rc::clone(&state) as _);
    state.header.set_started(list_index, canceller);
    core.engine.call_soon_in(lane.engine_lane(), Call::Task(step));
}
