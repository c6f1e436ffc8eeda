//! `File`: an open file.

use super::cursor::Cursor;
use super::open_options::OpenOptions;
use super::{run_blocking, spawn_blocking};
use mainspring_engine::memory;
use std::fmt;
use std::fs::{Metadata, Permissions};
use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// An open file. Its operations run in the executor, one after another.
///
/// # Cancellation
///
/// An operation that has started continues in its thread when its future is dropped, and the next one waits for it. The
/// file stays consistent:
///
/// - The next read returns the bytes of a cancelled read. Before any other operation, the position goes back to the
///   end of the last completed read.
/// - A cancelled write is completed, and the position is behind it. The next operation returns its failure; if there
///   is none, the failure is reported to the exception handler.
/// - A cancelled seek has moved the position.
///
/// The `futures-io` traits write in the background: bytes are accepted when they are copied, and `flush` waits until
/// they are passed to the kernel ([`sync_all`](File::sync_all) waits for the disk). The methods here need no `flush`.
///
/// Dropping a file closes it after its last operation. It is `Send` and not bound to a loop.
///
/// ```
/// use mainspring::fs::File;
/// use std::io::SeekFrom;
///
/// mainspring::run(async {
///     let path = std::env::temp_dir().join(format!("mainspring-doc-file-{}", std::process::id()));
///     let mut file = File::options().read(true).write(true).create(true).open(&path).await?;
///     file.write_all(b"hello, world").await?;
///     file.sync_all().await?;
///     assert_eq!(file.metadata().await?.len(), 12);
///
///     file.write_at(b"W", 7).await?;
///     file.seek(SeekFrom::Start(1)).await?;
///     let mut middle = [0; 6];
///     file.read_exact(&mut middle).await?;
///     let mut rest = String::new();
///     file.read_to_string(&mut rest).await?;
///     assert_eq!((&middle, rest.as_str()), (b"ello, ", "World"));
///
///     let plain: std::fs::File = file.into_std().await?;
///     drop(plain);
///     mainspring::fs::remove_file(&path).await?;
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct File {
    pub(super) cursor: Cursor,
}

