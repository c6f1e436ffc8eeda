//! `add_reader` and `add_writer`: callbacks for an fd on which the program does the I/O itself.

use super::table::{Watched, Watches};
use super::{Direction, Engine, Host, Registrant};
use crate::poller::{Interest, Key};
use std::io;
use std::os::fd::RawFd;

/// Identifies one watch, so that a caller removes its own watch and not a later one of the same fd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchTicket {
    fd: RawFd,
    direction: Direction,
    serial: u64,
}

impl<H: Host> Engine<H> {
    /// Calls `watch` whenever `fd` is ready in `direction`, until it is unwatched. Returns the watch that it
    /// replaces; the host cancels and drops it.
    ///
    /// Fails with the kernel's error, and with `ResourceBusy` if a transport owns the fd.
    pub fn watch(&self, fd: RawFd, direction: Direction, watch: H::Watch) -> io::Result<Option<H::Watch>> {
        self.watch_with_ticket(fd, direction, watch).map(|(_, replaced)| replaced)
    }

    /// As [`Engine::watch`]; also returns the ticket for [`Engine::unwatch_ticket`].
    pub fn watch_with_ticket(
        &self,
        fd: RawFd,
        direction: Direction,
        watch: H::Watch,
    ) -> io::Result<(WatchTicket, Option<H::Watch>)> {
        let mut table = self.table.borrow_mut();
        let watched = table.with_serial(watch);
        let ticket = WatchTicket { fd, direction, serial: watched.serial };
        let key = table.key_of(fd);
        match key.and_then(|key| table.get_mut(key).map(|entry| (key, entry))) {
            Some((key, entry)) => {
                let Registrant::Watch(watches) = &mut entry.registrant else {
                    return Err(owned_by_transport(fd));
                };
                let wanted = entry.interest.with(direction.interest());
                // A replaced callback leaves the interest unchanged. But the program may have closed the fd, and the
                // kernel may have reused its number and lost the registration: register again.
                let known = if wanted == entry.interest { Interest::NONE } else { entry.interest };
                self.poller.borrow_mut().update(fd, key, known, wanted)?;
                entry.interest = wanted;
                let replaced = direction.of(watches).replace(watched);
                Ok((ticket, replaced.map(|replaced| replaced.watch)))
            }
            None => {
                if table.is_owned(fd) {
                    return Err(owned_by_transport(fd));
                }
                let Some(key) = table.next_key() else {
                    return Err(io::ErrorKind::OutOfMemory.into());
                };
                self.poller.borrow_mut().update(fd, key, Interest::NONE, direction.interest())?;
                let (reader, writer) = match direction {
                    Direction::Inbound => (Some(watched), None),
                    Direction::Outbound => (None, Some(watched)),
                };
                let watches = Box::new(Watches { reader, writer });
                let inserted = table.insert(fd, direction.interest(), Registrant::Watch(watches), None);
                drop(table);
                drop(inserted);
                Ok((ticket, None))
            }
        }
    }

    /// Removes and returns the watch; the host cancels and drops it. `None` if there was none.
    ///
    /// Fails only with `ResourceBusy`, as [`Engine::watch`] does. The watch is removed whatever the kernel answers.
    pub fn unwatch(&self, fd: RawFd, direction: Direction) -> io::Result<Option<H::Watch>> {
        self.unwatch_if(fd, direction, |_| true)
    }

    /// Removes and returns the watch with this ticket; `None` if it was removed or replaced.
    pub fn unwatch_ticket(&self, ticket: WatchTicket) -> Option<H::Watch> {
        let WatchTicket { fd, direction, serial } = ticket;
        // An error means that a transport owns the number by now, so the watch is gone.
        self.unwatch_if(fd, direction, |watched| watched.serial == serial).unwrap_or(None)
    }

    fn unwatch_if(
        &self,
        fd: RawFd,
        direction: Direction,
        is_it: impl FnOnce(&Watched<H>) -> bool,
    ) -> io::Result<Option<H::Watch>> {
        let mut table = self.table.borrow_mut();
        let Some(key) = table.key_of(fd) else {
            return if table.is_owned(fd) { Err(owned_by_transport(fd)) } else { Ok(None) };
        };
        let Some(entry) = table.get_mut(key) else { return Ok(None) };
        let Registrant::Watch(watches) = &mut entry.registrant else {
            return Err(owned_by_transport(fd));
        };
        let place = direction.of(watches);
        let Some(watched) = place.take_if(|watched| is_it(watched)) else { return Ok(None) };
        let (old, new) = (entry.interest, entry.interest.without(direction.interest()));
        entry.interest = new;
        let gone = if new.is_none() { table.remove(key) } else { None };
        drop(table);
        drop(gone);
        // The fd may be closed already. The caller still needs the watch, to cancel it.
        let _ = self.poller.borrow_mut().update(fd, key, old, new);
        Ok(Some(watched.watch))
    }

    /// The transport that owns this fd, registered or not, by the host's name for it.
    pub fn owner_of(&self, fd: RawFd) -> Option<H::Owner> {
        self.table.borrow().fd_table().owner(fd)
    }

    /// All transports that own an fd, by the host's names for them.
    pub fn owners(&self) -> Vec<(RawFd, H::Owner)> {
        self.table.borrow().fd_table().owners()
    }

    /// The transport or listener for which this fd is registered.
    pub fn source_of(&self, fd: RawFd) -> Option<H::Source> {
        let table = self.table.borrow();
        match &table.get(table.key_of(fd)?)?.registrant {
            Registrant::Source(source) => Some(source.clone()),
            Registrant::Watch(_) => None,
        }
    }

    /// Makes an fd watchable although a source without interest owns it: for a host that knows that the owner is
    /// about to be dropped. See [`Registration::own`](super::Registration::own).
    pub fn forget_owner(&self, fd: RawFd) {
        let table = self.table.borrow();
        if table.is_owned(fd) {
            table.fd_table().set(fd, Key::UNREGISTERED, None);
        }
    }
}

impl Direction {
    fn interest(self) -> Interest {
        match self {
            Direction::Inbound => Interest::READ,
            Direction::Outbound => Interest::WRITE,
        }
    }

    fn of<H: Host>(self, watches: &mut Watches<H>) -> &mut Option<Watched<H>> {
        match self {
            Direction::Inbound => &mut watches.reader,
            Direction::Outbound => &mut watches.writer,
        }
    }
}

fn owned_by_transport(fd: RawFd) -> io::Error {
    let text = format!(
        "file descriptor {fd} belongs to a transport of this loop: read and write through the transport"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}
