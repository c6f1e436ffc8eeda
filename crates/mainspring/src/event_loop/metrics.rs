//! The load of a loop, and what it has done so far.

use super::EventLoop;
use mainspring_engine::LAG_BOUNDS;
use mainspring_engine::ready_queue::Lane;
use std::time::Duration;

/// The load of a loop. See [`EventLoop::metrics`].
///
/// ```
/// use mainspring::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new()?;
/// event_loop.call_soon(|| ())?;
/// event_loop.call_later(Duration::from_secs(60), || ())?;
/// let metrics = event_loop.metrics();
/// assert_eq!((metrics.ready, metrics.timers, metrics.tasks), (1, 1, 0));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The number of ready calls, in all lanes.
    pub ready: usize,
    /// Those in [`Lane::Urgent`](crate::Lane::Urgent).
    pub ready_urgent: usize,
    /// Those in [`Lane::Background`](crate::Lane::Background).
    pub ready_background: usize,
    /// The number of timers.
    pub timers: usize,
    /// The number of registered file descriptors.
    pub descriptors: usize,
    /// The number of tasks that are not done.
    pub tasks: usize,
    /// Calls that wait for a thread of the executor.
    pub executor_queued: usize,
}

/// What a loop has done so far. See [`EventLoop::counters`]. No value ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Iterations of the loop.
    pub iterations: u64,
    /// Calls, steps of tasks and I/O events that were begun.
    pub calls: u64,
    /// The time for which the loop ran and did not wait, by its clock.
    pub busy: Duration,
    /// The time for which the loop waited for events, by its clock.
    pub idle: Duration,
    /// How late timers were.
    pub timer_lag: LagHistogram,
    /// Bytes that transports, streams and socket operations have received.
    pub received_bytes: u64,
    /// Bytes that transports, streams and socket operations have sent.
    pub sent_bytes: u64,
    /// Calls that took longer than the limit of [`EventLoop::watch_stalls`].
    pub stalls: u64,
}

/// How late timers were: the time from a deadline until the loop took notice of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagHistogram {
    counts: [u64; LAG_BOUNDS.len() + 1],
    sum: Duration,
}

impl LagHistogram {
    /// The buckets: the upper bound of each, and the number of timers in it. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        LAG_BOUNDS.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    /// The sum over all timers.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

impl EventLoop {
    /// The current load of the loop.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// event_loop.spawn(std::future::pending::<()>())?;
    /// assert_eq!(event_loop.metrics().tasks, 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        let core = self.core();
        let executor = core.executor.borrow().clone();
        Metrics {
            ready: core.engine.ready_len(),
            ready_urgent: core.engine.ready_len_of(Lane::Urgent),
            ready_background: core.engine.ready_len_of(Lane::Background),
            timers: core.engine.timers_len(),
            descriptors: core.engine.registered_len(),
            tasks: core.task_count(),
            executor_queued: executor.map_or(0, |executor| executor.queued()),
        }
    }

    /// The number of transports and streams that have a file descriptor, whether it is registered or not.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// assert_eq!(event_loop.transport_count(), 0);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn transport_count(&self) -> usize {
        self.core().engine.owners().len()
    }

    /// What the loop has done so far.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// event_loop.call_soon(|| ())?;
    /// event_loop.run_until_idle()?;
    /// let counters = event_loop.counters();
    /// assert_eq!((counters.calls, counters.iterations, counters.stalls), (1, 1, 0));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn counters(&self) -> Counters {
        let metrics = self.core().engine.metrics();
        Counters {
            iterations: metrics.iterations,
            calls: metrics.calls,
            busy: metrics.busy,
            idle: metrics.idle,
            timer_lag: LagHistogram { counts: metrics.timer_lag.counts, sum: metrics.timer_lag.sum },
            received_bytes: metrics.received_bytes,
            sent_bytes: metrics.sent_bytes,
            stalls: metrics.stalls,
        }
    }
}
