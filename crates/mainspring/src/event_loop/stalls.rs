//! Stall detection: reports a call that blocks the loop, from a thread of its own.
//!
//! While the loop is watched, it stores the number of the running call where the watching thread reads it. Names and
//! origins of tasks are in a table that changes when a task starts, ends or is renamed. A loop that is not watched does
//! neither.

use super::{Core, EventLoop, ExceptionContext, exception_handler};
use crate::error::Error;
use crate::host::Call;
use crate::panics::catch;
use crate::remote::Remote;
use crate::task::TaskId;
use mainspring_engine::stalls::{StallEvent, StallWatch};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A call that blocks its loop: see [`EventLoop::watch_stalls`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// What the loop runs, in words.
    pub call: &'static str,
    /// The name of the task, if the call is a step of one.
    pub task_name: Option<String>,
    /// Where the task was spawned.
    pub spawned_at: Option<&'static Location<'static>>,
    /// For how long the loop was blocked when the stall was found.
    pub elapsed: Duration,
    /// For how long the loop was blocked altogether, to within a fifth of the limit; `None` while it still is.
    pub total: Option<Duration>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            None => write!(f, "The loop has been blocked for {:.3} seconds by ", self.elapsed.as_secs_f64())?,
            Some(total) => write!(f, "The loop was blocked for {:.3} seconds by ", total.as_secs_f64())?,
        }
        match (&self.task_name, self.spawned_at) {
            (Some(name), Some(location)) => write!(f, "a step of {name}, spawned at {location}"),
            _ => f.write_str(self.call),
        }
    }
}

/// The numbers of calls; those of tasks are their identifiers above these.
const CALLS: [&str; 8] = [
    "a call that has returned",
    "a callback",
    "a call from another thread",
    "a step of a task",
    "the main future",
    "the callback of a descriptor or a signal",
    "a protocol's callback",
    "the loop",
];

fn number_of(call: &Call) -> u64 {
    match call {
        Call::Handle(..) => 1,
        Call::Once(_) => 2,
        Call::Task(step) => CALLS.len() as u64 + step.header().id().number(),
        Call::Wake(_) => 3,
        Call::Main(_) => 4,
        Call::Watch(_) => 5,
        Call::Io(..) | Call::Deferred(..) => 6,
        Call::MainDone(_) | Call::Stop => 7,
    }
}

struct TaskOrigin {
    name: String,
    location: &'static Location<'static>,
}

/// What the watching thread reads.
#[derive(Default)]
struct Running {
    call: AtomicU64,
    tasks: Mutex<HashMap<u64, TaskOrigin>>,
}

impl Running {
    fn tasks(&self) -> MutexGuard<'_, HashMap<u64, TaskOrigin>> {
        // No foreign code runs under the lock.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, elapsed: Duration) -> Stall {
        let number = self.call.load(Ordering::Relaxed);
        let call = usize::try_from(number).ok().and_then(|number| CALLS.get(number).copied());
        let tasks = self.tasks();
        let task = number.checked_sub(CALLS.len() as u64).and_then(|id| tasks.get(&id));
        Stall {
            call: call.unwrap_or(CALLS[3]),
            task_name: task.map(|task| task.name.clone()),
            spawned_at: task.map(|task| task.location),
            elapsed,
            total: None,
        }
    }
}

/// The part of a host that shows what it runs.
#[derive(Default)]
pub(crate) struct RunningCall {
    shown: RefCell<Option<Arc<Running>>>,
    is_watched: std::cell::Cell<bool>,
}

