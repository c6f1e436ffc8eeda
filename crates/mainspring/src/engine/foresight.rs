//! Foresight: the face is told which sources are about to be announced, to have them near when they are.
//!
//! The events of a wait are known all at once, and served one after the other, each with a system call. What they are about
//! can be asked for from memory all at once as well.

use super::{Engine, Host};
use crate::poller::Event;

/// From so many registrations on, what is known of them is too much for the processor's near caches; with fewer it is not worth
/// the trouble.
const CROWD: usize = 256;

impl<H: Host> Engine<H> {
    /// Tells the face of what it will be asked to announce.
    pub(super) fn foresee(&self, events: &[Event]) {
        let table = self.table.borrow();
        if table.len() >= CROWD {
            self.host.foresee(events.iter().filter_map(|event| table.source(event.key)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::MonotonicClock;
    use crate::engine::{Direction, Readiness, Registration};
    use crate::poller::{Interest, open_epoll};
    use rustix::event::{EventfdFlags, eventfd};
    use std::cell::RefCell;
    use std::io;
    use std::os::fd::{AsFd, AsRawFd};

    /// Writes down what it is told: of its sources, which are numbers.
    #[derive(Default)]
    struct Notes {
        foreseen: RefCell<Vec<usize>>,
        announced: RefCell<Vec<usize>>,
    }

    impl Host for Notes {
        const ANNOUNCES: bool = true;

        type Call = ();
        type Watch = ();
        type Source = usize;
        type Inbound = ();
        type Error = io::Error;

        fn run_call(&self, (): ()) -> io::Result<()> {
            Ok(())
        }

        fn io_ready(&self, _: usize, _: Readiness) -> io::Result<()> {
            unreachable!("all is done when it is announced")
        }

        fn turn_ended(&self, _: usize) -> io::Result<()> {
            unreachable!("nobody asks for it")
        }

        fn announce(&self, _: &Engine<Self>, source: usize, _: Readiness) -> bool {
            self.announced.borrow_mut().push(source);
            true
        }

        fn foresee<'a>(&self, sources: impl Iterator<Item = &'a usize>) {
            assert_eq!(*self.announced.borrow(), [], "before the first of them is announced");
            self.foreseen.borrow_mut().extend(sources);
        }

        fn receive(&self, (): ()) {}

        fn blocking(&self, wait: &mut dyn FnMut()) {
            wait();
        }

        fn interrupted(&self) -> io::Result<()> {
            Ok(())
        }

        fn os_error(&self, error: io::Error) -> io::Error {
            error
        }
    }

    /// An engine with so many sources, of which the first few have something to read.
    fn engine_with(sources: usize) -> (Engine<Notes>, Vec<impl Sized>) {
        let engine = Engine::new(Notes::default(), open_epoll().unwrap(), Box::new(MonotonicClock)).unwrap();
        let register = |number: usize| {
            let fd = eventfd(u32::from(number < 4), EventfdFlags::NONBLOCK).unwrap();
            let registration = Registration::default();
            registration.set(&engine, fd.as_fd(), &number, Interest::RECV).unwrap();
            (registration, fd)
        };
        let registered = (0..sources).map(register).collect();
        (engine, registered)
    }

    #[test]
    fn in_a_crowd_all_are_foreseen_in_the_order_in_which_they_are_announced() {
        let (engine, registered) = engine_with(CROWD);
        engine.run_once().unwrap();
        let announced = engine.host().announced.take();
        assert_eq!(announced.len(), 4);
        assert_eq!(engine.host().foreseen.take(), announced);
        drop((engine, registered));
    }

    #[test]
    fn a_few_are_near_by_themselves() {
        let (engine, registered) = engine_with(CROWD - 1);
        engine.run_once().unwrap();
        assert_eq!(engine.host().announced.take().len(), 4);
        assert_eq!(engine.host().foreseen.take(), []);
        drop((engine, registered));
    }

    #[test]
    fn what_is_watched_is_no_source_to_foresee() {
        let (engine, registered) = engine_with(CROWD);
        let watched = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        engine.watch(watched.as_raw_fd(), Direction::Inbound, ()).unwrap();
        engine.run_once().unwrap();
        assert_eq!(engine.host().foreseen.take(), engine.host().announced.take());
        drop((engine, registered));
    }
}
