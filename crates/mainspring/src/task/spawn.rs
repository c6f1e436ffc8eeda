//! [`spawn`], [`TaskBuilder`], and the function that makes a future a task of the loop.

use super::Task;
use super::cell::{DirectSink, ResultSink, TaskRef, make_task};
use super::context::{self, Context};
use super::state::TaskOptions;
use crate::error::Error;
use crate::event_loop::{Core, EventLoop, instrumented, panic_without_loop, with_current_core};
use crate::lane::{Lane, OverdueLimit, Priority};
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

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
    let location = Location::caller();
    match with_current_core(|core| Task::start_at(core, location, future.into_future())) {
        Some(task) => task,
        None => panic_without_loop(),
    }
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

/// Starts a task with a name, a context, or a lane and its limit. It stays on its thread (`!Send`).
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
    lane: Option<Lane>,
    max_overdue: Option<Duration>,
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

    /// Sets the lane of the task's steps. The default is [`current_lane`](crate::current_lane).
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
        TaskBuilder { lane: Some(lane), ..self }
    }

    /// Limits how long a step of the task waits in [`Lane::Background`]. After this time it runs before the next normal
    /// call. The default is the limit that the current code has in that lane, otherwise that of the loop:
    /// [`EventLoop::set_max_overdue`]. Ignored in other lanes.
    ///
    /// ```
    /// use mainspring::{Lane, TaskBuilder, yield_now};
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let cleanup =
    ///     TaskBuilder::new().lane(Lane::Background).max_overdue(Duration::from_millis(1)).spawn(async {});
    /// while !cleanup.is_finished() {
    ///     yield_now().await; // The loop is never idle.
    /// }
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn max_overdue(self, limit: Duration) -> Self {
        TaskBuilder { max_overdue: Some(limit), ..self }
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
        let mut priority = self.lane.map_or_else(Priority::current, Priority::in_lane);
        if let Some(limit) = self.max_overdue {
            priority.limit = OverdueLimit::new(limit);
        }
        let options = TaskOptions { location: Location::caller(), name: self.name, context, priority };
        start_task_with(core, options, |_| DirectSink(PhantomData), future)
    }
}

impl<T: 'static> Task<T> {
    /// Starts a task.
    #[track_caller]
    pub(crate) fn start(core: &Rc<Core>, future: impl Future<Output = T> + 'static) -> Self {
        Self::start_at(core, Location::caller(), future)
    }

    #[inline]
    fn start_at(
        core: &Rc<Core>,
        location: &'static Location<'static>,
        future: impl Future<Output = T> + 'static,
    ) -> Self {
        start_task_with(core, TaskOptions::inherited(location), |_| DirectSink(PhantomData), future)
    }
}

/// Makes `future` a task of the loop, in the lane of the current code. Calls the task factory if there is one.
#[track_caller]
pub(super) fn start_task<F, S>(
    core: &Rc<Core>,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: F,
) -> Task<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    start_task_with(core, TaskOptions::inherited(Location::caller()), sink, future)
}

/// [`start_task`] with options.
#[inline]
fn start_task_with<F, S>(
    core: &Rc<Core>,
    options: TaskOptions,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: F,
) -> Task<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    if core.debug_mode().is_on() || core.is_virtual || core.task_factory.is_set() {
        // Boxed, so that the future is not in memory before it is in its cell. Otherwise the processor waits for the
        // copy. With `Engine::call_soon_with`: a quarter of the row `spawn` of `bench/peers`.
        start_observed(core, options, sink, Box::new(future))
    } else {
        schedule(core, options, sink, |_| future)
    }
}

/// Starts a task with a factory, in debug mode or in virtual time.
#[cold]
#[inline(never)]
fn start_observed<F, S>(
    core: &Rc<Core>,
    options: TaskOptions,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: Box<F>,
) -> Task<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    match core.task_factory.get() {
        None => start_wrapped(core, options, sink, |_| *future),
        Some(factory) => start_wrapped(core, options, sink, |task| factory.wrap(task, *future)),
    }
}

fn start_wrapped<F, S>(
    core: &Rc<Core>,
    options: TaskOptions,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: impl FnOnce(&TaskRef<S::Value>) -> F,
) -> Task<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    if core.debug_mode().is_on() || core.is_virtual {
        let location = options.location;
        let weak = Rc::downgrade(core);
        schedule(core, options, sink, |task| instrumented(weak, future(task), location))
    } else {
        schedule(core, options, sink, future)
    }
}

/// Schedules the first step.
#[inline]
fn schedule<F, S>(
    core: &Rc<Core>,
    options: TaskOptions,
    sink: impl FnOnce(&TaskRef<S::Value>) -> S,
    future: impl FnOnce(&TaskRef<S::Value>) -> F,
) -> Task<S::Value>
where
    F: Future<Output = S::Output> + 'static,
    S: ResultSink<Output: 'static> + 'static,
{
    let (task, step) = make_task(core, options, sink, future);
    if core.is_closed() {
        // The code that made the future, or the factory, has closed the loop. Dropping the step settles the task.
        drop(step);
        return Task { state: task };
    }
    task.header.set_listed(core.insert_task(task.any().clone()));
    if core.running_call().is_watched() {
        task.header.show_to(core.running_call());
    }
    core.schedule_step(step);
    Task { state: task }
}
