//! `ReadDir`: the entries of a directory, read in batches.

use super::{run_blocking, spawn_blocking};
use crate::concurrent::ConcurrentFuture;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};

/// Entries read by one executor call.
const MAX_BATCH_ENTRIES: usize = 32;

/// Opens a directory.
///
/// Cancel safety: safe; no fd leaks.
///
/// ```
/// # mainspring::run(async {
/// let mut entries = mainspring::fs::read_dir("src").await?;
/// let mut names = Vec::new();
/// while let Some(entry) = entries.next_entry().await? {
///     names.push(entry.file_name());
/// }
/// assert!(names.iter().any(|name| name == "lib.rs"));
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let batch = run_blocking(move || std::fs::read_dir(path).map(Batch::read)).await?;
    Ok(ReadDir { batch, running: None })
}

/// The entries of a directory. See [`read_dir`]. It is `Send`.
///
/// ```
/// # mainspring::run(async {
/// let mut entries = mainspring::fs::read_dir("src/fs").await?;
/// let mut count = 0;
/// while let Some(entry) = entries.next_entry().await? {
///     count += usize::from(entry.file_type().await?.is_file());
/// }
/// assert!(count >= 2);
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct ReadDir {
    batch: Batch,
    running: Option<ConcurrentFuture<Batch>>,
}

/// Entries that were read, and the directory for more. `None` at the end.
#[derive(Default)]
struct Batch {
    entries: VecDeque<io::Result<std::fs::DirEntry>>,
    more: Option<std::fs::ReadDir>,
}

impl Batch {
    fn read(mut more: std::fs::ReadDir) -> Self {
        let entries: VecDeque<_> = more.by_ref().take(MAX_BATCH_ENTRIES).collect();
        let is_end = entries.len() < MAX_BATCH_ENTRIES;
        Batch { entries, more: (!is_end).then_some(more) }
    }
}

impl ReadDir {
    /// The next entry, in no particular order. `None` after the last. An error concerns one entry; others may follow.
    ///
    /// Cancel safety: safe; no entry is lost.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| {
            loop {
                if let Some(running) = &mut self.running {
                    let read = ready!(Pin::new(running).poll(cx));
                    self.running = None;
                    self.batch = read.map_err(io::Error::other)?;
                }
                if let Some(entry) = self.batch.entries.pop_front() {
                    return Poll::Ready(entry.map(|entry| Some(DirEntry(Arc::new(entry)))));
                }
                let Some(more) = self.batch.more.take() else { return Poll::Ready(Ok(None)) };
                self.running = Some(spawn_blocking(move || Batch::read(more))?);
            }
        })
        .await
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").field("waiting", &self.batch.entries.len()).finish_non_exhaustive()
    }
}

/// A directory entry. It is `Send`.
///
/// ```
/// # mainspring::run(async {
/// use std::os::unix::fs::MetadataExt;
///
/// let mut entries = mainspring::fs::read_dir("src").await?;
/// let entry = entries.next_entry().await?.unwrap();
/// assert_eq!(entry.path(), std::path::Path::new("src").join(entry.file_name()));
/// let metadata = entry.metadata().await?;
/// assert_eq!(metadata.is_dir(), entry.file_type().await?.is_dir());
/// assert_eq!(metadata.ino(), entry.ino());
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DirEntry(Arc<std::fs::DirEntry>);

impl DirEntry {
    /// The path: the directory joined with the name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The file name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.0.ino()
    }

    /// The metadata. Does not follow symbolic links.
    ///
    /// Cancel safety: safe.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = Arc::clone(&self.0);
        run_blocking(move || entry.metadata()).await
    }

    /// The file type.
    ///
    /// Cancel safety: safe.
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = Arc::clone(&self.0);
        run_blocking(move || entry.file_type()).await
    }
}
