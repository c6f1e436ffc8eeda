//! Access to the host's values that the loop holds: for a garbage collector, for introspection, and to drop them at
//! the end.

use super::{Direction, Engine, Host};
use crate::poller::{ClosedPoller, Interest};
use crate::registrations::{Registrant, Watches};
use std::os::fd::RawFd;

/// A value that the loop holds, as shown to a garbage collector.
pub enum GcReference<'a, H: Host> {
    /// A ready call.
    Call(&'a H::Call),
    /// A pending timer.
    Timer(&'a H::Handle),
    /// The watch of an fd or a signal.
    Watch(&'a H::Watch),
    /// A registered source.
    Source(&'a H::Source),
    /// An item from another thread that the loop has not received.
    Inbound(&'a H::Inbound),
}

/// A value that a closed loop held. The host drops them one by one: any destructor may run user code, and fail.
pub enum Unreleased<H: Host> {
    /// A call that did not run.
    Call(H::Call),
    /// The watch of an fd or a signal.
    Watch(H::Watch),
    /// A registered source.
    Source(H::Source),
    /// An item from another thread.
    Inbound(H::Inbound),
}

impl<H: Host> Engine<H> {
    /// Removes and returns all ready calls. I/O that they would have served is reported again by the next poll.
    #[must_use = "the caller drops the calls"]
    pub fn take_ready(&self) -> Vec<H::Call> {
        self.lanes.borrow_mut().clear()
    }

    /// Closes the loop: removes all calls, timers and registrations and closes the loop's own fds. From here on the
    /// inbox refuses items.
    #[must_use = "the caller drops the values"]
    pub fn close(&self) -> Vec<Unreleased<H>> {
        self.closed.set(true);
        self.unwatch_stalls();
        let unread = self.inbox.close();
        let ready = self.lanes.borrow_mut().clear();
        let timers = self.timers.borrow_mut().clear();
        let signals = self.signals.borrow_mut().clear();
        let sources = self.table.borrow_mut().take_all();
        for (key, entry) in &sources {
            // A registration that cannot be removed here goes with the back end's fd.
            let _ = self.poller.borrow_mut().update(entry.fd, *key, entry.interest, Interest::NONE);
        }
        let poller = self.poller.replace(Box::new(ClosedPoller));
        let own = (self.wake.take(), self.signal_pipe.take(), self.parking.take(), poller);
        self.inbox.waker().close();
        drop(own);
        let mut left: Vec<_> =
            ready.into_iter().chain(timers.into_iter().map(Into::into)).map(Unreleased::Call).collect();
        left.extend(unread.into_iter().map(Unreleased::Inbound));
        left.extend(signals.into_iter().map(|(_, watch)| Unreleased::Watch(watch)));
        for (_, entry) in sources {
            match entry.registrant {
                Registrant::Watch(watches) => {
                    let Watches { reader, writer } = *watches;
                    let watches = reader.into_iter().chain(writer).map(|watched| watched.watch);
                    left.extend(watches.map(Unreleased::Watch));
                }
                Registrant::Source(source) => left.push(Unreleased::Source(source)),
            }
        }
        left
    }

    /// Shows all values that the loop holds to a garbage collector. Skips a container that is mutably borrowed: the
    /// collector then treats its contents as reachable, which is safe.
    pub fn for_each_gc_reference(&self, show: &mut dyn FnMut(GcReference<'_, H>)) {
        self.for_each_ready(show);
        self.for_each_timer(&mut |timer| show(GcReference::Timer(timer)));
        if let Ok(signals) = self.signals.try_borrow() {
            signals.iter().for_each(|(_, watch)| show(GcReference::Watch(watch)));
        }
        if let Ok(table) = self.table.try_borrow() {
            for (_, entry) in table.iter() {
                match &entry.registrant {
                    Registrant::Watch(watches) => {
                        watches
                            .reader
                            .iter()
                            .chain(&watches.writer)
                            .for_each(|watched| show(GcReference::Watch(&watched.watch)));
                    }
                    Registrant::Source(source) => show(GcReference::Source(source)),
                }
            }
        }
    }

    /// Shows all ready calls in the order in which they will run, then the items of the inbox. `show` must not use
    /// the engine.
    pub fn for_each_ready(&self, show: &mut dyn FnMut(GcReference<'_, H>)) {
        if let Ok(lanes) = self.lanes.try_borrow() {
            lanes.iter().for_each(|call| show(GcReference::Call(call)));
        }
        self.inbox.for_each(&mut |inbound| show(GcReference::Inbound(inbound)));
    }

    /// Shows all pending timers, in no order. `show` must not use the engine.
    pub fn for_each_timer(&self, show: &mut dyn FnMut(&H::Handle)) {
        if let Ok(timers) = self.timers.try_borrow() {
            timers.iter().for_each(show);
        }
    }

    /// Removes and returns all pending timers.
    #[must_use = "the caller drops the handles"]
    pub fn take_timers(&self) -> Vec<H::Handle> {
        self.timers.borrow_mut().clear()
    }

    /// Shows all registered fds, once per direction, with the watch or source. `show` must not use the engine.
    pub fn for_each_registered(&self, show: &mut dyn FnMut(RawFd, Direction, GcReference<'_, H>)) {
        let Ok(table) = self.table.try_borrow() else { return };
        for (_, entry) in table.iter() {
            match &entry.registrant {
                Registrant::Watch(watches) => {
                    if let Some(reader) = &watches.reader {
                        show(entry.fd, Direction::Inbound, GcReference::Watch(&reader.watch));
                    }
                    if let Some(writer) = &watches.writer {
                        show(entry.fd, Direction::Outbound, GcReference::Watch(&writer.watch));
                    }
                }
                Registrant::Source(source) => {
                    if entry.interest.is_inbound() {
                        show(entry.fd, Direction::Inbound, GcReference::Source(source));
                    }
                    if entry.interest.is_outbound() {
                        show(entry.fd, Direction::Outbound, GcReference::Source(source));
                    }
                }
            }
        }
    }
}
