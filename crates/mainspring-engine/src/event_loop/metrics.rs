//! Counters of a loop. Each is a plain cell that is changed once per iteration, timer or system call.

use super::{Engine, Host};
use crate::clock::Time;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// The upper bounds of the buckets of [`LagHistogram`]. The last bucket has none.
pub const LAG_BOUNDS: [Duration; 9] = [
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// How late timers were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagHistogram {
    /// The number of timers in each bucket. Those in bucket `n` were at most `LAG_BOUNDS[n]` late, and later than the
    /// bound before.
    pub counts: [u64; LAG_BOUNDS.len() + 1],
    /// The sum over all timers.
    pub sum: Duration,
}

/// What a loop has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Iterations of the loop.
    pub iterations: u64,
    /// Calls that were begun.
    pub calls: u64,
    /// The time for which the loop ran and did not wait, by the loop's clock.
    pub busy: Duration,
    /// The time for which the loop waited for events, by the loop's clock.
    pub idle: Duration,
    /// How late timers were.
    pub timer_lag: LagHistogram,
    /// Bytes received by transports and socket operations.
    pub received_bytes: u64,
    /// Bytes sent by transports and socket operations.
    pub sent_bytes: u64,
    /// Stalls that a [`StallWatch`](crate::stalls::StallWatch) has found.
    pub stalls: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    iterations: Cell<u64>,
    /// Nanoseconds of runs that have ended.
    ran: Cell<u64>,
    run_began: Cell<Option<Time>>,
    idle: Cell<u64>,
    lag_counts: [Cell<u64>; LAG_BOUNDS.len() + 1],
    lag_sum: Cell<u64>,
    received_bytes: Cell<u64>,
    sent_bytes: Cell<u64>,
}

fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get().wrapping_add(count));
}

fn nanos_between(begin: Time, end: Time) -> u64 {
    u64::try_from(end.saturating_duration_since(begin).as_nanos()).unwrap_or(u64::MAX)
}

impl Counters {
    #[inline(always)]
    pub(super) fn count_iteration(&self) {
        add(&self.iterations, 1);
    }

    pub(super) fn count_idle(&self, began: Time, ended: Time) {
        add(&self.idle, nanos_between(began, ended));
    }

    /// Counts a timer that was due at `when` and becomes ready at `now`.
    #[inline]
    pub(super) fn count_timer(&self, when: Time, now: Time) {
        let lag = now.saturating_duration_since(when);
        let bucket = LAG_BOUNDS.iter().position(|bound| lag <= *bound).unwrap_or(LAG_BOUNDS.len());
        if let Some(counter) = self.lag_counts.get(bucket) {
            add(counter, 1);
        }
        add(&self.lag_sum, nanos_between(when, now));
    }
}

impl<H: Host> Engine<H> {
    /// What the loop has done so far.
    pub fn metrics(&self) -> Metrics {
        let counters = &self.counters;
        // The clock may run user code, so it is read first.
        let running = counters.run_began.get().map_or(0, |began| nanos_between(began, self.clock.now()));
        let ran = counters.ran.get().wrapping_add(running);
        let mut counts = [0; LAG_BOUNDS.len() + 1];
        for (count, counter) in counts.iter_mut().zip(&counters.lag_counts) {
            *count = counter.get();
        }
        Metrics {
            iterations: counters.iterations.get(),
            calls: self.progress().calls(),
            busy: Duration::from_nanos(ran.saturating_sub(counters.idle.get())),
            idle: Duration::from_nanos(counters.idle.get()),
            timer_lag: LagHistogram { counts, sum: Duration::from_nanos(counters.lag_sum.get()) },
            received_bytes: counters.received_bytes.get(),
            sent_bytes: counters.sent_bytes.get(),
            stalls: self.progress().stalls(),
        }
    }

    /// Whether the loop runs and does not wait for events.
    pub fn is_awake(&self) -> bool {
        self.progress().is_awake()
    }

    /// Counts the bytes that a system call has received.
    #[inline]
    pub(crate) fn count_received(&self, result: io::Result<usize>) -> io::Result<usize> {
        result.inspect(|length| self.add_received(*length))
    }

    /// Counts the bytes that a system call has sent.
    #[inline]
    pub(crate) fn count_sent(&self, result: io::Result<usize>) -> io::Result<usize> {
        result.inspect(|length| self.add_sent(*length))
    }

    /// Counts received bytes. A host that makes system calls itself calls this.
    #[inline]
    pub fn add_received(&self, length: usize) {
        add(&self.counters.received_bytes, length as u64);
    }

    /// Counts sent bytes. A host that makes system calls itself calls this.
    #[inline]
    pub fn add_sent(&self, length: usize) {
        add(&self.counters.sent_bytes, length as u64);
    }

    /// Runs iterations: measures the time, and shows the loop as awake.
    pub(super) fn as_run<R>(&self, run: impl FnOnce() -> R) -> R {
        struct EndOfRun<'a, H: Host>(&'a Engine<H>);
        impl<H: Host> Drop for EndOfRun<'_, H> {
            fn drop(&mut self) {
                let Engine { counters, clock, .. } = self.0;
                self.0.progress().sleeps();
                if let Some(began) = counters.run_began.get() {
                    add(&counters.ran, nanos_between(began, clock.now()));
                    counters.run_began.set(None);
                }
            }
        }
        if self.progress().is_awake() {
            // An outer run measures.
            return run();
        }
        self.counters.run_began.set(Some(self.clock.now()));
        self.progress().awakes();
        let _end = EndOfRun(self);
        run()
    }
}