impl RunningCall {
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.get()
    }

    fn shown(&self) -> Option<Arc<Running>> {
        self.shown.borrow().clone()
    }

    fn set(&self, shown: Option<Arc<Running>>) {
        self.is_watched.set(shown.is_some());
        drop(self.shown.replace(shown));
    }

    /// Shows `call` while `run` runs it.
    pub(crate) fn show(&self, call: Call, run: impl FnOnce(Call)) {
        let Some(shown) = self.shown() else { return run(call) };
        let outer = shown.call.load(Ordering::Relaxed);
        shown.call.store(number_of(&call), Ordering::Relaxed);
        run(call);
        shown.call.store(outer, Ordering::Relaxed);
    }

    /// A task has started, or has a new name.
    pub(crate) fn task_named(&self, id: TaskId, name: impl fmt::Display, at: &'static Location<'static>) {
        if let Some(shown) = self.shown() {
            shown.tasks().insert(id.number(), TaskOrigin { name: name.to_string(), location: at });
        }
    }

    /// A task is done.
    pub(crate) fn task_done(&self, id: TaskId) {
        if let Some(shown) = self.shown() {
            shown.tasks().remove(&id.number());
        }
    }
}

impl EventLoop {
    /// Reports calls that block the loop for longer than `limit`, while they do. Replaces the former watch.
    ///
    /// `report` runs on a thread of its own: once while the call blocks, and again when it has returned. Then
    /// [`Stall::total`] is set. If it panics, the exception handler of the loop is called.
    ///
    /// While the loop is watched, every call stores its number, and starting and ending a task takes a lock.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the loop is closed, [`Error::Io`] if the system refuses a thread.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let (sender, reports) = mpsc::channel();
    /// event_loop.watch_stalls(Duration::from_millis(5), move |stall| drop(sender.send(stall.clone())))?;
    /// event_loop.run_until_complete(mainspring::TaskBuilder::new().name("culprit").spawn_on(
    ///     &event_loop,
    ///     // Blocks until the report is there.
    ///     async move { assert_eq!(reports.recv().unwrap().task_name.as_deref(), Some("culprit")) },
    /// )?)?
    /// .unwrap();
    /// event_loop.unwatch_stalls();
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn watch_stalls(
        &self,
        limit: Duration,
        report: impl FnMut(&Stall) + Send + 'static,
    ) -> Result<(), Error> {
        let core = self.core();
        core.check_open()?;
        let running = Arc::<Running>::default();
        let slot = core.engine.host().running_call();
        slot.set(Some(Arc::clone(&running)));
        for task in core.all_tasks() {
            task.header().show_to(slot);
        }
        let watch = core.engine.watch_stalls(limit);
        let remote = self.remote();
        let spawned = thread::Builder::new()
            .name("mainspring-stalls".to_owned())
            .spawn(move || report_stalls(watch, &running, &remote, report));
        if let Err(error) = spawned {
            self.unwatch_stalls();
            return Err(error.into());
        }
        Ok(())
    }

    /// Ends the watch of [`EventLoop::watch_stalls`].
    pub fn unwatch_stalls(&self) {
        self.core().engine.unwatch_stalls();
        self.core().engine.host().running_call().set(None);
    }
}

/// The watching thread.
fn report_stalls(
    mut watch: StallWatch,
    running: &Running,
    remote: &Remote,
    mut report: impl FnMut(&Stall) + Send + 'static,
) {
    let mut latest: Option<Stall> = None;
    while let Some(event) = watch.wait() {
        let stall = match event {
            StallEvent::Blocked(elapsed) => {
                let found = running.describe(elapsed);
                // The loop may have gone on in between.
                let unknown =
                    Stall { call: CALLS[0], task_name: None, spawned_at: None, elapsed, total: None };
                if watch.is_blocked() { found } else { unknown }
            }
            StallEvent::Ended(total) => match latest.take() {
                Some(stall) => Stall { total: Some(total), ..stall },
                None => continue,
            },
        };
        if let Err(text) = catch(|| report(&stall)) {
            report_panicked(remote, text);
        }
        latest = Some(stall);
    }
}

fn report_panicked(remote: &Remote, text: String) {
    let context = |text| ExceptionContext::from_panic("The report of a stall panicked", text);
    let lost = text.clone();
    let sent = remote.call_soon_threadsafe(move || exception_handler::report_here(&context(text)));
    if sent.is_err() {
        exception_handler::write_to_stderr(&context(lost));
    }
}

impl Core {
    /// What the loop shows of its tasks while it is watched.
    pub(crate) fn running_call(&self) -> &RunningCall {
        self.engine.host().running_call()
    }
}
