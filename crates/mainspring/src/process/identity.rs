//! `Identity`: user, group and supplementary groups of a child process.
//!
//! std sets the user before it runs the `pre_exec` closures, and has no stable way to set the supplementary groups,
//! which needs root. So if groups are given, one closure sets all three in the required order: groups, group, user.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// See the module documentation.
#[derive(Default)]
pub(super) struct Identity {
    uid: Option<u32>,
    gid: Option<u32>,
    /// The values for the closure. The lock is free at every spawn, because spawning borrows the command exclusively.
    credentials: Option<Arc<Mutex<Credentials>>>,
}

#[derive(Default)]
struct Credentials {
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
        let shared = self.credentials.get_or_insert_with(|| {
            let shared = Arc::<Mutex<Credentials>>::default();
            let in_child = Arc::clone(&shared);
            // SAFETY: the closure uses `try_lock` on a lock that is free (see `credentials`) and calls
            // async-signal-safe functions. It does not allocate.
            unsafe {
                command.pre_exec(move || {
                    in_child.try_lock().map_or(Err(busy_error()), |ids| ids.apply_in_child())
                })
            };
            shared
        });
        shared.lock().unwrap_or_else(PoisonError::into_inner).groups = groups.to_vec();
    }

    /// Passes user and group to the closure, or to std.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Some(shared) = &self.credentials {
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

fn busy_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EBUSY)
}

impl Credentials {
    /// Sets the ids. Runs in the child process.
    fn apply_in_child(&self) -> io::Result<()> {
        // SAFETY: pointer and length belong to one vector.
        check(unsafe { libc::setgroups(self.groups.len() as _, self.groups.as_ptr()) })?;
        if let Some(gid) = self.gid {
            // SAFETY: takes a number and no pointer.
            check(unsafe { libc::setgid(gid) })?;
        }
        if let Some(uid) = self.uid {
            // SAFETY: takes a number and no pointer.
            check(unsafe { libc::setuid(uid) })?;
        }
        Ok(())
    }
}

fn check(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
