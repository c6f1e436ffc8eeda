//! I/O that was announced and waits for its pass.
//!
//! A wait may announce more than can be served before the next timer is due. All of it in one pass would keep the timer
//! waiting for all of it; so a pass takes about as much as there is time for, and the rest stays here, for the passes
//! that follow, before the kernel is asked again.
//!
//! Only transports wait here. What [`Engine::watch`] calls is called in the pass that follows the wait, as in asyncio: the
//! user's callback may well do what blocks if it is not called for a reason.

use super::{Engine, Host, Readiness, Ready};
use crate::clock::Time;
use crate::poller::{Event, Interest};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// So many are served in a pass however late it is: what is short of a crowd keeps asyncio's order, all I/O before the
/// timers that are due with it.
const FEW: usize = 4;

/// What was announced and not served, and how long serving takes.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: RefCell<VecDeque<Event>>,
    /// How many calls for I/O were made ready in the pass that is under way.
    readied: Cell<usize>,
    /// About how many nanoseconds each call of a crowded pass has taken lately.
    pace: Cell<u64>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    pub(super) fn clear(&self) {
        self.waiting.borrow_mut().clear();
    }
}

/// A pass that serves a crowd, timed.
pub(super) struct Crowded {
    began: Time,
    calls: u64,
}

impl<H: Host> Engine<H> {
    /// How many of `waiting` transports to serve in the pass that begins.
    pub(super) fn io_share(&self, waiting: usize) -> usize {
        if waiting <= FEW {
            return waiting;
        }
        let Some(deadline) = self.timers.borrow_mut().next_wakeup() else { return waiting };
        let left = deadline.saturating_duration_since(self.clock.now()).as_nanos();
        let affordable = left.checked_div(u128::from(self.backlog.pace.get()));
        let affordable = affordable.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        affordable.clamp(FEW, waiting)
    }

    /// Keeps an announcement for a later pass.
    pub(super) fn postpone(&self, event: Event) {
        self.backlog.waiting.borrow_mut().push_back(event);
    }

    /// Makes as much of the backlog ready as there is time for; all of it if `all`.
    pub(super) fn ready_backlog(&self, all: bool) {
        let waiting = self.backlog.waiting.borrow().len();
        let share = if all { waiting } else { self.io_share(waiting) };
        let mut places = 0..share;
        self.announcing(|| {
            for _ in places.by_ref() {
                let Some(event) = self.backlog.waiting.borrow_mut().pop_front() else { return };
                // It is its turn, whatever its share was.
                self.ready_event(event, &mut 1);
            }
        });
    }

    /// Runs `announce`, which calls [`Engine::ready_source`] again and again, until it is through: it goes on after a panic.
    pub(super) fn announcing(&self, mut announce: impl FnMut()) {
        while !self.host.guarded(&mut announce) {}
    }

    /// Makes the call for a transport ready, for as much as it still wants to know; or who serves it in its place.
    #[inline(always)]
    pub(super) fn ready_source(
        &self,
        Event { key, readiness }: Event,
        interest: Interest,
        source: Option<H::Source>,
    ) {
        let inbound = readiness.inbound && interest.is_inbound();
        let outbound = readiness.outbound && interest.is_outbound();
        let readiness = Readiness { inbound, outbound };
        self.backlog.readied.set(self.backlog.readied.get() + 1);
        if !source.is_some_and(|source| self.host.announce(self, source, readiness)) {
            self.lanes.borrow_mut().push(self.io_lane.get(), Ready::Io(key, readiness));
        }
    }

    /// Times the pass that begins, if it serves a crowd.
    pub(super) fn begin_crowded(&self) -> Option<Crowded> {
        (self.backlog.readied.take() > FEW).then(|| Crowded { began: self.clock.now(), calls: 0 })
    }

    /// Remembers how long the calls of a pass have taken.
    pub(super) fn end_crowded(&self, crowded: Option<Crowded>) {
        let Some(Crowded { began, calls }) = crowded else { return };
        let spent = self.clock.now().saturating_duration_since(began).as_nanos();
        let each = u64::try_from(spent).unwrap_or(u64::MAX) / calls.max(1);
        let lately = match self.backlog.pace.get() {
            0 => each,
            pace => pace / 4 * 3 + each / 4,
        };
        self.backlog.pace.set(lately);
    }
}

impl Crowded {
    pub(super) fn count(crowded: &mut Option<Crowded>) {
        if let Some(crowded) = crowded {
            crowded.calls += 1;
        }
    }
}
