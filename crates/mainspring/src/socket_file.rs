//! The file of a Unix socket that listens, and its end: it goes with its server, unless another server's file is there by
//! then. Both languages use this.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The inode number of the file at `path`, by which [`remove`] knows it again.
pub fn inode(path: &Path) -> io::Result<u64> {
    std::fs::symlink_metadata(path).map(|found| found.ino())
}

/// Removes the socket file at `path` if its inode number is `inode`. Another file is left where it is, and a file that is
/// gone is no error.
///
/// ```
/// use mainspring::socket_file;
/// use std::os::unix::net::UnixListener;
///
/// let path = std::env::temp_dir().join(format!("socket-{}", std::process::id()));
/// let _listener = UnixListener::bind(&path)?;
/// let inode = socket_file::inode(&path)?;
/// socket_file::remove(&path, inode + 1)?;
/// assert!(path.exists(), "it is somebody else's");
/// socket_file::remove(&path, inode)?;
/// assert!(!path.exists());
/// socket_file::remove(&path, inode)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove(path: &Path, inode: u64) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.ino() == inode && found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}
