//! A pool of threads for calls that block by nature: name lookups, files, whatever a program hands to
//! `run_in_executor`.
//!
//! # Rules
//!
//! - `idle` counts the threads that hold no job: those that wait, those that were told and have not looked
//!   yet, and those that were started and have not begun. A job that finds `queue.len() > idle` has nobody who
//!   is going to take it, and gets a new thread if there may be one. So idle threads are used first, and two
//!   jobs that wait for each other never share one thread while another could be started.
//! - Jobs are foreign code: they are taken, run and dropped outside of the lock, and what they throw stops at
//!   the thread's own loop.
//! - A thread ends when it has been idle too long, or at the shutdown when the queue is empty: every job
//!   that was accepted runs.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A call that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// How large an [`Executor`] grows, and what its threads are called.
///
/// ```
/// use mainspring::{Executor, ExecutorConfig};
/// use std::num::NonZeroUsize;
/// use std::sync::mpsc;
///
/// let one = ExecutorConfig { max_threads: NonZeroUsize::MIN, name_prefix: "disk".to_owned(), ..Default::default() };
/// let executor = Executor::new(one);
/// let (tell, told) = mpsc::channel();
/// for _ in 0..2 {
///     let tell = tell.clone();
///     let job = move || tell.send(std::thread::current().name().map(str::to_owned)).unwrap();
///     executor.submit(Box::new(job)).unwrap();
/// }
/// // Both ran on the only thread.
/// assert_eq!(told.recv().unwrap().as_deref(), Some("disk_0"));
/// assert_eq!(told.recv().unwrap().as_deref(), Some("disk_0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// The most threads at a time. asyncio's default: the number of CPUs and four more, 32 at most.
    pub max_threads: NonZeroUsize,
    /// Threads are called `{name_prefix}_{n}`, counted from 0 in the order they are started. Usually
    /// `mainspring-executor`; a program that knows asyncio's threads by `asyncio_0` says so here.
    pub name_prefix: String,
    /// A thread that had nothing to do for so long ends.
    pub idle_timeout: Duration,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        let cpus = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        ExecutorConfig {
            max_threads: cpus.saturating_add(4).min(NonZeroUsize::MIN.saturating_add(31)),
            name_prefix: "mainspring-executor".to_owned(),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// Why a job was not accepted; the job comes back. It is `Send` and not `Sync`, as the job is.
///
/// ```
/// use mainspring::Executor;
/// use mainspring::executor::SubmitError;
/// use std::sync::mpsc;
///
/// let executor = Executor::new(Default::default());
/// executor.shutdown(true);
/// let (tell, told) = mpsc::channel();
/// match executor.submit(Box::new(move || tell.send("done").unwrap())) {
///     // Then this thread does it.
///     Err(SubmitError::Closed(job) | SubmitError::NoThread(job, _)) => job(),
///     Ok(()) => unreachable!("it was shut down"),
/// }
/// assert_eq!(told.try_recv(), Ok("done"));
/// ```
pub enum SubmitError {
    /// The executor was shut down.
    Closed(Job),
    /// The pool has no thread, and the system gave none.
    NoThread(Job, io::Error),
}

impl fmt::Debug for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Closed(_) => f.write_str("Closed(..)"),
            SubmitError::NoThread(_, error) => f.debug_tuple("NoThread").field(error).finish_non_exhaustive(),
        }
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubmitError::Closed(_) => f.write_str("cannot schedule new jobs after shutdown"),
            SubmitError::NoThread(_, error) => write!(f, "can't start new thread: {error}"),
        }
    }
}

impl std::error::Error for SubmitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SubmitError::Closed(_) => None,
            SubmitError::NoThread(_, error) => Some(error),
        }
    }
}

/// A pool of threads for calls that block. Dropping it shuts it down without waiting.
///
/// A loop has one of its own; [`EventLoop::run_on`](crate::EventLoop::run_on) is for one that a program owns, and
/// [`EventLoop::set_default_executor`](crate::EventLoop::set_default_executor) for one that the loop is to have. It is
/// `Send` and `Sync`.
///
/// ```
/// use mainspring::{Executor, ExecutorConfig};
/// use std::sync::mpsc;
///
/// let executor = Executor::new(ExecutorConfig::default());
/// let (tell, told) = mpsc::channel();
/// executor.submit(Box::new(move || tell.send(6 * 7).unwrap())).unwrap();
/// // What was accepted still runs.
/// executor.shutdown(true);
/// assert_eq!(told.try_recv(), Ok(42));
/// assert!(executor.submit(Box::new(|| ())).is_err());
/// ```
pub struct Executor {
    shared: Arc<Shared>,
    /// Held while threads are joined, so that a second waiting shutdown waits as long as the first.
    joining: Mutex<()>,
}

