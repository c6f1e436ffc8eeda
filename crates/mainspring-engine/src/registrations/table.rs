//! The table of registered fds, by slot and generation.
//!
//! An fd has an entry exactly while the kernel watches it. The entry belongs to a watch (`add_reader`/`add_writer`,
//! found by fd number, as asyncio's API requires) or to a source (a transport, found by key). An fd that a source
//! owns without interest is in the [`FdTable`] only. Removal functions return the removed value so that the caller
//! drops it after releasing all borrows (the drop may run user code).

use super::fd_table::{self, FdTable};
use crate::host::Host;
use crate::poller::{Interest, Key};
use slab::Slab;
use std::num::NonZeroU32;
use std::os::fd::RawFd;
use std::rc::Rc;

/// The receiver of an fd's events.
pub(crate) enum Registrant<H: Host> {
    /// Callbacks of `add_reader` and `add_writer`. Boxed, because the table has an entry of this size for every
    /// connection.
    Watch(Box<Watches<H>>),
    /// A transport or listener.
    Source(H::Source),
}

/// The watches of an fd, at least one.
pub(crate) struct Watches<H: Host> {
    pub reader: Option<Watched<H>>,
    pub writer: Option<Watched<H>>,
}

/// A watch and its serial number, unique within the loop.
pub(crate) struct Watched<H: Host> {
    pub watch: H::Watch,
    pub serial: u64,
}

pub(crate) struct Entry<H: Host> {
    pub fd: RawFd,
    pub interest: Interest,
    pub registrant: Registrant<H>,
    /// Not zero: so the slab needs no other mark for the entries in use.
    generation: NonZeroU32,
}

pub(crate) struct SourceTable<H: Host> {
    entries: Slab<Entry<H>>,
    /// Only grows, so that keys are unique until it wraps after 2^32 registrations.
    next_generation: NonZeroU32,
    fd_table: Rc<FdTable<H::Owner>>,
    next_serial: u64,
}

impl<H: Host> SourceTable<H> {
    pub fn new() -> Self {
        SourceTable {
            entries: Slab::new(),
            next_generation: NonZeroU32::MIN,
            fd_table: Rc::default(),
            next_serial: 0,
        }
    }

    /// The key that the next [`SourceTable::insert`] will assign.
    pub fn next_key(&self) -> Option<Key> {
        let slot = u32::try_from(self.entries.vacant_key()).ok()?;
        Some(Key { slot, generation: self.next_generation.get() })
    }

    /// Assigns a serial number to a watch.
    pub fn with_serial(&mut self, watch: H::Watch) -> Watched<H> {
        self.next_serial += 1;
        Watched { watch, serial: self.next_serial }
    }

    /// Adds a registration. Returns a watch with the same fd number: it is stale (its fd was closed without being
    /// deregistered), and no API call could remove it any more.
    #[must_use = "dropping an entry may run user code: do it outside of the borrow"]
    pub fn insert(
        &mut self,
        fd: RawFd,
        interest: Interest,
        registrant: Registrant<H>,
        owner: Option<H::Owner>,
    ) -> (Key, Option<Entry<H>>) {
        let generation = self.generation();
        let slot = self.entries.insert(Entry { fd, interest, registrant, generation });
        let key = Key { slot: slot as u32, generation: generation.get() };
        let former = self.watch_of(fd);
        self.fd_table.set(fd, key, owner);
        (key, former.and_then(|former| self.remove(former)))
    }

    /// Adds the owner of an fd, replacing any previous one. Returns its mark, and the watch of that number, which
    /// ends.
    #[must_use = "dropping an entry may run user code: do it outside of the borrow"]
    pub fn own(&mut self, fd: RawFd, owner: Option<H::Owner>) -> (Key, Option<(Key, Entry<H>)>) {
        let mark = fd_table::owner_mark(self.generation().get());
        let former = self.watch_of(fd);
        self.fd_table.set(fd, mark, owner);
        (mark, former.and_then(|former| Some((former, self.remove(former)?))))
    }

    fn generation(&mut self) -> NonZeroU32 {
        let generation = self.next_generation;
        // Zero is reserved for the loop's own fds.
        self.next_generation = self.next_generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        generation
    }

    fn watch_of(&self, fd: RawFd) -> Option<Key> {
        let key = self.key_of(fd)?;
        self.get(key).filter(|entry| matches!(entry.registrant, Registrant::Watch(_))).map(|_| key)
    }

    /// Shared with the owners of fds.
    pub(super) fn fd_table(&self) -> &Rc<FdTable<H::Owner>> {
        &self.fd_table
    }

    pub fn get(&self, key: Key) -> Option<&Entry<H>> {
        self.entries.get(key.slot as usize).filter(|entry| entry.generation.get() == key.generation)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut Entry<H>> {
        self.entries.get_mut(key.slot as usize).filter(|entry| entry.generation.get() == key.generation)
    }

    pub fn remove(&mut self, key: Key) -> Option<Entry<H>> {
        let entry = self.take_entry(key)?;
        self.fd_table.release(entry.fd, key);
        Some(entry)
    }

    /// As [`SourceTable::remove`], for a source that still owns its fd.
    pub fn remove_owned(&mut self, key: Key) -> Option<Entry<H>> {
        let entry = self.take_entry(key)?;
        self.fd_table.deregister(entry.fd, key);
        Some(entry)
    }

    fn take_entry(&mut self, key: Key) -> Option<Entry<H>> {
        self.get(key)?;
        Some(self.entries.remove(key.slot as usize))
    }

    /// The registration of this fd number.
    pub fn key_of(&self, fd: RawFd) -> Option<Key> {
        Some(self.fd_table.get(fd)).filter(|&key| fd_table::is_registered(key))
    }

    /// Whether the fd has an owner without a registration.
    pub fn is_owned(&self, fd: RawFd) -> bool {
        let key = self.fd_table.get(fd);
        key != Key::UNREGISTERED && !fd_table::is_registered(key)
    }

    /// The fds that are registered or have an owner.
    pub fn known_fds(&self) -> Vec<RawFd> {
        self.fd_table.used()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Entry<H>)> {
        let key =
            |slot: usize, entry: &Entry<H>| Key { slot: slot as u32, generation: entry.generation.get() };
        self.entries.iter().map(move |(slot, entry)| (key(slot, entry), entry))
    }

    /// Removes and returns all registrations. Sources still own their fds.
    pub fn take_all(&mut self) -> Vec<(Key, Entry<H>)> {
        let entries: Vec<_> = std::mem::take(&mut self.entries)
            .into_iter()
            .map(|(slot, entry)| (Key { slot: slot as u32, generation: entry.generation.get() }, entry))
            .collect();
        for (key, entry) in &entries {
            match entry.registrant {
                Registrant::Watch(_) => self.fd_table.release(entry.fd, *key),
                Registrant::Source(_) => self.fd_table.deregister(entry.fd, *key),
            }
        }
        entries
    }
}
