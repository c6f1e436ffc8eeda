//! `FdTable`: which registration or owner each fd number belongs to.
//!
//! A slot is empty, or holds the key of a registration (of a watch or a source), or an owner mark. An owner mark
//! stands for a source that owns the fd and has no registered interest. It has a generation of its own and a slot
//! that no registration has, so that it stays unique however often the kernel reuses the number. With the key the
//! slot holds the host's name for the owner, [`Host::Owner`](crate::Host::Owner).
//!
//! The registration table and every owner share the `FdTable` through an `Rc`: an owner that is dropped releases its
//! number without access to the loop.

use crate::poller::Key;
use std::cell::RefCell;
use std::os::fd::RawFd;

/// Slots indexed by fd. A vector, because the kernel assigns the lowest free number.
pub(super) struct FdTable<O>(RefCell<Vec<FdSlot<O>>>);

#[derive(Clone, Copy)]
struct FdSlot<O> {
    key: Key,
    owner: Option<O>,
}

impl<O> FdSlot<O> {
    const EMPTY: Self = FdSlot { key: Key::UNREGISTERED, owner: None };
}

/// The owner mark of this generation.
pub(super) fn owner_mark(generation: u32) -> Key {
    Key { generation, ..Key::UNREGISTERED }
}

/// Whether `key` names a registration: it is neither an owner mark nor empty.
pub(super) fn is_registered(key: Key) -> bool {
    key.slot != Key::UNREGISTERED.slot
}

impl<O> Default for FdTable<O> {
    fn default() -> Self {
        FdTable(RefCell::default())
    }
}

impl<O: Copy> FdTable<O> {
    fn slot(&self, fd: RawFd) -> FdSlot<O> {
        let slot = usize::try_from(fd).ok().and_then(|number| self.0.borrow().get(number).copied());
        slot.unwrap_or(FdSlot::EMPTY)
    }

    /// The key; [`Key::UNREGISTERED`] if the slot is empty.
    pub fn get(&self, fd: RawFd) -> Key {
        self.slot(fd).key
    }

    /// The host's name for the owner; `None` without an owner, or if it has no name.
    pub fn owner(&self, fd: RawFd) -> Option<O> {
        self.slot(fd).owner
    }

    /// All owners that have a name, with their fds.
    pub fn owners(&self) -> Vec<(RawFd, O)> {
        let slots = self.0.borrow();
        (0..).zip(slots.iter()).filter_map(|(fd, slot)| Some((fd, slot.owner?))).collect()
    }

    pub fn set(&self, fd: RawFd, key: Key, owner: Option<O>) {
        // An fd is never negative.
        let Ok(number) = usize::try_from(fd) else { return };
        let mut slots = self.0.borrow_mut();
        if number >= slots.len() {
            slots.resize(number + 1, FdSlot::EMPTY);
        }
        if let Some(slot) = slots.get_mut(number) {
            *slot = FdSlot { key, owner };
        }
    }

    /// The numbers of the slots that are not empty.
    pub fn used(&self) -> Vec<RawFd> {
        let slots = self.0.borrow();
        let used = slots.iter().enumerate().filter(|(_, slot)| slot.key != Key::UNREGISTERED);
        used.map(|(number, _)| number as RawFd).collect()
    }

    /// Empties the slot if its key is `key`.
    pub fn release(&self, fd: RawFd, key: Key) {
        if self.get(fd) == key {
            self.set(fd, Key::UNREGISTERED, None);
        }
    }

    /// Replaces the key of a registration by the mark of its owner, if the slot holds that key.
    pub fn deregister(&self, fd: RawFd, key: Key) {
        let slot = self.slot(fd);
        if slot.key == key {
            self.set(fd, owner_mark(key.generation), slot.owner);
        }
    }
}
