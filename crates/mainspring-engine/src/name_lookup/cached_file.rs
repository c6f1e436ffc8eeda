//! A small configuration file, parsed when it has changed.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Greater files are not used: the C library reads the whole hosts file in each lookup.
const MAX_BYTES: u64 = 64 * 1024;

/// The parsed contents of a file.
#[derive(Debug)]
pub struct CachedFile<T> {
    path: PathBuf,
    parse: fn(&[u8]) -> T,
    cached: Option<(Version, T)>,
}

/// What distinguishes the contents of a file from its former contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(file: &Metadata) -> Self {
        Version {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl<T> CachedFile<T> {
    pub fn new(path: &Path, parse: fn(&[u8]) -> T) -> Self {
        CachedFile { path: path.to_owned(), parse, cached: None }
    }

    /// The parsed contents of the file as it is now. `None` if it is too large or cannot be read.
    pub fn read(&mut self) -> Option<&T> {
        let version = self.current_version().ok().flatten();
        if self.cached.as_ref().map(|(version, _)| *version) != version {
            // A file that changes while it is read has another version in the next lookup.
            let contents = version.and_then(|version| Some((version, fs::read(&self.path).ok()?)));
            self.cached = contents.map(|(version, contents)| (version, (self.parse)(&contents)));
        }
        self.cached.as_ref().map(|(_, contents)| contents)
    }

    fn current_version(&self) -> io::Result<Option<Version>> {
        let file = fs::metadata(&self.path)?;
        Ok((file.is_file() && file.size() <= MAX_BYTES).then(|| Version::of(&file)))
    }
}
