//! The path functions of std, run in the executor.
//!
//! Cancel safety of all functions: see [the module documentation](super).

use super::run_blocking;
use mainspring_engine::memory;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

/// Reads a whole file.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-read-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, b"hello").await?;
/// assert_eq!(fs::read(&path).await?, b"hello");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::read(path)).await
}

/// Reads a whole file as text. `InvalidData` if it is not UTF-8.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-read_to_string-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, "hello").await?;
/// assert_eq!(fs::read_to_string(&path).await?, "hello");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::read_to_string(path)).await
}

/// Replaces the contents of a file. Creates it if it does not exist.
///
/// Cancel safety: once started it is completed, so cancellation does not leave a half-written file.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-write-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, "hello").await?;
/// fs::write(&path, "bye").await?;
/// assert_eq!(fs::read(&path).await?, b"bye");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    let contents = memory::copy(contents.as_ref())?;
    run_blocking(move || fs::write(path, contents)).await
}

/// Copies a file with its permissions, replacing the target, and returns the number of bytes.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-copy-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let (from, to) = (directory.join("from"), directory.join("to"));
/// fs::write(&from, "hello").await?;
/// assert_eq!(fs::copy(&from, &to).await?, 5);
/// assert_eq!(fs::read(&to).await?, b"hello");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let from = from.as_ref().to_owned();
    let to = to.as_ref().to_owned();
    run_blocking(move || fs::copy(from, to)).await
}

/// Renames a file or directory, replacing the target.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-rename-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let (from, to) = (directory.join("from"), directory.join("to"));
/// fs::write(&from, "hello").await?;
/// fs::rename(&from, &to).await?;
/// assert!(!fs::try_exists(&from).await?);
/// assert_eq!(fs::read(&to).await?, b"hello");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let from = from.as_ref().to_owned();
    let to = to.as_ref().to_owned();
    run_blocking(move || fs::rename(from, to)).await
}

/// Removes a file.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-remove_file-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, "hello").await?;
/// fs::remove_file(&path).await?;
/// assert!(!fs::try_exists(&path).await?);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::remove_file(path)).await
}

/// Creates a directory.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-create_dir-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("inner");
/// fs::create_dir(&path).await?;
/// assert!(fs::metadata(&path).await?.is_dir());
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::create_dir(path)).await
}

/// Creates a directory and its missing parents.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-create_dir_all-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("inner/innermost");
/// fs::create_dir_all(&path).await?;
/// assert!(fs::metadata(&path).await?.is_dir());
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::create_dir_all(path)).await
}

/// Removes an empty directory.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-remove_dir-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("inner");
/// fs::create_dir(&path).await?;
/// fs::remove_dir(&path).await?;
/// assert!(!fs::try_exists(&path).await?);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::remove_dir(path)).await
}

/// Removes a directory and its contents.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-remove_dir_all-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("inner");
/// fs::create_dir(&path).await?;
/// fs::write(path.join("file"), "hello").await?;
/// fs::remove_dir_all(&path).await?;
/// assert!(!fs::try_exists(&path).await?);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::remove_dir_all(path)).await
}

/// The metadata of a file or directory. Follows symbolic links.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-metadata-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, "hello").await?;
/// assert_eq!(fs::metadata(&path).await?.len(), 5);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::metadata(path)).await
}

/// The metadata of a file or directory. Does not follow symbolic links.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-symlink_metadata-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("link");
/// fs::symlink("nowhere", &path).await?;
/// assert!(fs::symlink_metadata(&path).await?.is_symlink());
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::symlink_metadata(path)).await
}

/// Changes the permissions of a file or directory.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-set_permissions-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("file");
/// fs::write(&path, "hello").await?;
/// let mut permissions = fs::metadata(&path).await?.permissions();
/// permissions.set_readonly(true);
/// fs::set_permissions(&path, permissions).await?;
/// assert!(fs::metadata(&path).await?.permissions().readonly());
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::set_permissions(path, permissions)).await
}

/// Whether the path exists.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-try_exists-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// assert!(fs::try_exists(&directory).await?);
/// assert!(!fs::try_exists(directory.join("file")).await?);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::exists(path)).await
}

/// The absolute path, with symbolic links resolved.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-canonicalize-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let path = directory.join("..").join(directory.file_name().unwrap());
/// assert_eq!(fs::canonicalize(&path).await?, fs::canonicalize(&directory).await?);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::canonicalize(path)).await
}

/// Creates a hard link.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-hard_link-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let (file, link) = (directory.join("file"), directory.join("link"));
/// fs::write(&file, "hello").await?;
/// fs::hard_link(&file, &link).await?;
/// assert_eq!(fs::read(&link).await?, b"hello");
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let original = original.as_ref().to_owned();
    let link = link.as_ref().to_owned();
    run_blocking(move || fs::hard_link(original, link)).await
}

/// Creates a symbolic link.
///
/// Cancel safety: once started it is completed.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-symlink-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let link = directory.join("link");
/// fs::symlink("file", &link).await?;
/// assert_eq!(fs::read_link(&link).await?.to_str(), Some("file"));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let original = original.as_ref().to_owned();
    let link = link.as_ref().to_owned();
    run_blocking(move || std::os::unix::fs::symlink(original, link)).await
}

/// The target of a symbolic link.
///
/// Cancel safety: safe.
///
/// ```
/// # mainspring::run(async {
/// # use mainspring::fs;
/// # let directory = std::env::temp_dir().join(format!("mainspring-doc-read_link-{}", std::process::id()));
/// # std::fs::create_dir_all(&directory)?;
/// let link = directory.join("link");
/// fs::symlink("file", &link).await?;
/// assert_eq!(fs::read_link(&link).await?.to_str(), Some("file"));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    run_blocking(move || fs::read_link(path)).await
}
