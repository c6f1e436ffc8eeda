//! The socket file of a Unix listener. A server removes its file when it closes, unless another server has replaced
//! the file. Both languages use this.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The inode number of the file at `path`, for [`remove`].
pub fn inode(path: &Path) -> io::Result<u64> {
    std::fs::symlink_metadata(path).map(|found| found.ino())
}

/// Removes the socket file at `path` if its inode number is `inode`. Another file stays; a missing file is not an
/// error.
pub fn remove(path: &Path, inode: u64) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.ino() == inode && found.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Removes the socket file that a former server left at `path`. Any other file stays, so that `bind` fails on it; a
/// missing file is not an error.
pub fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => remove(path, found.ino()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
