//! Why a run in virtual time ended: `Deadlock` and `RealIoError`, and the tasks at that moment.

use crate::event_loop::Core;
use crate::task::{TaskId, WaitReason};
use std::fmt;
use std::os::fd::RawFd;
use std::panic::Location;

/// A task that was not done when a run ended.
///
/// ```
/// use mainspring::testing::{self, StuckTask};
///
/// let stuck = testing::run(std::future::pending::<()>());
/// let Err(mainspring::Error::Deadlock(deadlock)) = stuck else { panic!("{stuck:?}") };
/// let main: &StuckTask = &deadlock.tasks()[0];
/// assert_eq!(main.to_string(), "the main future waits for an unknown event");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckTask {
    /// The name of the task; `None` for the future of the run itself.
    pub name: Option<String>,
    /// Where the task was spawned, if that is known.
    pub spawned_at: Option<&'static Location<'static>>,
    /// What the task waits for, if that is known: a future of another library does not say. Of several futures that a
    /// task awaits together, the one that was polled last.
    pub waits_for: Option<String>,
}

impl fmt::Display for StuckTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("the main future"))?;
        if let Some(location) = self.spawned_at {
            write!(f, ", spawned at {location},")?;
        }
        write!(f, " waits for {}", self.waits_for.as_deref().unwrap_or("an unknown event"))
    }
}

/// Nothing can ever continue the program: no call is ready, no timer is set, and no socket, thread or signal can make a
/// call ready. Returned as [`Error::Deadlock`](crate::Error::Deadlock) by
/// [`EventLoop::run_until_complete`](crate::EventLoop::run_until_complete) on a loop with a
/// [`VirtualClock`](super::VirtualClock).
///
/// The loop does not see a waker that the program has passed to another thread. Such a program needs a
/// [`KeepAlive`](crate::KeepAlive). A [`Remote`](crate::Remote) and a signal handler count as someone who may continue
/// it.
///
/// ```
/// use mainspring::sync::Event;
/// use mainspring::{Error, spawn_named, testing};
///
/// let stuck = testing::run(async {
///     spawn_named("worker", async { Event::new().wait().await }).await.unwrap();
/// });
/// let Err(Error::Deadlock(deadlock)) = stuck else { panic!("{stuck:?}") };
/// let [main, worker] = deadlock.tasks() else { panic!("{deadlock}") };
/// assert_eq!(main.waits_for.as_deref(), Some("worker"));
/// assert_eq!(worker.name.as_deref(), Some("worker"));
/// assert_eq!(worker.waits_for.as_deref(), Some("Event::wait"));
/// ```
#[derive(Clone, Debug)]
pub struct Deadlock {
    tasks: Vec<StuckTask>,
}

impl Deadlock {
    /// The future of the run and all tasks that are not done, in the order of creation.
    pub fn tasks(&self) -> &[StuckTask] {
        &self.tasks
    }

    pub(crate) fn new(core: &Core) -> Self {
        Deadlock { tasks: stuck_tasks(core) }
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadlock: nothing can continue the program")?;
        self.tasks.iter().try_for_each(|task| write!(f, "\n  {task}"))
    }
}

impl std::error::Error for Deadlock {}

/// The program waits for something outside of its loop, which [`RealIo::Refuse`](super::RealIo::Refuse) forbids. Returned
/// as [`Error::RealIo`](crate::Error::RealIo).
///
/// ```
/// use mainspring::net::TcpListener;
/// use mainspring::testing::{Options, RealIo};
///
/// let waited = Options::new().real_io(RealIo::Refuse).run(async {
///     TcpListener::bind("127.0.0.1:0").await?.accept().await
/// });
/// let Err(mainspring::Error::RealIo(refused)) = waited else { panic!("{waited:?}") };
/// assert_eq!(refused.descriptors().len(), 1);
/// assert_eq!(refused.tasks()[0].waits_for.as_deref(), Some("accept"));
/// ```
#[derive(Clone, Debug)]
pub struct RealIoError {
    descriptors: Vec<String>,
    tasks: Vec<StuckTask>,
}

impl RealIoError {
    /// The file descriptors that the loop would wait for, with their addresses as far as they are known.
    pub fn descriptors(&self) -> &[String] {
        &self.descriptors
    }

    /// The future of the run and all tasks that are not done, in the order of creation.
    pub fn tasks(&self) -> &[StuckTask] {
        &self.tasks
    }

    pub(crate) fn new(core: &Core, fds: &[RawFd]) -> Self {
        let descriptors = fds.iter().map(|&fd| mainspring_engine::poller::describe(fd)).collect();
        RealIoError { descriptors, tasks: stuck_tasks(core) }
    }
}

impl fmt::Display for RealIoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "real I/O is refused, but the program waits for {}", self.descriptors.join(", "))?;
        self.tasks.iter().try_for_each(|task| write!(f, "\n  {task}"))
    }
}

impl std::error::Error for RealIoError {}

fn stuck_tasks(core: &Core) -> Vec<StuckTask> {
    let mut tasks = core.all_tasks();
    tasks.sort_by_key(|task| task.header().id());
    let name_of = |id: TaskId| {
        let awaited = tasks.iter().find(|task| task.header().id() == id);
        awaited.map_or_else(|| format!("Task-{id}"), |task| task.header().task_name().to_string())
    };
    let describe = |reason: Option<WaitReason>| {
        reason.map(|reason| match reason {
            WaitReason::Event(name) => name.to_owned(),
            WaitReason::Task(id) => name_of(id),
        })
    };
    let main_futures = core.main.waits().into_iter().map(|reason| StuckTask {
        name: None,
        spawned_at: None,
        waits_for: describe(reason),
    });
    let others = tasks.iter().map(|task| StuckTask {
        name: Some(task.header().task_name().to_string()),
        spawned_at: Some(task.header().spawned_at()),
        waits_for: describe(task.header().waits_for()),
    });
    main_futures.chain(others).collect()
}
