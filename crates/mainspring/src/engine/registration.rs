//! `Registration`: a source's own end of its place in the table.
//!
//! A source is registered exactly while it wants something. A transport that paused reading and has nothing to
//! write is held by nobody but its users, as in asyncio: if they all drop it, it goes. But its descriptor is its own all the
//! time, from [`Registration::own`] to [`Registration::give_up`] or the end of the source, and nobody may watch it.

use super::numbers::{self, Numbers};
use super::watch::borrow;
use super::{Engine, Host, Occupant, Watches};
use crate::poller::{Interest, Key};
use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;

/// What a source wants of its descriptor, and under which key the kernel was told. It is `!Send`, as the loop is.
///
/// ```
#[doc = include_str!("../doc/plain_host.txt")]
/// use mainspring::engine::{Engine, Registration};
/// use mainspring::poller::{Interest, Key};
/// use std::os::fd::{AsFd, AsRawFd};
/// use std::os::unix::net::UnixStream;
///
/// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
/// let (here, _there) = UnixStream::pair()?;
/// let registration = Registration::default();
/// assert_eq!(registration.key(), Key::UNREGISTERED);
///
/// // The source of this host is `()`.
/// registration.set(&engine, here.as_fd(), &(), Interest::RECV)?;
/// assert_eq!(registration.interest(), Interest::RECV);
/// assert_eq!(engine.source_of(here.as_raw_fd()), Some(()));
/// registration.set(&engine, here.as_fd(), &(), Interest::NONE)?;
/// assert_eq!(engine.registered_len(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Registration {
    /// Those of the loop, once the descriptor is owned.
    numbers: OnceCell<Rc<Numbers>>,
    /// What stands for the number if that is this source: the registration; else the owner's mark; nothing before.
    key: Cell<Key>,
    /// The number that is owned.
    fd: Cell<RawFd>,
    interest: Cell<Interest>,
}

impl Default for Registration {
    fn default() -> Self {
        Registration {
            numbers: OnceCell::new(),
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
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::{Direction, Engine, Registration};
    /// use std::io::ErrorKind;
    /// use std::os::fd::AsRawFd;
    /// use std::os::unix::net::UnixStream;
    /// use std::rc::Rc;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (here, _there) = UnixStream::pair()?;
    /// let watch = || engine.watch(here.as_raw_fd(), Direction::Inbound, Rc::new(|| ()));
    /// watch()?;
    ///
    /// let registration = Registration::default();
    /// registration.own(&engine, here.as_raw_fd());
    /// assert_eq!(engine.registered_len(), 0, "the watch is over");
    /// assert_eq!(watch().unwrap_err().kind(), ErrorKind::ResourceBusy);
    /// registration.give_up();
    /// assert!(watch()?.is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn own<H: Host>(&self, engine: &Engine<H>, fd: RawFd) {
        if self.numbers.get().is_some() {
            return;
        }
        let mut table = engine.table.borrow_mut();
        let _ = self.numbers.set(Rc::clone(table.numbers()));
        self.fd.set(fd);
        if numbers::is_registered(self.key.get()) {
            return;
        }
        let (mark, displaced) = table.own(fd);
        self.key.set(mark);
        drop(table);
        let Some((key, entry)) = displaced else { return };
        if let Ok(fd) = borrow(fd) {
            // It may be unknown to the kernel: a descriptor that was closed without a word, and its number used again.
            let _ = engine.poller.borrow_mut().update(fd, key, entry.interest, Interest::NONE);
        }
        if let Occupant::Watch(watches) = entry.occupant {
            let Watches { reader, writer } = *watches;
            let both = reader.into_iter().chain(writer);
            both.for_each(|watched| engine.host.displaced(watched.watch));
        }
    }

    /// The descriptor is no longer this source's, which wants nothing of it any more: to be called before it is closed or
    /// given to somebody else. Dropping the registration does it too.
    pub fn give_up(&self) {
        self.exchange(self.key.get(), Key::UNREGISTERED);
    }

    /// Takes the descriptor again after [`Registration::give_up`], unless it has become somebody else's.
    pub fn take_again(&self) {
        self.exchange(Key::UNREGISTERED, self.key.get());
    }

    fn exchange(&self, from: Key, to: Key) {
        if let Some(numbers) = self.numbers.get()
            && !numbers::is_registered(self.key.get())
        {
            numbers.exchange(self.fd.get(), from, to);
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
        if numbers::is_registered(key) { key } else { Key::UNREGISTERED }
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
            key if !numbers::is_registered(key) => {
                let source = source.clone();
                let mut table = engine.table.borrow_mut();
                let Some(key) = table.next_key() else {
                    return Err(io::ErrorKind::OutOfMemory.into());
                };
                engine.poller.borrow_mut().update(fd, key, Interest::NONE, interest)?;
                let (key, stale) = table.insert(fd.as_raw_fd(), interest, Occupant::Source(source));
                self.key.set(key);
                self.interest.set(interest);
                drop(table);
                drop(stale);
                return Ok(());
            }
            key if interest.is_none() && !self.stands_for(engine, fd.as_raw_fd()) => {
                // The descriptor was closed without a word to the loop, and its number is somebody else's by now.
                self.forget(engine, key);
                return Ok(());
            }
            key => {
                let told = engine.poller.borrow_mut().update(fd, key, old, interest);
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
    fn stands_for<H: Host>(&self, engine: &Engine<H>, fd: RawFd) -> bool {
        let table = engine.table.borrow();
        table.key_of(fd) == Some(self.key.get()) || table.is_owned(fd)
    }

    /// Leaves the table without telling the kernel: for a descriptor that is gone, or with the whole loop.
    fn forget<H: Host>(&self, engine: &Engine<H>, key: Key) {
        let next = match self.numbers.get() {
            Some(_) => numbers::mark(key.generation),
            None => Key::UNREGISTERED,
        };
        self.interest.set(Interest::NONE);
        self.key.set(next);
        let entry = engine.table.borrow_mut().remove_for(key, next);
        drop(entry);
    }
}
