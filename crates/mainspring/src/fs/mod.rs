//! Files with `await`.
//!
//! The kernel has no readiness notification for files, so every operation blocks a thread of the executor and never
//! the loop. asyncio has no file API; the names are those of [`std::fs`].
//!
//! ```
//! use mainspring::fs;
//!
//! mainspring::run(async {
//!     let directory = std::env::temp_dir().join(format!("mainspring-doc-fs-{}", std::process::id()));
//!     fs::create_dir_all(&directory).await?;
//!     let path = directory.join("greeting");
//!     fs::write(&path, "hello").await?;
//!     assert_eq!(fs::read_to_string(&path).await?, "hello");
//!     assert_eq!(fs::metadata(&path).await?.len(), 5);
//!     fs::remove_dir_all(&directory).await?;
//!     Ok::<(), std::io::Error>(())
//! })??;
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! # Cancellation
//!
//! A thread cannot be stopped inside a system call. **An operation that has started continues when its future is
//! dropped**, and its result is discarded: a cancelled `rename` may still happen, and its error is not reported. A
//! [`File`] has state, and keeps it consistent: see [`File`].
//!
//! # Errors
//!
//! Each operation returns the error of the function of the same name in [`std::fs`].
//!
//! All functions fail if this thread runs no loop. Nothing here is bound to a loop: a [`File`] is `Send`.

mod cursor;
mod file;
mod futures_io;
mod open_options;
mod paths;
mod read_dir;

pub use file::File;
pub use open_options::OpenOptions;
pub use paths::{
    canonicalize, copy, create_dir, create_dir_all, hard_link, metadata, read, read_link, read_to_string,
    remove_dir, remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata, try_exists,
    write,
};
pub use read_dir::{DirEntry, ReadDir, read_dir};

use crate::concurrent::ConcurrentFuture;
use crate::event_loop::{current_core, run_in_executor};
use std::io;

/// Starts `operation` in a thread of the executor.
fn spawn_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> T + Send + 'static,
) -> io::Result<ConcurrentFuture<T>> {
    Ok(run_in_executor(&*current_core()?, operation)?)
}

/// Runs `operation` in a thread of the executor. If the future is dropped, `operation` continues and its result is
/// discarded.
async fn run_blocking<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(operation)?.await.map_err(io::Error::other)?
}
