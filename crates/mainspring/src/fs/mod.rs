//! Files, with `await`.
//!
//! The kernel has no way to say when a file is ready, so every operation here blocks a thread of the loop's executor and
//! never the loop. asyncio has no files at all; the names are those of [`std::fs`].
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
//! # Giving up
//!
//! A thread cannot be stopped in the middle of a system call. **What was begun goes on when its future is dropped**, and its
//! result is lost: a `rename` that was given up may still happen, and an error of it is told to nobody. Only a [`File`] has a
//! state that could suffer, and takes care of it: see there.
//!
//! # Errors
//!
//! Each operation fails as that of the same name in [`std::fs`] does, with the same error.
//!
//! Everything here needs a loop that runs on this thread (else it is an error), but belongs to none: a [`File`] is `Send`.

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
use crate::current_core::current_core;
use crate::event_loop::run_in_executor;
use std::io;

/// Begins `work` in a thread of the executor.
fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<ConcurrentFuture<T>> {
    Ok(run_in_executor(&*current_core()?, work)?)
}

/// Does `work` in a thread of the executor. Dropped, it goes on there, for nobody.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work)?.await.map_err(io::Error::other)?
}
