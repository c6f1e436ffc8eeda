//! `Registration`: a source's own end of its place in the table.
//!
//! A source is registered exactly while it wants something. A transport that paused reading and has nothing to
//! write is known to nobody but its users, as in asyncio: if they all drop it, it goes.

use super::{Engine, Host, Occupant};
use crate::poller::{Interest, Key};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What a source wants of its descriptor, and under which key the kernel was told.
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
#[derive(Default)]
pub struct Registration {
    key: Cell<Option<Key>>,
    interest: Cell<Interest>,
}

impl Registration {
    /// The interest the kernel was last told.
    pub fn interest(&self) -> Interest {
        self.interest.get()
    }

    /// The key to claim with. Claims are made also while nothing is registered (a first `send`), hence never
    /// absent.
    pub fn key(&self) -> Key {
        self.key.get().unwrap_or(Key::UNREGISTERED)
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
            None => {
                let source = source.clone();
                let mut table = engine.table.borrow_mut();
                let Some(key) = table.next_key() else {
                    return Err(io::ErrorKind::OutOfMemory.into());
                };
                engine.poller.borrow_mut().update(fd, key, Interest::NONE, interest)?;
                let (key, stale) = table.insert(fd.as_raw_fd(), interest, Occupant::Source(source));
                self.key.set(Some(key));
                self.interest.set(interest);
                drop(table);
                drop(stale);
                return Ok(());
            }
            Some(key) if interest.is_none() && engine.table.borrow().key_of(fd.as_raw_fd()) != Some(key) => {
                // The descriptor was closed without a word to the loop, and its number is somebody else's by now.
                self.forget(engine);
                return Ok(());
            }
            Some(key) => {
                let told = engine.poller.borrow_mut().update(fd, key, old, interest);
                if interest.is_none() {
                    self.forget(engine);
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

    /// Leaves the table without telling the kernel: for a descriptor that is gone, or with the whole loop.
    fn forget<H: Host>(&self, engine: &Engine<H>) {
        self.interest.set(Interest::NONE);
        if let Some(key) = self.key.take() {
            let entry = engine.table.borrow_mut().remove(key);
            drop(entry);
        }
    }
}
