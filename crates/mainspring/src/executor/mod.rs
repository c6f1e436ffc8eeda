//! A thread pool for blocking calls: name lookups, files, and calls of `run_in_executor`.
//!
//! # Rules
//!
//! - `idle` counts the threads without a job: waiting, notified, or just started. If `queue.len() > idle`, a new job
//!   has no thread, and gets a new one if the limit allows. So idle threads are used first, and two jobs that wait for
//!   each other never share a thread while another can be started.
//! - Jobs are foreign code: they are taken, run and dropped outside of the lock, and their panics are caught.
//! - A thread ends when it has been idle too long, or after shutdown when the queue is empty: every accepted job
//!   runs.

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

/// The size of an [`Executor`], and the names of its threads.
///
/// ```
/// use mainspring::{Executor, ExecutorConfig};
/// use std::num::NonZeroUsize;
/// use std::sync::mpsc;
///
/// let one = ExecutorConfig { max_threads: NonZeroUsize::MIN, name_prefix: "disk".to_owned(), ..Default::default() };
/// let executor = Executor::new(one);
/// let (sender, receiver) = mpsc::channel();
/// for _ in 0..2 {
///     let sender = sender.clone();
///     let job = move || sender.send(std::thread::current().name().map(str::to_owned)).unwrap();
///     executor.submit(Box::new(job)).unwrap();
/// }
/// // Both ran on the only thread.
/// assert_eq!(receiver.recv().unwrap().as_deref(), Some("disk_0"));
/// assert_eq!(receiver.recv().unwrap().as_deref(), Some("disk_0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorConfig {
    /// The maximum number of threads. The default is asyncio's: the number of CPUs plus four, at most 32.
    pub max_threads: NonZeroUsize,
    /// Threads are named `{name_prefix}_{n}`, counted from 0. The default is `mainspring-executor`; asyncio's is
    /// `asyncio`.
    pub name_prefix: String,
    /// A thread that is idle for this long ends.
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

/// Why a job was not accepted. Returns the job. It is `Send` and not `Sync`, as the job is.
///
/// ```
/// use mainspring::Executor;
/// use mainspring::executor::SubmitError;
/// use std::sync::mpsc;
///
/// let executor = Executor::new(Default::default());
/// executor.shutdown(true);
/// let (sender, receiver) = mpsc::channel();
/// match executor.submit(Box::new(move || sender.send("done").unwrap())) {
///         // Run it on this thread.
///     Err(SubmitError::Closed(job) | SubmitError::NoThread(job, _)) => job(),
///     Ok(()) => unreachable!("it was shut down"),
/// }
/// assert_eq!(receiver.try_recv(), Ok("done"));
/// ```
pub enum SubmitError {
    /// The executor is shut down.
    Closed(Job),
    /// The pool has no thread, and the system could not start one.
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

/// A thread pool for blocking calls. Dropping it shuts it down without waiting.
///
/// Each loop has its own. [`EventLoop::run_on`](crate::EventLoop::run_on) uses one that the program owns, and
/// [`EventLoop::set_default_executor`](crate::EventLoop::set_default_executor) replaces the loop's. It is `Send` and
/// `Sync`.
///
/// ```
/// use mainspring::{Executor, ExecutorConfig};
/// use std::sync::mpsc;
///
/// let executor = Executor::new(ExecutorConfig::default());
/// let (sender, receiver) = mpsc::channel();
/// executor.submit(Box::new(move || sender.send(6 * 7).unwrap())).unwrap();
/// // Accepted jobs still run.
/// executor.shutdown(true);
/// assert_eq!(receiver.try_recv(), Ok(42));
/// assert!(executor.submit(Box::new(|| ())).is_err());
/// ```
pub struct Executor {
    shared: Arc<Pool>,
    /// Locked while threads are joined, so that a second `shutdown(true)` waits as long as the first.
    joining: Mutex<()>,
}

struct Pool {
    config: ExecutorConfig,
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<Job>,
    /// The number of threads.
    threads: usize,
    /// The number of threads without a job.
    idle: usize,
    /// The number of threads ever started, which is the number of the next one.
    started: usize,
    is_shut_down: bool,
    /// The handles of all threads, and of some that have ended.
    handles: Vec<JoinHandle<()>>,
}

thread_local! {
    /// The address of the pool that this thread works for; null on other threads.
    static WORKER_OF: Cell<*const Pool> = const { Cell::new(std::ptr::null()) };
}

impl Executor {
    /// A pool without threads. Jobs start them.
    pub fn new(mut config: ExecutorConfig) -> Self {
        // Thread names end at a zero byte, and std panics at one.
        config.name_prefix.retain(|c| c != '\0');
        let shared = Pool { config, state: Mutex::default(), changed: Condvar::new() };
        Executor { shared: Arc::new(shared), joining: Mutex::new(()) }
    }

    /// Queues `job` for the next free thread. Starts one if none is free and the limit allows.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] returns the job if the executor is shut down, or if it has no thread and the system could not
    /// start one.
    pub fn submit(&self, job: Job) -> Result<(), SubmitError> {
        let mut state = self.shared.lock();
        if state.is_shut_down {
            drop(state);
            return Err(SubmitError::Closed(job));
        }
        let needs_thread =
            state.queue.len() >= state.idle && state.threads < self.shared.config.max_threads.get();
        if needs_thread
            && let Err(error) = self.start_thread(&mut state)
            // A pool with threads runs the job later.
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

    /// The number of jobs that wait for a thread.
    pub(crate) fn queued(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Refuses new jobs. Accepted jobs still run. With `wait`, returns when all threads have ended. Called on one of
    /// its own threads, which cannot wait for itself, it returns at once.
    pub fn shutdown(&self, wait: bool) {
        self.shared.lock().is_shut_down = true;
        self.shared.changed.notify_all();
        if !wait || WORKER_OF.get() == Arc::as_ptr(&self.shared) {
            return;
        }
        let _joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        let handles = std::mem::take(&mut self.shared.lock().handles);
        for handle in handles {
            // A thread that panicked has also ended.
            let _ = handle.join();
        }
    }

    fn start_thread(&self, state: &mut PoolState) -> io::Result<()> {
        let name = format!("{}_{}", self.shared.config.name_prefix, state.started);
        let shared = Arc::clone(&self.shared);
        let handle = thread::Builder::new().name(name).spawn(move || worker_main(&shared))?;
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

impl Pool {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No foreign code runs under the lock, so the state behind a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job and takes it. `None` if this thread must end; it is then no longer counted.
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

fn worker_main(shared: &Arc<Pool>) {
    WORKER_OF.set(Arc::as_ptr(shared));
    while let Some(job) = shared.next_job() {
        run(job);
        shared.lock().idle += 1;
    }
}

/// Runs `job` and catches its panic, which the panic hook has reported.
fn run(job: Job) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        // The payload is the job's own value, and its destructor may panic.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(payload);
        }
    }
}

#[cfg(test)]
mod tests;