impl File {
    /// Opens a file for reading.
    ///
    /// Cancel safety: safe; no fd leaks.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut file = mainspring::fs::File::open("Cargo.toml").await?;
    /// let mut start = [0; 9];
    /// file.read_exact(&mut start).await?;
    /// assert_eq!(&start, b"[package]");
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file for writing. Creates it, or truncates it if it exists.
    ///
    /// Cancel safety: no fd leaks. The file may still be created or truncated.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-create-{}", std::process::id()));
    /// let mut file = mainspring::fs::File::create(&path).await?;
    /// file.write_all(b"hello").await?;
    /// assert_eq!(file.metadata().await?.len(), 5);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// Creates a file for reading and writing. `AlreadyExists` if it exists.
    ///
    /// Cancel safety: no fd leaks. The file may still be created.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::fs::File;
    ///
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-new-{}", std::process::id()));
    /// File::create_new(&path).await?;
    /// assert_eq!(File::create_new(&path).await.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).await
    }

    /// Options for opening a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Converts a file of std, at its position.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::fs::File;
    ///
    /// let mut file = File::from_std(std::fs::File::open("Cargo.toml")?);
    /// file.read_exact(&mut [0; 9]).await?;
    /// let mut file = file.into_std().await?;
    /// assert_eq!(std::io::Seek::stream_position(&mut file)?, 9);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(file: std::fs::File) -> Self {
        File { cursor: Cursor::new(file) }
    }

    /// Converts into a file of std, after the last operation. See [`File::from_std`].
    ///
    /// Cancel safety: dropping the future closes the file.
    pub async fn into_std(self) -> io::Result<std::fs::File> {
        self.cursor.into_file().await
    }

    /// Reads up to 2 MiB at a time. Zero is the end of the file.
    ///
    /// Cancel safety: safe; the next read returns the bytes.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut file = mainspring::fs::File::open("/dev/null").await?;
    /// assert_eq!(file.read(&mut [0; 10]).await?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.cursor.poll_read(cx, buffer)).await
    }

    /// Fills `buffer`. `UnexpectedEof` if the file ends early. See [`File::open`].
    ///
    /// Cancel safety: not safe; an unknown number of bytes may be in `buffer`.
    pub async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = buffer;
        while !rest.is_empty() {
            match self.read(rest).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => rest = rest.get_mut(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Reads to the end of the file, appends to `into`, and returns the number of bytes.
    ///
    /// Cancel safety: safe; `into` contains the bytes read so far.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut all = Vec::new();
    /// let count = mainspring::fs::File::open("Cargo.toml").await?.read_to_end(&mut all).await?;
    /// assert_eq!(count, all.len());
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_to_end(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = vec![0; 64 * 1024];
        let before = into.len();
        loop {
            match self.read(&mut chunk).await? {
                0 => return Ok(into.len() - before),
                count => memory::append(into, chunk.get(..count).unwrap_or_default())?,
            }
        }
    }

    /// Reads to the end of the file, appends to `into`, and returns the number of bytes. `InvalidData` if it is not
    /// UTF-8. See [`File`].
    ///
    /// Cancel safety: not safe; the bytes read so far are lost.
    pub async fn read_to_string(&mut self, into: &mut String) -> io::Result<usize> {
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes).await?;
        let text = String::from_utf8(bytes)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))?;
        into.push_str(&text);
        Ok(text.len())
    }

    /// Writes up to 2 MiB at a time and returns the number of bytes. Completes when the kernel has them.
    ///
    /// Cancel safety: a write that has started is completed.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut file = mainspring::fs::File::options().write(true).open("/dev/null").await?;
    /// assert_eq!(file.write(b"hello").await?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = poll_fn(|cx| self.cursor.poll_write(cx, data)).await?;
        self.flush().await?;
        Ok(count)
    }

    /// Writes all of `data`. Completes when the kernel has it. See [`File::create`].
    ///
    /// Cancel safety: not safe; a part or all of it may be written.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let count = poll_fn(|cx| self.cursor.poll_write(cx, rest)).await?;
            rest = rest.get(count..).unwrap_or_default();
        }
        self.flush().await
    }

    /// Waits until everything from cancelled writes and from the `futures-io` traits is written, and returns a
    /// failure.
    ///
    /// Cancel safety: safe; the call only waits.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use futures_io::AsyncWrite;
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    ///
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-flush-{}", std::process::id()));
    /// let mut file = mainspring::fs::File::create(&path).await?;
    /// poll_fn(|cx| Pin::new(&mut file).poll_write(cx, b"behind")).await?;
    /// file.flush().await?;
    /// assert_eq!(mainspring::fs::read(&path).await?, b"behind");
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.cursor.poll_flush(cx)).await
    }

    /// Moves the position and returns it. See [`File`].
    ///
    /// Cancel safety: a seek that has started is completed.
    pub async fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.cursor.discard_seek();
        poll_fn(|cx| self.cursor.poll_seek(cx, to)).await
    }

    /// Truncates the file, or extends it with zeros. The position does not change.
    ///
    /// Cancel safety: once started it is completed, before the next operation.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-len-{}", std::process::id()));
    /// let mut file = mainspring::fs::File::create(&path).await?;
    /// file.write_all(b"hello").await?;
    /// file.set_len(2).await?;
    /// file.sync_all().await?;
    /// assert_eq!(mainspring::fs::read(&path).await?, b"he");
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn set_len(&mut self, size: u64) -> io::Result<()> {
        self.cursor.set_len(size).await
    }

    /// Waits until data and metadata are on the disk. See [`File::set_len`].
    ///
    /// Cancel safety: once started it is completed.
    pub async fn sync_all(&mut self) -> io::Result<()> {
        self.flush().await?;
        let file = Arc::clone(self.cursor.file());
        run_blocking(move || file.sync_all()).await
    }

    /// Waits until the data is on the disk, with only the metadata needed to read it. Otherwise as
    /// [`File::sync_all`].
    ///
    /// Cancel safety: once started it is completed.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-sync-{}", std::process::id()));
    /// let mut journal = mainspring::fs::File::create(&path).await?;
    /// journal.write_all(b"paid").await?;
    /// journal.sync_data().await?;
    /// assert_eq!(mainspring::fs::read(&path).await?, b"paid");
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn sync_data(&mut self) -> io::Result<()> {
        self.flush().await?;
        let file = Arc::clone(self.cursor.file());
        run_blocking(move || file.sync_data()).await
    }

    /// The metadata of the file. Does not wait for other operations. See [`File::create`].
    ///
    /// Cancel safety: safe.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let file = Arc::clone(self.cursor.file());
        run_blocking(move || file.metadata()).await
    }

    /// Changes the permissions of the file. Does not wait for other operations.
    ///
    /// Cancel safety: once started it is completed.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-mode-{}", std::process::id()));
    /// let file = mainspring::fs::File::create(&path).await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    /// assert!(file.metadata().await?.permissions().readonly());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let file = Arc::clone(self.cursor.file());
        run_blocking(move || file.set_permissions(permissions)).await
    }

    /// Duplicates the fd. Both share the position.
    ///
    /// Cancel safety: safe; no fd leaks.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let mut file = mainspring::fs::File::open("Cargo.toml").await?;
    /// let mut same = file.try_clone().await?;
    /// file.read_exact(&mut [0; 9]).await?;
    /// assert_eq!(same.seek(std::io::SeekFrom::Current(0)).await?, 9);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn try_clone(&self) -> io::Result<Self> {
        let file = Arc::clone(self.cursor.file());
        run_blocking(move || file.try_clone()).await.map(Self::from_std)
    }

    /// Reads at `offset`; the position does not change. Zero is the end of the file. Several calls of this and of
    /// [`write_at`](File::write_at) run concurrently.
    ///
    /// Cancel safety: safe.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-at-{}", std::process::id()));
    /// let file = mainspring::fs::File::create_new(&path).await?;
    /// assert_eq!(file.write_at(b"hello", 10).await?, 5);
    /// let mut end = [0; 4];
    /// assert_eq!(file.read_at(&mut end, 12).await?, 3);
    /// assert_eq!(&end, b"llo\0");
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = Arc::clone(self.cursor.file());
        let mut bytes = Vec::new();
        memory::fill_with_zeroes(&mut bytes, buffer.len())?;
        let (bytes, count) = spawn_blocking(move || {
            let count = file.read_at(&mut bytes, offset);
            (bytes, count)
        })?
        .await
        .map_err(io::Error::other)?;
        let count = count?;
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), bytes.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    /// Writes at `offset`; the position does not change. See [`File::read_at`].
    ///
    /// Cancel safety: once started it is completed; a failure is not reported.
    pub async fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let file = Arc::clone(self.cursor.file());
        let data = memory::copy(data)?;
        run_blocking(move || file.write_at(&data, offset)).await
    }
}

impl AsFd for File {
    /// For system calls that this crate does not offer. Changing the position affects the next read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.cursor.file().as_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(self.cursor.file()).finish()
    }
}
