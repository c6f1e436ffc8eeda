//! The table of registered descriptors: who wants what of which descriptor, by slot and generation.
//!
//! A descriptor is here exactly while the kernel is asked something about it. It belongs either to a watch
//! (`add_reader`/`add_writer`, found again by descriptor number, as asyncio's API demands) or to a source (a
//! transport, found by its key only). What a source owns without asking for anything is known by its number
//! (`numbers.rs`). Nothing here calls out: what is removed is handed to the caller, who drops it when no borrow is left.

use super::fd_table::{self, FdTable};
use crate::host::Host;
use crate::poller::{Interest, Key};
use slab::Slab;
use std::os::fd::RawFd;
use std::rc::Rc;

/// Who gets the events of a descriptor.
pub(crate) enum Registrant<H: Host> {
    /// Calls of `add_reader` and `add_writer`. Boxed, because the table has an entry of this size for every connection.
    Watch(Box<Watches<H>>),
    /// A transport or listener.
    Source(H::Source),
}

/// Who watches a descriptor, at least one of them.
pub(crate) struct Watches<H: Host> {
    pub reader: Option<Watched<H>>,
    pub writer: Option<Watched<H>>,
}

/// A watch and its serial number, which no other watch of the loop ever has.
pub(crate) struct Watched<H: Host> {
    pub watch: H::Watch,
    pub serial: u64,
}

pub(crate) struct Entry<H: Host> {
    pub fd: RawFd,
    pub interest: Interest,
    pub registrant: Registrant<H>,
    generation: u32,
}

pub(crate) struct SourceTable<H: Host> {
    entries: Slab<Entry<H>>,
    /// Never goes back, so that no two registrations share a key until it wraps after four billion.
    next_generation: u32,
    fd_table: Rc<FdTable>,
    next_serial: u64,
}

impl<H: Host> SourceTable<H> {
    pub fn new() -> Self {
        SourceTable { entries: Slab::new(), next_generation: 1, fd_table: Rc::default(), next_serial: 0 }
    }

    /// The key that the next [`SourceTable::insert`] will give.
    pub fn next_key(&self) -> Option<Key> {
        let slot = u32::try_from(self.entries.vacant_key()).ok()?;
        Some(Key { slot, generation: self.next_generation })
    }

    /// FdTable a watch.
    pub fn with_serial(&mut self, watch: H::Watch) -> Watched<H> {
        self.next_serial += 1;
        Watched { watch, serial: self.next_serial }
    }

    /// Enters a registration. A watch under the same descriptor number is stale (its descriptor was closed without a
    /// word to the loop) and comes back: nobody could remove it any more.
    #[must_use = "dropping an entry may run user code: do it outside of the borrow"]
    pub fn insert(
        &mut self,
        fd: RawFd,
        interest: Interest,
        registrant: Registrant<H>,
    ) -> (Key, Option<Entry<H>>) {
        let generation = self.generation();
        let slot = self.entries.insert(Entry { fd, interest, registrant, generation });
        let key = Key { slot: slot as u32, generation };
        let former = self.watch_of(fd);
        self.fd_table.set(fd, key);
        (key, former.and_then(|former| self.remove(former)))
    }

    /// Enters the owner of a descriptor, whoever was there before: gives its mark. A watch under the number is over, and
    /// comes back.
    #[must_use = "dropping an entry may run user code: do it outside of the borrow"]
    pub fn own(&mut self, fd: RawFd) -> (Key, Option<(Key, Entry<H>)>) {
        let mark = fd_table::owner_mark(self.generation());
        let former = self.watch_of(fd);
        self.fd_table.set(fd, mark);
        (mark, former.and_then(|former| Some((former, self.remove(former)?))))
    }

    fn generation(&mut self) -> u32 {
        let generation = self.next_generation;
        // Zero is left out: the keys of the loop's own descriptors have it.
        self.next_generation = self.next_generation.checked_add(1).unwrap_or(1);
        generation
    }

    fn watch_of(&self, fd: RawFd) -> Option<Key> {
        let key = self.key_of(fd)?;
        self.get(key).filter(|entry| matches!(entry.registrant, Registrant::Watch(_))).map(|_| key)
    }

    /// For those who own a descriptor.
    pub(super) fn fd_table(&self) -> &Rc<FdTable> {
        &self.fd_table
    }

    pub fn get(&self, key: Key) -> Option<&Entry<H>> {
        self.entries.get(key.slot as usize).filter(|entry| entry.generation == key.generation)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut Entry<H>> {
        self.entries.get_mut(key.slot as usize).filter(|entry| entry.generation == key.generation)
    }

    pub fn remove(&mut self, key: Key) -> Option<Entry<H>> {
        self.remove_for(key, Key::UNREGISTERED)
    }

    /// As [`SourceTable::remove`]; `next` stands for the number from here on, if this registration did.
    pub fn remove_for(&mut self, key: Key, next: Key) -> Option<Entry<H>> {
        self.get(key)?;
        let entry = self.entries.remove(key.slot as usize);
        self.fd_table.exchange(entry.fd, key, next);
        Some(entry)
    }

    /// The registration that stands for this descriptor number now.
    pub fn key_of(&self, fd: RawFd) -> Option<Key> {
        Some(self.fd_table.get(fd)).filter(|&key| fd_table::is_registered(key))
    }

    /// Whether the descriptor has an owner that is not registered.
    pub fn is_owned(&self, fd: RawFd) -> bool {
        let key = self.fd_table.get(fd);
        key != Key::UNREGISTERED && !fd_table::is_registered(key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Key, &Entry<H>)> {
        let key = |slot: usize, entry: &Entry<H>| Key { slot: slot as u32, generation: entry.generation };
        self.entries.iter().map(move |(slot, entry)| (key(slot, entry), entry))
    }

    pub fn take_all(&mut self) -> Vec<(Key, Entry<H>)> {
        self.fd_table.clear();
        let entries = std::mem::take(&mut self.entries).into_iter();
        entries
            .map(|(slot, entry)| (Key { slot: slot as u32, generation: entry.generation }, entry))
            .collect()
    }
}
