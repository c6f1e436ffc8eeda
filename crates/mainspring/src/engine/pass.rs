//! One pass of the loop.

use super::backlog::Crowded;
use super::brink::look_and_park;
use super::{Engine, Host, Occupant, Parking, Ready, SIGNAL_KEY, WAKE_KEY, Watches};
use crate::clock::{Clock, Time};
use crate::poller::{Event, Interest, Readiness};
use crate::ready::Lane;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// A busy loop looks at the kernel again after this long at the latest...
const MAX_TIME_WITHOUT_POLL: Duration = Duration::from_micros(100);
/// ...and after this many passes.
const MAX_PASSES_WITHOUT_POLL: u32 = 64;
/// As long as its passes are no longer than this each, on average...
const SHORT_PASS: Duration = Duration::from_micros(2);
/// ...it looks at the clock after so many more only: the clock costs more than a pass that runs one call.
const PASSES_ON_TRUST: u32 = 7;
/// No wait is longer than asyncio's (a day): some kernels misjudge larger numbers.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// What a busy loop remembers of the polls it has left out.
pub(super) struct Skipped {
    passes: Cell<u32>,
    since: Cell<Time>,
    /// How many more passes are taken to be short.
    on_trust: Cell<u32>,
}

impl Default for Skipped {
    /// Begins as if all were used up: the first pass polls.
    fn default() -> Self {
        Skipped {
            passes: Cell::new(MAX_PASSES_WITHOUT_POLL),
            since: Cell::new(Time::ZERO),
            on_trust: Cell::new(0),
        }
    }
}

impl Skipped {
    /// Whether a busy loop may leave out this poll too, counting it as left out.
    fn one_more(&self, clock: &dyn Clock) -> bool {
        let passes = self.passes.get();
        if passes >= MAX_PASSES_WITHOUT_POLL {
            return false;
        }
        let passes = passes + 1;
        match self.on_trust.get().checked_sub(1) {
            Some(left) => self.on_trust.set(left),
            None => {
                let spent = clock.now().saturating_duration_since(self.since.get());
                if spent >= MAX_TIME_WITHOUT_POLL {
                    return false;
                }
                self.on_trust.set(if spent <= SHORT_PASS * passes { PASSES_ON_TRUST } else { 0 });
            }
        }
        self.passes.set(passes);
        true
    }

    fn polled_at(&self, now: Time) {
        self.passes.set(0);
        self.since.set(now);
        self.on_trust.set(0);
    }

    fn poll_next(&self) {
        self.passes.set(MAX_PASSES_WITHOUT_POLL);
    }

    /// Whether the next pass polls whatever else it has to do.
    fn is_next_polled(&self) -> bool {
        self.passes.get() >= MAX_PASSES_WITHOUT_POLL
    }
}

impl<H: Host> Engine<H> {
    /// Runs passes until [`Engine::stop`], or until a failure that ends the loop; what was ready and has not
    /// run then stays ready.
    pub fn run_forever(&self) -> Result<(), H::Error> {
        self.run_until(|| false)
    }

    /// Runs passes and fails as [`Engine::run_forever`] does, but no longer than something is pending: until
    /// [`Engine::is_idle`]. Whether it came to that.
    pub fn run_until_idle(&self) -> Result<bool, H::Error> {
        let is_idle = Cell::new(false);
        self.inbox.mind_quiet(true);
        let result = self.run_until(|| {
            is_idle.set(self.is_idle());
            is_idle.get()
        });
        self.inbox.mind_quiet(false);
        result.map(|()| is_idle.get())
    }

    fn run_until(&self, is_over: impl Fn() -> bool) -> Result<(), H::Error> {
        // Whatever happened between two runs, the kernel is asked before anything else runs.
        self.skipped.poll_next();
        let result = loop {
            if is_over() {
                break Ok(());
            }
            if let Err(error) = self.run_once() {
                break Err(error);
            }
            if self.stopping.get() {
                break Ok(());
            }
        };
        self.stopping.set(false);
        result
    }

    /// Whether nothing is pending: nothing is ready, no timer will ever be due, no descriptor is watched, and no
    /// other thread has sent or will send anything. Signals that are watched for do not count.
    pub fn is_idle(&self) -> bool {
        !self.is_busy()
            && self.registered_len() == 0
            && self.timers.borrow_mut().next_wakeup().is_none()
            && self.inbox.is_quiet()
    }

