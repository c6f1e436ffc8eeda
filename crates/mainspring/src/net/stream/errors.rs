//! `ReadError`: asyncio's `IncompleteReadError` and `LimitOverrunError`.

use std::fmt;
use std::io;

/// The error of [`read_exactly`](super::StreamReader::read_exactly), [`read_until`](super::StreamReader::read_until)
/// and [`read_line`](super::StreamReader::read_line).
///
/// Converts into an [`io::Error`] that contains it, with the kind `UnexpectedEof` or `FileTooLarge`, or into the I/O
/// error itself.
///
/// ```
/// use mainspring::net::{ReadError, UnixStream};
///
/// mainspring::run(async {
///     let (stream, peer) = UnixStream::pair()?;
///     peer.write_all(b"abc").await?;
///     drop(peer);
///     match stream.read_exactly(4).await {
///         Err(ReadError::Incomplete { partial, expected }) => {
///             assert_eq!((partial, expected), (b"abc".to_vec(), Some(4)));
///         }
///         other => panic!("{other:?}"),
///     }
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The stream ended early: asyncio's `IncompleteReadError`.
    Incomplete {
        /// The bytes before the end. They are removed from the buffer.
        partial: Vec<u8>,
        /// The requested number of bytes, if there was one.
        expected: Option<usize>,
    },
    /// No separator within the limit: asyncio's `LimitOverrunError`. The bytes stay in the buffer.
    LimitOverrun {
        /// The number of bytes that can be read before the separator.
        consumed: usize,
        /// The number of bytes in the buffer.
        buffered: usize,
        /// The limit.
        limit: usize,
    },
    /// The connection failed.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Incomplete { partial, expected: Some(expected) } => {
                write!(f, "the stream ended after {} of {expected} bytes", partial.len())
            }
            ReadError::Incomplete { partial, expected: None } => {
                write!(f, "the stream ended after {} bytes without a separator", partial.len())
            }
            ReadError::LimitOverrun { consumed, buffered, limit } => {
                write!(
                    f,
                    "no separator in the first {consumed} of {buffered} buffered bytes (limit: {limit})"
                )
            }
            ReadError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let ReadError::Io(error) = self { error.source() } else { None }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            ReadError::Incomplete { .. } => io::Error::new(io::ErrorKind::UnexpectedEof, error),
            ReadError::LimitOverrun { .. } => io::Error::new(io::ErrorKind::FileTooLarge, error),
        }
    }
}

/// For programs that use [`crate::Error`] for everything.
impl From<ReadError> for crate::Error {
    fn from(error: ReadError) -> Self {
        crate::Error::Io(error.into())
    }
}
