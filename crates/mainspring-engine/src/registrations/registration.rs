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
pub struct Registration<H: Host> {
    /// The loop's table, once the fd is owned.
    fd_table: OnceCell<Rc<FdTable<H::Owner>>>,
    /// The owned fd.
    fd: Cell<RawFd>,
    /// The host's name for this source as an owner, once the fd is owned.
    owner: Cell<Option<H::Owner>>,
    interest: Cell<Interest>,
    /// The key of the registration; else the owner mark; `UNREGISTERED` before [`Registration::own`].
    key: Cell<Key>,
}

impl<H: Host> Default for Registration<H> {
    fn default() -> Self {
        Registration {
            fd_table: OnceCell::new(),
            key: Cell::new(Key::UNREGISTERED),
            fd: Cell::new(-1),
            owner: Cell::new(None),
            interest: Cell::new(Interest::NONE),
        }
    }
}

impl<H: Host> Drop for Registration<H> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl<H: Host> Registration<H> {
    /// Makes this source the owner of `fd`, with or without an interest: watching the fd fails from here on. Existing
    /// watches are removed and given to [`Host::displaced`]. [`Engine::owner_of`] returns `owner`. Repeating this has
    /// no effect.
    pub fn own(&self, engine: &Engine<H>, fd: RawFd, owner: Option<H::Owner>) {
        if self.fd_table.get().is_some() {
            return;
        }
        let mut table = engine.table.borrow_mut();
        let _ = self.fd_table.set(Rc::clone(table.fd_table()));
        self.fd.set(fd);
        self.owner.set(owner);
        if fd_table::is_registered(self.key.get()) {
            return;
        }
        let (mark, displaced) = table.own(fd, owner);
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
        if let Some(fd_table) = self.fd_table.get() {
            fd_table.release(self.fd.get(), fd_table::owner_mark(self.key.get().generation));
        }
    }

    /// The registered interest.
    pub fn interest(&self) -> Interest {
        self.interest.get()
    }

    /// Registers `interest` in `fd` for `source`.
    ///
    /// The source that leaves the table is dropped here; the caller holds another clone.
    pub fn set(
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
                let (key, stale) =
                    table.insert(fd.as_raw_fd(), interest, Registrant::Source(source), self.owner.get());
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
    fn is_current(&self, engine: &Engine<H>, fd: RawFd) -> bool {
        let table = engine.table.borrow();
        table.key_of(fd) == Some(self.key.get()) || table.is_owned(fd)
    }

    /// Removes the table entry without a call to the kernel: for an fd that is closed, or after the kernel's entry is
    /// removed.
    fn forget(&self, engine: &Engine<H>, key: Key) {
        let owns = self.fd_table.get().is_some();
        self.interest.set(Interest::NONE);
        self.key.set(if owns { fd_table::owner_mark(key.generation) } else { Key::UNREGISTERED });
        let mut table = engine.table.borrow_mut();
        let entry = if owns { table.remove_owned(key) } else { table.remove(key) };
        drop(table);
        drop(entry);
    }
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests {
    use super::*;
    use crate::Direction;
    use crate::clock::MonotonicClock;
    use crate::poller::Readiness;
    use crate::testing::{FakeControl, FakePoller};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// A host whose calls, watches and sources do nothing.
    pub(crate) struct Idle;

    impl Host for Idle {
        type Call = ();
        type Handle = ();
        type Watch = ();
        type Source = ();
        type Owner = u8;
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

        fn receive(&self, (): ()) -> Option<()> {
            None
        }

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

    pub(crate) fn engine() -> (Engine<Idle>, FakeControl) {
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
            first.own(&engine, fd, None);
            second.own(&engine, fd, None);
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
        first.own(&engine, fd, None);
        first.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        second.own(&engine, fd, None);
        first.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        assert_eq!(control.key_of(fd), None);
        drop(first);
        assert!(!is_free(&engine, fd));

        // The reverse: the second owner's registration stays.
        let third = Registration::default();
        second.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        third.own(&engine, fd, None);
        third.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        second.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        assert_eq!(control.key_of(fd), Some(third.key.get()));
        third.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        drop(second);
        assert!(!is_free(&engine, fd));
        drop(third);
        assert!(is_free(&engine, fd));
        assert_eq!(engine.registered_len(), 0);
    }

    #[test]
    fn the_name_of_an_owner_is_known_until_it_gives_up_the_fd() {
        let (engine, _) = engine();
        let (here, _there) = UnixStream::pair().unwrap();
        let fd = here.as_raw_fd();
        let (first, second) = (Registration::default(), Registration::default());
        first.own(&engine, fd, Some(1));
        assert_eq!(engine.owner_of(fd), Some(1));
        first.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        assert_eq!(engine.owner_of(fd), Some(1), "registered");
        second.own(&engine, fd, Some(2));
        assert_eq!(engine.owner_of(fd), Some(2));
        first.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        drop(first);
        assert_eq!(engine.owner_of(fd), Some(2), "a former owner does not release the fd");
        second.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        drop(engine.close());
        assert_eq!(engine.owner_of(fd), Some(2), "owned on a closed loop");
        drop(second);
        assert_eq!(engine.owner_of(fd), None);
        let third = Registration::default();
        third.own(&engine, fd, Some(3));
        engine.forget_owner(fd);
        assert_eq!(engine.owner_of(fd), None);
    }

    #[test]
    fn an_owner_outlives_its_loop() {
        let (engine, _) = engine();
        let (here, _there) = UnixStream::pair().unwrap();
        let (resting, registered) = (Registration::default(), Registration::default());
        resting.own(&engine, here.as_raw_fd(), None);
        registered.own(&engine, here.as_raw_fd(), None);
        registered.set(&engine, here.as_fd(), &(), Interest::READ).unwrap();
        drop(engine.close());
        registered.set(&engine, here.as_fd(), &(), Interest::NONE).unwrap();
        drop(engine);
        resting.give_up();
        drop((resting, registered));
    }
}