    /// One pass: see the text of the module `engine`.
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let called = Rc::new(Cell::new(0));
    /// let count = Rc::clone(&called);
    /// engine.call_soon(Rc::new(move || count.set(count.get() + 1)));
    /// assert!(engine.is_busy());
    /// engine.run_once()?;
    /// assert_eq!((called.get(), engine.is_busy()), (1, false));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run_once(&self) -> Result<(), H::Error> {
        if self.closed.get() {
            let error = io::Error::new(io::ErrorKind::NotConnected, "the event loop is closed");
            return Err(self.host.os_error(error));
        }
        self.poll()?;
        if self.inbox.has_pending() {
            self.take_inbox();
        }
        if !self.timers.borrow().is_empty() {
            self.ready_due_timers();
        }
        self.promote_overdue_background();
        self.run_ready()
    }

    fn poll(&self) -> Result<(), H::Error> {
        let is_first = self.skipped.is_next_polled();
        if !self.backlog.is_empty() {
            self.ready_backlog(is_first);
            if !is_first {
                return Ok(());
            }
        }
        if self.is_busy() {
            return self.poll_if_it_is_time();
        }
        let deadline = self.timers.borrow_mut().next_wakeup();
        let (is_woken, now) = self.look_for_threads(self.clock.now(), deadline);
        if is_woken {
            return self.poll_if_it_is_time();
        }
        if self.clock.is_virtual() {
            self.wait(Some(Duration::ZERO))?;
            if self.is_busy() {
                self.skipped.polled_at(now);
                return Ok(());
            }
        }
        let timeout = match deadline {
            // What a thread is busy with takes real time: no other passes meanwhile.
            _ if self.clock.is_virtual() && self.inbox.waits_for_work() => None,
            _ if self.clock.skip_to(deadline) => Some(Duration::ZERO),
            Some(when) if when != Time::NEVER => Some(when.saturating_duration_since(now).min(MAX_WAIT)),
            _ => None,
        };
        self.brink.falls_asleep();
        let result = self.wait(timeout);
        let woke_up = self.clock.now();
        self.brink.slept(now, woke_up);
        self.skipped.polled_at(woke_up);
        result
    }

    /// What a busy loop does in place of a wait.
    fn poll_if_it_is_time(&self) -> Result<(), H::Error> {
        if self.stopping.get() || !self.skipped.one_more(&*self.clock) {
            self.skipped.polled_at(self.clock.now());
            return self.wait(Some(Duration::ZERO));
        }
        Ok(())
    }

    /// Whether there is something to do without waiting for it.
    pub fn is_busy(&self) -> bool {
        !self.lanes.borrow().is_empty()
            || !self.backlog.is_empty()
            || self.stopping.get()
            || self.inbox.has_pending()
    }

    /// Asks the kernel, and makes what it answers ready.
    fn wait(&self, mut timeout: Option<Duration>) -> Result<(), H::Error> {
        let Some(mut parking) = self.parking.take() else {
            // Another thread sleeps in this loop at this moment, or a callback runs the loop from inside it.
            let error = io::Error::new(io::ErrorKind::ResourceBusy, "the event loop is already waiting");
            return Err(self.host.os_error(error));
        };
        let sleeps = timeout != Some(Duration::ZERO);
        if sleeps && !self.inbox.prepare_sleep() {
            timeout = Some(Duration::ZERO);
        }
        let outcome = self.park(&mut parking, timeout);
        if sleeps {
            self.inbox.awake();
        }
        let signalled = self.ready_events(&mut parking.events);
        // A face that was called may have closed the loop.
        if !self.closed.get() {
            self.parking.set(Some(parking));
        }
        match outcome {
            // The number of the signal came through the pipe; the face may have handlers of its own to run.
            Ok(()) if signalled => self.host.interrupted(),
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.host.interrupted(),
            Err(error) => Err(self.host.os_error(error)),
        }
    }

    fn park(&self, parking: &mut Parking, timeout: Option<Duration>) -> io::Result<()> {
        let is_some_known = self.poller.borrow_mut().prepare()?;
        let timeout = if is_some_known { Some(Duration::ZERO) } else { timeout };
        let Parking { parker, events } = parking;
        if timeout == Some(Duration::ZERO) {
            parker.park(timeout, events)?;
        } else {
            let look = self.look_for_io(timeout);
            let mut outcome = Ok(false);
            self.host.blocking(&mut || {
                outcome = match look {
                    Some(look) => look_and_park(parker.as_mut(), look, timeout, events),
                    None => parker.park(timeout, events).map(|()| false),
                };
            });
            let found = outcome?;
            if look.is_some() {
                self.looked_for_io(found);
            }
        }
        self.poller.borrow_mut().collect(events)
    }

    /// Whether a signal was among the events.
    fn ready_events(&self, events: &mut Vec<Event>) -> bool {
        let mut signalled = false;
        let mut share = self.io_share(events.len());
        if H::ANNOUNCES {
            self.foresee(events.get(..share).unwrap_or(events));
        }
        let mut events = events.drain(..);
        self.announcing(|| {
            for event in events.by_ref() {
                match event.key {
                    // It has ended the wait, which is all it is for: nobody reads it.
                    WAKE_KEY => self.brink.woken(),
                    SIGNAL_KEY => {
                        self.brink.served();
                        self.ready_signals();
                        signalled = true;
                    }
                    _ => {
                        self.brink.served();
                        self.ready_event(event, &mut share);
                    }
                }
            }
        });
        signalled
    }

    /// Makes ready what an event is for. Of transports only a `share` is; the others wait for a later pass.
    #[inline(always)]
    pub(super) fn ready_event(&self, event: Event, share: &mut usize) {
        let table = self.table.borrow();
        let Some(entry) = table.get(event.key) else { return };
        match &entry.occupant {
            Occupant::Source(source) => match share.checked_sub(1) {
                Some(left) => {
                    *share = left;
                    let (interest, source) = (entry.interest, H::ANNOUNCES.then(|| source.clone()));
                    drop(table);
                    self.ready_source(event, interest, source);
                }
                None => self.postpone(event),
            },
            Occupant::Watch(watches) => self.ready_watches(watches, entry.interest, event.readiness),
        }
    }

    fn ready_watches(&self, watches: &Watches<H>, interest: Interest, readiness: Readiness) {
        // asyncio: the reader's call before the writer's.
        let reader = watches.reader.as_ref().filter(|_| readiness.inbound && interest.is_inbound());
        let writer = watches.writer.as_ref().filter(|_| readiness.outbound && interest.is_outbound());
        for watched in reader.into_iter().chain(writer) {
            let call = Ready::Call(watched.watch.clone().into());
            self.lanes.borrow_mut().push(self.io_lane.get(), call);
        }
    }

    fn ready_signals(&self) {
        let mut signals = Vec::new();
        if let Some(pipe) = self.signal_pipe() {
            // What could not be read is announced again.
            let _ = pipe.read_pending(&mut signals);
        }
        for signal in signals {
            let watch = self.signals.borrow().get(i32::from(signal));
            if let Some(watch) = watch {
                self.call_soon(watch.into());
            }
        }
    }

    fn take_inbox(&self) {
        // Kept from one time to the next, and out of the engine while the face looks at the items.
        let mut arrived = self.arrived.take();
        self.inbox.drain_into(&mut arrived);
        for inbound in arrived.drain(..) {
            let call = self.host.receive(inbound);
            self.call_soon_in(self.host.lane(&call), call);
        }
        self.arrived.set(arrived);
    }

    fn ready_due_timers(&self) {
        let now = self.clock.now();
        let mut timers = self.timers.borrow_mut();
        let mut lanes = self.lanes.borrow_mut();
        while let Some(call) = timers.pop_due(now) {
            match self.host.lane(&call) {
                Lane::Background => lanes.push_background(Ready::Call(call), now),
                lane => lanes.push(lane, Ready::Call(call)),
            }
        }
    }

    /// Background work that has waited too long takes its place among the rest.
    fn promote_overdue_background(&self) {
        if let Some(limit) = self.max_overdue.get()
            && self.lanes.borrow().has_background()
        {
            let now = self.clock.now();
            self.lanes.borrow_mut().promote_overdue(now, limit);
        }
    }

    fn run_ready(&self) -> Result<(), H::Error> {
        let mut pass = self.lanes.borrow_mut().begin_pass();
        let mut crowded = self.begin_crowded();
        loop {
            let next = self.lanes.borrow_mut().next(&mut pass);
            Crowded::count(&mut crowded);
            match next {
                None => {
                    self.end_crowded(crowded);
                    return Ok(());
                }
                Some(Ready::Call(call)) => self.in_turn(|| self.host.run_call(call))?,
                Some(Ready::Io(key, readiness)) => {
                    let source = self.table.borrow().source(key).cloned();
                    let Some(source) = source else { continue };
                    self.in_turn(|| self.host.io_ready(source, readiness))?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is moved by hand, and counts how often it is asked.
    struct Ticking {
        now: Cell<Time>,
        asked: Cell<u32>,
    }

    impl Clock for Ticking {
        fn now(&self) -> Time {
            self.asked.set(self.asked.get() + 1);
            self.now.get()
        }
    }

    /// How many passes of that length a busy loop makes without a poll, and how often it asks for the time.
    fn passes_of(length: Duration) -> (u32, u32) {
        let clock = Ticking { now: Cell::new(Time::from_nanos(1)), asked: Cell::new(0) };
        let skipped = Skipped::default();
        skipped.polled_at(clock.now.get());
        let mut passes = 0;
        loop {
            clock.now.set(clock.now.get().saturating_add(length));
            if !skipped.one_more(&clock) {
                return (passes, clock.asked.get());
            }
            passes += 1;
        }
    }

    #[test]
    fn short_passes_ask_for_the_time_after_every_eighth() {
        assert_eq!(passes_of(Duration::from_nanos(100)), (64, 8));
    }

    #[test]
    fn longer_passes_are_timed_each_and_stop_at_the_limit() {
        assert_eq!(passes_of(Duration::from_micros(10)), (9, 10));
        assert_eq!(passes_of(Duration::from_millis(1)), (0, 1));
    }
}