struct Shared {
    config: ExecutorConfig,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<Job>,
    /// Threads that live.
    threads: usize,
    /// Of those, the ones that hold no job.
    idle: usize,
    /// Threads ever started; the next one's number.
    started: usize,
    is_shut_down: bool,
    /// Of every thread that lives, and of some that have ended.
    handles: Vec<JoinHandle<()>>,
}

thread_local! {
    /// The pool that this thread works for, by address; null on any other thread.
    static WORKS_FOR: Cell<*const Shared> = const { Cell::new(std::ptr::null()) };
}

impl Executor {
    /// A pool without threads; they are started as jobs come.
    pub fn new(mut config: ExecutorConfig) -> Self {
        // The system's thread names end at a zero byte, and std panics at one.
        config.name_prefix.retain(|c| c != '\0');
        let shared = Shared { config, state: Mutex::default(), changed: Condvar::new() };
        Executor { shared: Arc::new(shared), joining: Mutex::new(()) }
    }

    /// Queues `job` for the next thread that is free, and starts one if none is and there may be more.
    ///
    /// # Errors
    ///
    /// [`SubmitError`], with the job, if the executor is shut down, or has no thread and the system gave none.
    pub fn submit(&self, job: Job) -> Result<(), SubmitError> {
        let mut state = self.shared.lock();
        if state.is_shut_down {
            drop(state);
            return Err(SubmitError::Closed(job));
        }
        let wants_thread =
            state.queue.len() >= state.idle && state.threads < self.shared.config.max_threads.get();
        if wants_thread
            && let Err(error) = self.start_thread(&mut state)
            // A pool that has threads gets to the job when one of them is done.
            && state.threads == 0
        {
            drop(state);
            return Err(SubmitError::NoThread(job, error));
        }
        state.queue.push_back(job);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Refuses jobs from now on; those that were accepted still run. With `wait`, returns when all threads
    /// have ended, unless it is one of them that asks: it cannot wait for itself, and returns at once.
    pub fn shutdown(&self, wait: bool) {
        self.shared.lock().is_shut_down = true;
        self.shared.changed.notify_all();
        if !wait || WORKS_FOR.get() == Arc::as_ptr(&self.shared) {
            return;
        }
        let _joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = std::mem::take(&mut self.shared.lock().handles);
        for handle in handles {
            // A thread that panicked has ended as well, which is all that is asked here.
            let _ = handle.join();
        }
    }

    fn start_thread(&self, state: &mut PoolState) -> io::Result<()> {
        let name = format!("{}_{}", self.shared.config.name_prefix, state.started);
        let shared = Arc::clone(&self.shared);
        let handle = thread::Builder::new().name(name).spawn(move || work(&shared))?;
        state.handles.retain(|handle| !handle.is_finished());
        state.handles.push(handle);
        state.started += 1;
        state.threads += 1;
        state.idle += 1;
        Ok(())
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shutdown(false);
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Executor")
            .field("config", &self.shared.config)
            .field("threads", &state.threads)
            .field("idle", &state.idle)
            .field("queued", &state.queue.len())
            .field("is_shut_down", &state.is_shut_down)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job and takes it; `None` when this thread is to end, which is then already counted.
    fn next_job(&self) -> Option<Job> {
        let may_wait = |state: &mut PoolState| state.queue.is_empty() && !state.is_shut_down;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.lock(), self.config.idle_timeout, may_wait)
            .unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        let job = state.queue.pop_front();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }
}

fn work(shared: &Arc<Shared>) {
    WORKS_FOR.set(Arc::as_ptr(shared));
    while let Some(job) = shared.next_job() {
        run(job);
        shared.lock().idle += 1;
    }
}

/// Runs `job` and lets nothing it throws come out. The panic hook has reported it by then.
fn run(job: Job) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(job)) {
        // What was thrown is the job's own value, and may panic once more when it is dropped.
        if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
            std::mem::forget(thrown);
        }
    }
}

#[cfg(test)]
mod tests;
