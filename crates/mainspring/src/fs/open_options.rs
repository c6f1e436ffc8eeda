//! `OpenOptions`: how to open a file.

use super::file::File;
use super::run_blocking;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How to open a file, as [`std::fs::OpenOptions`]. It is `Send`.
///
/// ```
/// use mainspring::fs::OpenOptions;
///
/// mainspring::run(async {
///     let path = std::env::temp_dir().join(format!("mainspring-doc-options-{}", std::process::id()));
///     let mut log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path).await?;
///     log.write_all(b"one\n").await?;
///     log.write_all(b"two\n").await?;
///     assert_eq!(mainspring::fs::read(&path).await?, b"one\ntwo\n");
///
///     let mut file = OpenOptions::new().read(true).write(true).open(&path).await?;
///     file.write_all(b"six").await?;
///     let mut rest = Vec::new();
///     file.read_to_end(&mut rest).await?;
///     assert_eq!(rest, b"\ntwo\n");
///     mainspring::fs::remove_file(&path).await?;
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions(std::fs::OpenOptions);

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(options: std::fs::OpenOptions) -> Self {
        OpenOptions(options)
    }
}

impl OpenOptions {
    /// No access.
    pub fn new() -> Self {
        OpenOptions(std::fs::OpenOptions::new())
    }

    /// Opens the file for reading.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.0.read(read);
        self
    }

    /// Opens the file for writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.0.write(write);
        self
    }

    /// Appends: every write goes to the end of the file.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.0.append(append);
        self
    }

    /// Truncates the file.
    ///
    /// ```
    /// use mainspring::fs::OpenOptions;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-truncate-{}", std::process::id()));
    /// mainspring::fs::write(&path, "a long story").await?;
    /// let mut file = OpenOptions::new().write(true).truncate(true).open(&path).await?;
    /// file.write_all(b"short").await?;
    /// assert_eq!(mainspring::fs::read(&path).await?, b"short");
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.0.truncate(truncate);
        self
    }

    /// Creates the file if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.0.create(create);
        self
    }

    /// Creates the file, and fails if it exists.
    ///
    /// ```
    /// use mainspring::fs::OpenOptions;
    /// use std::io::ErrorKind;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-create-new-{}", std::process::id()));
    /// let mut options = OpenOptions::new();
    /// options.write(true).create_new(true);
    /// let lock_file = options.open(&path).await?;
    /// assert_eq!(options.open(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # drop(lock_file);
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.0.create_new(create_new);
        self
    }

    /// The permissions of a new file, before the umask. Default: `0o666`.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.0.mode(mode);
        self
    }

    /// Additional flags for `open(2)`.
    ///
    /// ```
    /// use mainspring::fs::OpenOptions;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-flags-{}", std::process::id()));
    /// # std::os::unix::fs::symlink("/dev/null", &path)?;
    /// // `O_NOFOLLOW` refuses symbolic links.
    /// let error = OpenOptions::new().read(true).custom_flags(0o400000).open(&path).await.unwrap_err();
    /// assert_eq!(error.raw_os_error(), Some(40));
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.0.custom_flags(flags);
        self
    }

    /// Opens a file.
    ///
    /// Cancel safety: no fd leaks. The file may still be created or truncated.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let (options, path) = (self.0.clone(), path.as_ref().to_owned());
        run_blocking(move || options.open(path)).await.map(File::from_std)
    }
}
