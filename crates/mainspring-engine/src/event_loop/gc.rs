//! What a loop holds for its face: shown to a garbage collector, and given back at the end.

use super::{Direction, Engine, Host};
use crate::poller::{ClosedPoller, Interest};
use crate::registrations::{Registrant, Watches};
use std::os::fd::RawFd;

/// What the loop holds for the face, shown to Python's garbage collector.
pub enum Held<'a, H: Host> {
    /// A scheduled call.
    Call(&'a H::Call),
    /// What watches a descriptor or a signal.
    Watch(&'a H::Watch),
    /// A registered source.
    Source(&'a H::Source),
    /// What another thread has sent and nobody has taken.
    Inbound(&'a H::Inbound),
}

/// What a loop held when it was closed. To be dropped by the face one by one: any destructor may run user code, and fail.
pub enum Leftover<H: Host> {
    /// A call that did not run.
    Call(H::Call),
    /// What watched a descriptor or a signal.
    Watch(H::Watch),
    /// A registered source.
    Source(H::Source),
    /// What another thread had sent.
    Inbound(H::Inbound),
}

impl<H: Host> Engine<H> {
    /// Takes out every call that is ready. The next poll reports again the I/O that these would have served.
    #[must_use = "the calls are the caller's to drop"]
    pub fn take_ready(&self) -> Vec<H::Call> {
        self.lanes.borrow_mut().clear()
    }

    /// Closes the loop for good: lets go of every call, timer, registration, and of its own descriptors. Other
    /// threads' calls are refused from here on.
    #[must_use = "what is left is the face's to drop"]
    pub fn close(&self) -> Vec<Leftover<H>> {
        self.closed.set(true);
        let unread = self.inbox.close();
        let ready = self.lanes.borrow_mut().clear();
        let timers = self.timers.borrow_mut().clear();
        let signals = self.signals.borrow_mut().clear();
        let sources = self.table.borrow_mut().take_all();
        for (key, entry) in &sources {
            // What cannot be deregistered goes with the fd of the back end.
            let _ = self.poller.borrow_mut().update(entry.fd, *key, entry.interest, Interest::NONE);
        }
        let poller = self.poller.replace(Box::new(ClosedPoller));
        let own = (self.wake.take(), self.signal_pipe.take(), self.parking.take(), poller);
        self.inbox.waker().close();
        drop(own);
        let mut left: Vec<_> = ready.into_iter().chain(timers).map(Leftover::Call).collect();
        left.extend(unread.into_iter().map(Leftover::Inbound));
        left.extend(signals.into_iter().map(|(_, watch)| Leftover::Watch(watch)));
        for (_, entry) in sources {
            match entry.registrant {
                Registrant::Watch(watches) => {
                    let Watches { reader, writer } = *watches;
                    let watches = reader.into_iter().chain(writer).map(|watched| watched.watch);
                    left.extend(watches.map(Leftover::Watch));
                }
                Registrant::Source(source) => left.push(Leftover::Source(source)),
            }
        }
        left
    }

    /// Shows everything the loop holds for the face. Skips what is being changed at this moment: Python's
    /// garbage collector then takes it for reachable, which is safe.
    pub fn for_each_held(&self, show: &mut dyn FnMut(Held<'_, H>)) {
        self.for_each_ready(show);
        self.for_each_timer(&mut |call| show(Held::Call(call)));
        if let Ok(signals) = self.signals.try_borrow() {
            signals.iter().for_each(|(_, watch)| show(Held::Watch(watch)));
        }
        if let Ok(table) = self.table.try_borrow() {
            for (_, entry) in table.iter() {
                match &entry.registrant {
                    Registrant::Watch(watches) => {
                        watches
                            .reader
                            .iter()
                            .chain(&watches.writer)
                            .for_each(|watched| show(Held::Watch(&watched.watch)));
                    }
                    Registrant::Source(source) => show(Held::Source(source)),
                }
            }
        }
    }

    /// Shows every call that is ready, in the order in which they run, and after them what other threads have sent. `show`
    /// must not use the engine.
    pub fn for_each_ready(&self, show: &mut dyn FnMut(Held<'_, H>)) {
        if let Ok(lanes) = self.lanes.try_borrow() {
            lanes.iter().for_each(|call| show(Held::Call(call)));
        }
        self.inbox.for_each(&mut |inbound| show(Held::Inbound(inbound)));
    }

    /// Shows every call that waits for its time, in no order. `show` must not use the engine.
    pub fn for_each_timer(&self, show: &mut dyn FnMut(&H::Call)) {
        if let Ok(timers) = self.timers.try_borrow() {
            timers.iter().for_each(show);
        }
    }

    /// Takes out every call that waits for its time.
    #[must_use = "the calls are the caller's to drop"]
    pub fn take_timers(&self) -> Vec<H::Call> {
        self.timers.borrow_mut().clear()
    }

    /// Shows every descriptor that the kernel is asked about, once for each direction, with the watch or the source that
    /// asks. `show` must not use the engine.
    pub fn for_each_registered(&self, show: &mut dyn FnMut(RawFd, Direction, Held<'_, H>)) {
        let Ok(table) = self.table.try_borrow() else { return };
        for (_, entry) in table.iter() {
            match &entry.registrant {
                Registrant::Watch(watches) => {
                    if let Some(reader) = &watches.reader {
                        show(entry.fd, Direction::Inbound, Held::Watch(&reader.watch));
                    }
                    if let Some(writer) = &watches.writer {
                        show(entry.fd, Direction::Outbound, Held::Watch(&writer.watch));
                    }
                }
                Registrant::Source(source) => {
                    if entry.interest.is_inbound() {
                        show(entry.fd, Direction::Inbound, Held::Source(source));
                    }
                    if entry.interest.is_outbound() {
                        show(entry.fd, Direction::Outbound, Held::Source(source));
                    }
                }
            }
        }
    }
}
