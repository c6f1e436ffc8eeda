//! One iteration of the loop.

use super::adaptive_spin::spin_and_park;
use super::io_budget::CallTimer;
use super::{Engine, Host, Parking, SIGNAL_KEY, WAKE_KEY};
use crate::clock::Time;
use crate::poller::{Event, Readiness};
use crate::ready_queue::{IterationBound, Lane, Lanes};
use crate::registrations::{Registrant, Watches};
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// While no fd or signal handler is registered, a busy loop polls once in this many iterations. The kernel could then
/// report only a signal that the loop has no handler for.
const POLL_INTERVAL_WITHOUT_IO: u32 = 64;
/// The longest wait (asyncio's limit, one day): some kernels mishandle larger timeouts.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

impl<H: Host> Engine<H> {
    /// Iterates until [`Engine::stop`], or until a call returns an error. Ready calls that have not run stay ready.
    pub fn run_forever(&self) -> Result<(), H::Error> {
        self.run_until(|| false)
    }

    /// As [`Engine::run_forever`], but returns `true` as soon as [`Engine::is_idle`]; `false` if it was stopped
    /// first.
    pub fn run_until_idle(&self) -> Result<bool, H::Error> {
        let is_idle = Cell::new(false);
        let outer = self.inbox.report_quiet(true);
        let result = self.run_until(|| {
            is_idle.set(self.is_idle());
            is_idle.get()
        });
        self.inbox.report_quiet(outer);
        result.map(|()| is_idle.get())
    }

    fn run_until(&self, is_over: impl Fn() -> bool) -> Result<(), H::Error> {
        let _run = self.begin_run()?;
        // The first iteration of a run always polls.
        self.skipped_polls.set(u32::MAX);
        self.as_run(|| {
            loop {
                if is_over() {
                    return Ok(());
                }
                self.iterate()?;
                if self.stopping.get() {
                    return Ok(());
                }
            }
        })
    }

    /// Whether nothing is pending: no call is ready, no timer will be due, no fd is registered, and no other thread
    /// has sent or will send an item. Signal handlers do not count.
    pub fn is_idle(&self) -> bool {
        !self.is_busy()
            && self.registered_len() == 0
            && self.timers.borrow_mut().next_wakeup().is_none()
            && self.inbox.is_quiet()
    }

    /// Runs one iteration.
    pub fn run_once(&self) -> Result<(), H::Error> {
        self.as_run(|| self.iterate())
    }

    fn iterate(&self) -> Result<(), H::Error> {
        self.check_open()?;
        self.counters.count_iteration();
        self.with_iteration_hooks(|| {
            self.poll()?;
            self.run_due_and_ready()
        })
    }

    /// The second half of an iteration, after the poll.
    #[inline(always)]
    pub(super) fn run_due_and_ready(&self) -> Result<(), H::Error> {
        self.receive_pending();
        if !self.timers.borrow().is_empty() {
            self.ready_due_timers();
        }
        self.run_ready()
    }

    /// An error if the loop is closed.
    pub(super) fn check_open(&self) -> Result<(), H::Error> {
        if self.closed.get() {
            let error = io::Error::new(io::ErrorKind::NotConnected, "the event loop is closed");
            return Err(self.host.os_error(error));
        }
        Ok(())
    }

    fn poll(&self) -> Result<(), H::Error> {
        if self.is_busy() {
            return self.poll_without_waiting();
        }
        if self.hooks.get().idle && self.call_idle_hook()? {
            return self.poll_without_waiting();
        }
        let deadline = self.timers.borrow_mut().next_wakeup();
        let (is_woken, now) = self.spin_on_inbox(self.clock.now(), deadline);
        if is_woken {
            return self.poll_without_waiting();
        }
        self.skipped_polls.set(0);
        if self.clock.is_virtual() {
            let result = self.wait_in_virtual_time(deadline);
            self.counters.count_idle(now, self.clock.now());
            return result;
        }
        let timeout = match deadline {
            Some(when) if when != Time::NEVER => Some(when.saturating_duration_since(now).min(MAX_WAIT)),
            _ => None,
        };
        self.spin.begin_sleep();
        let result = self.wait(timeout);
        let end = self.clock.now();
        self.spin.end_sleep(now, end);
        self.counters.count_idle(now, end);
        result
    }

    /// Polls a busy loop. As in asyncio every iteration polls, so that a chain of callbacks cannot starve I/O; unless
    /// nothing is registered, or [`Engine::set_poll_interval`] allows fewer polls.
    fn poll_without_waiting(&self) -> Result<(), H::Error> {
        let interval =
            if self.has_io_interest() { self.poll_interval.get() } else { POLL_INTERVAL_WITHOUT_IO };
        let skipped = self.skipped_polls.get();
        if skipped.saturating_add(1) < interval && !self.stopping.get() {
            self.skipped_polls.set(skipped + 1);
            return Ok(());
        }
        self.skipped_polls.set(0);
        self.wait(Some(Duration::ZERO))
    }

