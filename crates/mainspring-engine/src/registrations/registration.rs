//! `Registration`: the registration of one source.
//!
//! A source is registered exactly while it has an interest. A transport that paused reading and has nothing to write
//! is held only by its users, as in asyncio: if they all drop it, it is freed. It still owns its fd, from
//! [`Registration::own`] until [`Registration::give_up`] or its drop, and watching that fd fails.

use super::fd_table::{self, FdTable};
use super::{Engine, Host, Registrant, Watches};
use crate::poller::{Interest, Key};
use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;

/// The interest of a source in its fd, and the key of its registration. It is `!Send`, as the loop is.
pub struct Registration {
    /// The loop's table, once the fd is owned.
    fd_table: OnceCell<Rc<FdTable>>,
    /// The owned fd.
    fd: Cell<RawFd>,
    interest: Cell<Interest>,
    /// The key of the registration; else the owner mark; `UNREGISTERED` before [`Registration::own`].
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
    /// Makes this source the owner of `fd`, with or without an interest: watching the fd fails from here on. Existing
    /// watches are removed and given to [`Host::displaced`]. Repeating this has no effect.
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
        // Fails if the fd was closed without being deregistered and its number was reused.
        let _ = engine.poller.borrow_mut().update(fd, key, entry.interest, Interest::NONE);
        if let Registrant::Watch(watches) = entry.registrant {
            let Watches { reader, writer } = *watches;
            let both = reader.into_iter().chain(writer);
            both.for_each(|watched| engine.host.displaced(watched.watch));
        }
    }

    /// Ends the ownership of the fd. No effect while the source is registered. Called before the fd is closed or
    /// transferred; a drop does it too.
    pub fn give_up(&self) {
        if let Some(fd_table) = self.fd_table.get()
            && !fd_table::is_registered(self.key.get())
        {
            fd_table.exchange(self.fd.get(), self.key.get(), Key::UNREGISTERED);
        }
    }

    /// The registered interest.
    pub fn interest(&self) -> Interest {
        self.interest.get()
    }

    /// The key of the registration; [`Key::UNREGISTERED`] without one.
    pub fn key(&self) -> Key {
        let key = self.key.get();
        if fd_table::is_registered(key) { key } else { Key::UNREGISTERED }
    }

    /// Registers `interest` in `fd` for `source`.
    ///
    /// The source that leaves the table is dropped here; the caller holds another clone.
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
                // The fd was closed without being deregistered, and its number belongs to another registration.
                self.forget(engine, key);
                return Ok(());
            }
            key => {
                let updated = engine.poller.borrow_mut().update(fd.as_raw_fd(), key, old, interest);
                if interest.is_none() {
                    self.forget(engine, key);
                    return updated;
                }
                updated?;
                if let Some(entry) = engine.table.borrow_mut().get_mut(key) {
                    entry.interest = interest;
                }
            }
        }
        self.interest.set(interest);
        Ok(())
    }

    /// Whether the kernel's registration for this fd number is this one: no other registration followed. A mere owner
    /// mark may stand for the same open file.
    fn is_current<H: Host>(&self, engine: &Engine<H>, fd: RawFd) -> bool {
        let table = engine.table.borrow();
        table.key_of(fd) == Some(self.key.get()) || table.is_owned(fd)
    }

    /// Removes the table entry without a call to the kernel: for an fd that is closed, or after the kernel's entry is
    /// removed.
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

    /// A host whose calls, watches and sources do nothing.
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

        fn scope_ended(&self, (): ()) -> io::Result<()> {
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
    fn the_later_of_two_owners_of_a_number_owns_it() {
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
                assert!(!is_free(&engine, fd), "the second owner has it");
                drop(second);
            } else {
                drop(second);
                first.give_up();
            }
            assert!(is_free(&engine, fd));
        }
    }

    #[test]
    fn a_former_owner_leaves_no_registration_in_the_kernel() {
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

        // The reverse: the second owner's registration stays.
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
