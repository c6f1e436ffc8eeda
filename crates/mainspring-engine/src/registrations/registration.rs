//! `Registration`: a source's own end of its place in the table.
//!
//! A source is registered exactly while it wants something. A transport that paused reading and has nothing to
//! write is held by nobody but its users, as in asyncio: if they all drop it, it goes. But its descriptor is its own all the
//! time, from [`Registration::own`] to [`Registration::give_up`] or the end of the source, and nobody may watch it.

use super::fd_table::{self, FdTable};
use super::{Engine, Host, Registrant, Watches};
use crate::poller::{Interest, Key};
use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;

/// What a source wants of its descriptor, and under which key the kernel was told. It is `!Send`, as the loop is.
pub struct Registration {
    /// Those of the loop, once the descriptor is owned.
    fd_table: OnceCell<Rc<FdTable>>,
    /// The number that is owned.
    fd: Cell<RawFd>,
    interest: Cell<Interest>,
    /// What stands for the number if that is this source: the registration; else the owner's mark; nothing before.
    key: Cell<Key>,
}

impl Default for Registration {
    fn default() -> Self {
        Registration {
            fd_table: OnceCell::new(),
            key: Cell::new(Key::UNREGISTERED),
            fd: Cell::new(-1),
            interest: Cell::new(Interest::NONE),
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Registration {
    /// Takes `fd` for this source, which has it from here on whether it wants something of it or not: watching it fails.
    /// Who watches it already is told ([`Host::displaced`]) and not called any more. Repeating it changes nothing.
    pub fn own<H: Host>(&self, engine: &Engine<H>, fd: RawFd) {
        if self.fd_table.get().is_some() {
            return;
        }
        let mut table = engine.table.borrow_mut();
        let _ = self.fd_table.set(Rc::clone(table.fd_table()));
        self.fd.set(fd);
        if fd_table::is_registered(self.key.get()) {
            return;
        }
        let (mark, displaced) = table.own(fd);
        self.key.set(mark);
        drop(table);
        let Some((key, entry)) = displaced else { return };
        // The kernel may not know it: the fd was closed without being deregistered, and its number is used again.
        let _ = engine.poller.borrow_mut().update(fd, key, entry.interest, Interest::NONE);
        if let Registrant::Watch(watches) = entry.registrant {
            let Watches { reader, writer } = *watches;
            let both = reader.into_iter().chain(writer);
            both.for_each(|watched| engine.host.displaced(watched.watch));
        }
    }

    /// The descriptor is no longer this source's, which wants nothing of it any more: to be called before it is closed or
    /// given to somebody else. Dropping the registration does it too.
    pub fn give_up(&self) {
        if let Some(fd_table) = self.fd_table.get()
            && !fd_table::is_registered(self.key.get())
        {
            fd_table.exchange(self.fd.get(), self.key.get(), Key::UNREGISTERED);
        }
    }

    /// The interest the kernel was last told.
    pub fn interest(&self) -> Interest {
        self.interest.get()
    }

    /// The key to claim with. Claims are made also while nothing is registered (a first `send`), hence never
    /// absent.
    pub fn key(&self) -> Key {
        let key = self.key.get();
        if fd_table::is_registered(key) { key } else { Key::UNREGISTERED }
    }

    /// Tells the kernel to want `interest` of `fd`, for `source`.
    ///
    /// The source that the table lets go of is dropped on the way out; the caller holds one of its own.
    pub fn set<H: Host>(
        &self,
        engine: &Engine<H>,
        fd: BorrowedFd<'_>,
        source: &H::Source,
        interest: Interest,
    ) -> io::Result<()> {
        let old = self.interest.get();
        if old == interest {
            return Ok(());
        }
        match self.key.get() {
            key if !fd_table::is_registered(key) => {
                let source = source.clone();
                let mut table = engine.table.borrow_mut();
                let Some(key) = table.next_key() else {
                    return Err(io::ErrorKind::OutOfMemory.into());
                };
                engine.poller.borrow_mut().update(fd.as_raw_fd(), key, Interest::NONE, interest)?;
                let (key, stale) = table.insert(fd.as_raw_fd(), interest, Registrant::Source(source));
                self.key.set(key);
                self.interest.set(interest);
                drop(table);
                drop(stale);
                return Ok(());
            }
            key if interest.is_none() && !self.is_current(engine, fd.as_raw_fd()) => {
                // The descriptor was closed without a word to the loop, and its number is somebody else's by now.
                self.forget(engine, key);
                return Ok(());
            }
            key => {
                let told = engine.poller.borrow_mut().update(fd.as_raw_fd(), key, old, interest);
                if interest.is_none() {
                    self.forget(engine, key);
                    return told;
                }
                told?;
                if let Some(entry) = engine.table.borrow_mut().get_mut(key) {
                    entry.interest = interest;
                }
            }
        }
        self.interest.set(interest);
        Ok(())
    }

    /// Whether what the kernel knows under this number is this registration: nobody has registered it since. One that has
    /// only taken the number may have the same descriptor.
    fn is_current<H: Host>(&self, engine: &Engine<H>, fd: RawFd) -> bool {
        let table = engine.table.borrow();
        table.key_of(fd) == Some(self.key.get()) || table.is_owned(fd)
    }

    /// Leaves the table without telling the kernel: for a descriptor that is gone, or with the whole loop.
    fn forget<H: Host>(&self, engine: &Engine<H>, key: Key) {
        let next = match self.fd_table.get() {
            Some(_) => fd_table::owner_mark(key.generation),
            None => Key::UNREGISTERED,
        };
        self.interest.set(Interest::NONE);
        self.key.set(next);
        let entry = engine.table.borrow_mut().remove_for(key, next);
        drop(entry);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Direction;
    use crate::clock::MonotonicClock;
    use crate::poller::Readiness;
    use crate::testing::{FakeControl, FakePoller};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Its calls, watches and sources do nothing.
    struct Idle;

    impl Host for Idle {
        type Call = ();
        type Watch = ();
        type Source = ();
        type Inbound = ();
        type Error = io::Error;

        fn run_call(&self, (): ()) -> io::Result<()> {
            Ok(())
        }

        fn io_ready(&self, (): (), _: Readiness) -> Option<()> {
            None
        }

        fn turn_ended(&self, (): ()) -> io::Result<()> {
            Ok(())
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

    fn engine() -> (Engine<Idle>, FakeControl) {
        let (backend, control) = FakePoller::open().unwrap();
        (Engine::new(Idle, backend, Box::new(MonotonicClock)).unwrap(), control)
    }

    fn is_free(engine: &Engine<Idle>, fd: RawFd) -> bool {
        let is_free = engine.watch(fd, Direction::Inbound, ()).is_ok();
        is_free && engine.unwatch(fd, Direction::Inbound).unwrap().is_some()
    }

    #[test]
    fn of_two_owners_of_a_number_the_later_one_has_it() {
        let (engine, _) = engine();
        let (here, _there) = UnixStream::pair().unwrap();
        let fd = here.as_raw_fd();
        for closes_first in [true, false] {
            let (first, second) = (Registration::default(), Registration::default());
            first.own(&engine, fd);
            second.own(&engine, fd);
            if closes_first {
                first.give_up();
                drop(first);
                assert!(!is_free(&engine, fd), "it is the second's");
                drop(second);
            } else {
                drop(second);
                first.give_up();
            }
            assert!(is_free(&engine, fd));
        }
    }

    #[test]
    fn an_owner_that_was_registered_before_another_came_leaves_nothing_with_the_kernel() {
        let (engine, control) = engine();
        let (here, _there) = UnixStream::pair().unwrap();
        let fd = here.as_raw_fd();
        let (first, second) = (Registration::default(), Registration::default());
        first.own(&engine, fd);
        first.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        second.own(&engine, fd);
        first.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        assert_eq!(control.key_of(fd), None);
        drop(first);
        assert!(!is_free(&engine, fd));

        // The other way round: what the second has asked the kernel for stays.
        let third = Registration::default();
        second.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        third.own(&engine, fd);
        third.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        second.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        assert_eq!(control.key_of(fd), Some(third.key()));
        third.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        drop(second);
        assert!(!is_free(&engine, fd));
        drop(third);
        assert!(is_free(&engine, fd));
        assert_eq!(engine.registered_len(), 0);
    }

    #[test]
    fn an_owner_outlives_its_loop() {
        let (engine, _) = engine();
        let (here, _there) = UnixStream::pair().unwrap();
        let (resting, registered) = (Registration::default(), Registration::default());
        resting.own(&engine, here.as_raw_fd());
        registered.own(&engine, here.as_raw_fd());
        registered.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        drop(engine.close());
        registered.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        drop(engine);
        resting.give_up();
        drop((resting, registered));
    }
}