    /// Whether the kernel may report an event for an fd or a signal handler.
    fn has_io_interest(&self) -> bool {
        self.registered_len() > 0 || !self.signals.borrow().is_empty()
    }

    /// Whether the next iteration has work without waiting.
    pub fn is_busy(&self) -> bool {
        !self.lanes.borrow().is_empty() || self.stopping.get() || self.inbox.has_pending()
    }

    /// Waits for events and makes their calls ready.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<(), H::Error> {
        let mut parking = self.take_parking()?;
        let outcome = self.sleep(&mut parking, timeout);
        let signalled = self.dispatch(&mut parking.events);
        self.return_parking(parking);
        self.after_wait(outcome, signalled)
    }

    /// Takes the blocking half of the back end. An error if it is in use.
    pub(super) fn take_parking(&self) -> Result<Parking, H::Error> {
        self.parking.take().ok_or_else(|| {
            // Another thread is blocked in this loop, or a callback runs the loop from inside dispatch.
            let error = io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the event loop is already running: another thread or an outer callback waits in it",
            );
            self.host.os_error(error)
        })
    }

    pub(super) fn return_parking(&self, parking: Parking) {
        // Dispatch, or another thread during the wait, may have closed the loop.
        if !self.closed.get() {
            self.parking.set(Some(parking));
        }
    }

    /// Waits for events. Items from other threads end the wait.
    #[inline(always)]
    pub(super) fn sleep(&self, parking: &mut Parking, mut timeout: Option<Duration>) -> io::Result<()> {
        let sleeps = timeout != Some(Duration::ZERO);
        if sleeps && !self.inbox.prepare_sleep() {
            timeout = Some(Duration::ZERO);
        }
        // A guest waits outside of a run, where the loop counts as asleep.
        let was_awake = sleeps && self.progress().is_awake();
        if was_awake {
            self.progress().sleeps();
        }
        let outcome = self.park(parking, timeout);
        if was_awake {
            self.progress().awakes();
        }
        if sleeps {
            self.inbox.awake();
        }
        outcome
    }

    /// The result of a wait, after its events were dispatched.
    pub(super) fn after_wait(&self, outcome: io::Result<()>, signalled: bool) -> Result<(), H::Error> {
        match outcome {
            // The signal's number came through the pipe; the host may have handlers of its own to run.
            Ok(()) if signalled => self.host.interrupted(),
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.host.interrupted(),
            Err(error) => Err(self.host.os_error(error)),
        }
    }

    fn park(&self, parking: &mut Parking, timeout: Option<Duration>) -> io::Result<()> {
        let Parking { parker, events } = parking;
        let max_events = self.max_events();
        if timeout == Some(Duration::ZERO) {
            return parker.park(timeout, max_events, events);
        }
        let spin = self.io_spin_limit(timeout);
        let mut outcome = Ok(false);
        self.host.blocking(&mut || {
            outcome = match spin {
                Some(spin) => spin_and_park(parker.as_mut(), spin, timeout, max_events, events),
                None => parker.park(timeout, max_events, events).map(|()| false),
            };
        });
        let found = outcome?;
        if spin.is_some() {
            self.record_io_spin(found);
        }
        Ok(())
    }

    /// Makes the calls of `events` ready. Returns whether a signal was among them.
    pub(super) fn dispatch(&self, events: &mut Vec<Event>) -> bool {
        // If a thread schedules a call and then causes an event, the call runs first, as in asyncio.
        self.receive_pending();
        let mut signalled = false;
        self.shuffle_events(events);
        for event in events.drain(..) {
            match event.key {
                // The event has ended the wait, its only purpose. The eventfd is edge-triggered and never read.
                WAKE_KEY => self.spin.record_wakeup(),
                SIGNAL_KEY => {
                    self.spin.record_io();
                    self.ready_signals();
                    signalled = true;
                }
                _ => {
                    self.spin.record_io();
                    self.dispatch_io(event);
                }
            }
        }
        signalled
    }

    #[inline(always)]
    fn dispatch_io(&self, Event { key, readiness }: Event) {
        // Without memory the event is dropped; the next poll reports it again (level-triggered).
        if !self.lanes.borrow_mut().try_reserve_io(2) {
            return;
        }
        let table = self.table.borrow();
        // No entry: the registration was removed after the kernel reported the event.
        let Some(entry) = table.get(key) else { return };
        // The kernel may report an error or a hang-up in a direction that is not registered.
        let readiness = Readiness {
            inbound: readiness.inbound && entry.interest.is_inbound(),
            outbound: readiness.outbound && entry.interest.is_outbound(),
        };
        match &entry.registrant {
            Registrant::Source(source) => {
                let source = source.clone();
                drop(table);
                self.count_io_event();
                if let Some(call) = self.host.io_ready(source, readiness) {
                    self.lanes.borrow_mut().push_io(call);
                }
            }
            Registrant::Watch(watches) => self.ready_watches(watches, readiness),
        }
    }

    fn ready_watches(&self, watches: &Watches<H>, readiness: Readiness) {
        // As in asyncio, the reader runs before the writer.
        let reader = watches.reader.as_ref().filter(|_| readiness.inbound);
        let writer = watches.writer.as_ref().filter(|_| readiness.outbound);
        for watched in reader.into_iter().chain(writer) {
            self.lanes.borrow_mut().push_io(watched.watch.clone().into());
        }
    }

    fn ready_signals(&self) {
        let mut signals = Vec::new();
        if let Some(pipe) = self.signal_pipe() {
            // After an error the pipe stays readable, and the next poll reports it again.
            let _ = pipe.read_pending(&mut signals);
        }
        for signal in signals {
            let watch = self.signals.borrow().get(i32::from(signal));
            if let Some(watch) = watch {
                self.call_soon(watch.into());
            }
        }
    }

    /// Makes other threads' calls ready. Each function that makes a call ready does this first, so that a call that
    /// was sent earlier also runs earlier.
    #[inline(always)]
    pub fn receive_pending(&self) {
        if self.inbox.has_pending() {
            self.take_inbox();
        }
    }

    #[inline(never)]
    fn take_inbox(&self) {
        self.wake_waiting_driver();
        // Without memory the calls stay in the inbox until the next iteration.
        if !self.lanes.borrow_mut().try_reserve_normal(self.inbox.len()) {
            return;
        }
        // The vector is reused. It is out of the engine during `receive`, which may call back.
        let mut arrived = self.arrived.take();
        self.inbox.drain_into(&mut arrived);
        for inbound in arrived.drain(..) {
            let Some(call) = self.host.receive(inbound) else { continue };
            let lane = self.host.lane(&call);
            let now = self.arrival_time(lane);
            self.push_ready(lane, call, now, &mut self.lanes.borrow_mut());
        }
        self.arrived.set(arrived);
    }

    fn ready_due_timers(&self) {
        let now = self.clock.now();
        if self.is_shuffled() {
            return self.ready_shuffled_timers(now);
        }
        let mut timers = self.timers.borrow_mut();
        let mut lanes = self.lanes.borrow_mut();
        // Without memory a timer stays due.
        while lanes.try_reserve_normal(1)
            && let Some((when, handle)) = timers.pop_due_at(now)
        {
            self.push_due(when, handle, now, &mut lanes);
        }
    }

    /// Makes a timer ready that was due at `when`.
    #[inline(always)]
    pub(super) fn push_due(&self, when: Time, handle: H::Handle, now: Time, lanes: &mut Lanes<H::Call>) {
        self.counters.count_timer(when, now);
        let call = handle.into();
        self.push_ready(self.host.lane(&call), call, now, lanes);
    }

    /// Runs the next call of an iteration with more than the normal lane. Returns `false` at its end.
    #[cold]
    #[inline(never)]
    fn run_next_by_priority(&self, bound: &mut IterationBound) -> Result<bool, H::Error> {
        match self.next_by_priority(bound)? {
            None => Ok(false),
            Some(call) => self.in_callback_scope(|| self.host.run_call(call)).map(|()| true),
        }
    }

    fn next_by_priority(&self, bound: &mut IterationBound) -> Result<Option<H::Call>, H::Error> {
        if self.lanes.borrow().serves_io_next(bound) && self.has_io_interest() {
            self.wait(Some(Duration::ZERO))?;
        }
        // The clock may run user code, so it is read outside of the borrow.
        let now = self.clock.now();
        Ok(self.lanes.borrow_mut().next(bound, Some(now), self.max_overdue.get()))
    }

    fn run_ready(&self) -> Result<(), H::Error> {
        if self.rechecks_background.take() {
            // Without memory the next iteration tries again.
            let is_promoted = |call: &H::Call| self.host.lane(call) != Lane::Background;
            let all_moved = self.lanes.borrow_mut().promote_if(is_promoted);
            self.rechecks_background.set(!all_moved);
        }
        self.shuffle_ready();
        let mut pass = self.lanes.borrow_mut().begin_iteration();
        let mut timer = self.start_call_timer();
        loop {
            let mut lanes = self.lanes.borrow_mut();
            if lanes.has_only_normal() {
                // One function for both cases would copy the call three times. Row `yield` of `bench/peers`: 14 % of the
                // instructions.
                let next = lanes.next_normal(&mut pass);
                drop(lanes);
                let Some(call) = next else { break };
                self.in_callback_scope(|| self.host.run_call(call))?;
            } else {
                drop(lanes);
                if !self.run_next_by_priority(&mut pass)? {
                    break;
                }
            }
            CallTimer::count(&mut timer);
        }
        self.stop_call_timer(timer);
        Ok(())
    }
}
