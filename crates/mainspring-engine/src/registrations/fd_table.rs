//! `FdTable`: who stands for which descriptor number.
//!
//! A place is empty, or has the key of a registration in it (a watch's or a source's), or the mark of an owner: a source
//! that has the descriptor and asks nothing of the kernel at the moment. A mark has a generation of its own and a slot that
//! no registration has, so that nobody takes another's for theirs, however often the number is used again.
//!
//! The table and every owner share them: an owner that is dropped gives its number up by itself, without a loop at hand.

use crate::poller::Key;
use std::cell::RefCell;
use std::os::fd::RawFd;

/// See the module's text. By number, because the kernel gives the lowest ones out first.
#[derive(Default)]
pub(super) struct FdTable(RefCell<Vec<Key>>);

/// The mark of an owner.
pub(super) fn owner_mark(generation: u32) -> Key {
    Key { generation, ..Key::UNREGISTERED }
}

/// Whether this is the key of a registration: no mark, and not nothing.
pub(super) fn is_registered(key: Key) -> bool {
    key.slot != Key::UNREGISTERED.slot
}

impl FdTable {
    /// What stands there; [`Key::UNREGISTERED`] for nothing.
    pub fn get(&self, fd: RawFd) -> Key {
        let key = usize::try_from(fd).ok().and_then(|number| self.0.borrow().get(number).copied());
        key.unwrap_or(Key::UNREGISTERED)
    }

    pub fn set(&self, fd: RawFd, key: Key) {
        // No descriptor has a negative number.
        let Ok(number) = usize::try_from(fd) else { return };
        let mut keys = self.0.borrow_mut();
        if number >= keys.len() {
            keys.resize(number + 1, Key::UNREGISTERED);
        }
        if let Some(slot) = keys.get_mut(number) {
            *slot = key;
        }
    }

    /// Puts `to` in the place of `from`, and of nothing else.
    pub fn exchange(&self, fd: RawFd, from: Key, to: Key) {
        if self.get(fd) == from {
            self.set(fd, to);
        }
    }

    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}
