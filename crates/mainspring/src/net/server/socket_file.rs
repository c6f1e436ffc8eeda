//! `SocketFile`: removes the file of a listening Unix socket when its server stops.

use crate::event_loop::{Core, ExceptionContext};
use mainspring_engine::socket_file;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

/// Guard for the file of a listening socket. Dropping it removes the file, unless another file has replaced it: the
/// inode number decides.
pub(in crate::net) struct SocketFile {
    core: Weak<Core>,
    path: PathBuf,
    inode: u64,
    is_disarmed: bool,
}

impl SocketFile {
    /// A guard for the file that was just bound at `path`. `None` if the file cannot be identified.
    pub(super) fn new(core: &Rc<Core>, path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let inode = socket_file::inode(&path).ok()?;
        Some(SocketFile { core: Rc::downgrade(core), path, inode, is_disarmed: false })
    }

    /// Disarms the guard: the file stays.
    pub(super) fn disarm(mut self) {
        self.is_disarmed = true;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_disarmed {
            return;
        }
        let removed = socket_file::remove(&self.path, self.inode);
        if let Some(core) = self.core.upgrade() {
            report(&core, removed, &self.path, "Cannot remove the file of a closed Unix server");
        }
    }
}

/// Removes the socket file that a former server left at `path`. A failure is reported to the exception handler; `bind`
/// then fails on the file.
pub(super) fn remove_stale(core: &Core, path: &Path) {
    report(core, socket_file::remove_stale(path), path, "Cannot remove a stale Unix socket file");
}

fn report(core: &Core, removed: io::Result<()>, path: &Path, message: &str) {
    if let Err(error) = removed {
        let message = format!("{message}: {}", path.display());
        core.call_exception_handler(&ExceptionContext::new(&message).with_error(error));
    }
}
