//! Whom a process runs as.
//!
//! std sets the user before it calls the closures of `pre_exec`, and has no stable way to set the supplementary groups,
//! which only root may. So where groups are given, all three are set by a closure of ours, in the order in which the
//! system allows it: groups, group, user.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module's text.
#[derive(Default)]
pub(super) struct Identity {
    uid: Option<u32>,
    gid: Option<u32>,
    /// What the closure of a command with groups will set. Its lock is free whenever a process is made of the command:
    /// that takes the command exclusively.
    with_groups: Option<Arc<Mutex<WithGroups>>>,
}

#[derive(Default)]
struct WithGroups {
    uid: Option<u32>,
    gid: Option<u32>,
    groups: Vec<u32>,
}

impl Identity {
    pub(super) fn set_uid(&mut self, uid: u32) {
        self.uid = Some(uid);
    }

    pub(super) fn set_gid(&mut self, gid: u32) {
        self.gid = Some(gid);
    }

    pub(super) fn set_groups(&mut self, command: &mut Command, groups: &[u32]) {
        let shared = self.with_groups.get_or_insert_with(|| {
            let shared = Arc::<Mutex<WithGroups>>::default();
            let in_child = Arc::clone(&shared);
            // SAFETY: the closure takes a lock that is free (see `with_groups`) without waiting for it, and makes system
            // calls that are async-signal-safe. It allocates nothing.
            unsafe {
                command.pre_exec(move || in_child.try_lock().map_or(Err(busy()), |it| it.apply_in_child()))
            };
            shared
        });
        shared.lock().unwrap_or_else(PoisonError::into_inner).groups = groups.to_vec();
    }

    /// Hands user and group to whoever is to set them.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Some(shared) = &self.with_groups {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            (shared.uid, shared.gid) = (self.uid, self.gid);
            return;
        }
        if let Some(gid) = self.gid {
            command.gid(gid);
        }
        if let Some(uid) = self.uid {
            command.uid(uid);
        }
    }
}

fn busy() -> io::Error {
    io::Error::from_raw_os_error(libc::EBUSY)
}

impl WithGroups {
    /// Becomes this one. In the new process.
    fn apply_in_child(&self) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of one vector.
        check(unsafe { libc::setgroups(self.groups.len() as _, self.groups.as_ptr()) })?;
        if let Some(gid) = self.gid {
            // SAFETY: takes a number, touches no memory of ours.
            check(unsafe { libc::setgid(gid) })?;
        }
        if let Some(uid) = self.uid {
            // SAFETY: takes a number, touches no memory of ours.
            check(unsafe { libc::setuid(uid) })?;
        }
        Ok(())
    }
}

fn check(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
