//! `FdTable`: which registration or owner each fd number belongs to.
//!
//! An entry is empty, or holds the key of a registration (of a watch or a source), or an owner mark. An owner mark
//! stands for a source that owns the fd and has no registered interest. It has a generation of its own and a slot
//! that no registration has, so that it stays unique however often the kernel reuses the number.
//!
//! The registration table and every owner share the `FdTable` through an `Rc`: an owner that is dropped releases its
//! number without access to the loop.

use crate::poller::Key;
use std::cell::RefCell;
use std::os::fd::RawFd;

/// Keys indexed by fd. A vector, because the kernel assigns the lowest free number.
#[derive(Default)]
pub(super) struct FdTable(RefCell<Vec<Key>>);

/// The owner mark of this generation.
pub(super) fn owner_mark(generation: u32) -> Key {
    Key { generation, ..Key::UNREGISTERED }
}

/// Whether `key` names a registration: it is neither an owner mark nor empty.
pub(super) fn is_registered(key: Key) -> bool {
    key.slot != Key::UNREGISTERED.slot
}

impl FdTable {
    /// The entry; [`Key::UNREGISTERED`] if it is empty.
    pub fn get(&self, fd: RawFd) -> Key {
        let key = usize::try_from(fd).ok().and_then(|number| self.0.borrow().get(number).copied());
        key.unwrap_or(Key::UNREGISTERED)
    }

    pub fn set(&self, fd: RawFd, key: Key) {
        // An fd is never negative.
        let Ok(number) = usize::try_from(fd) else { return };
        let mut keys = self.0.borrow_mut();
        if number >= keys.len() {
            keys.resize(number + 1, Key::UNREGISTERED);
        }
        if let Some(slot) = keys.get_mut(number) {
            *slot = key;
        }
    }

    /// Replaces the entry with `to` if it is `from`.
    pub fn exchange(&self, fd: RawFd, from: Key, to: Key) {
        if self.get(fd) == from {
            self.set(fd, to);
        }
    }

    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
