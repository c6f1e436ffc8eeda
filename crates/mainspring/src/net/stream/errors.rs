//! What reading up to a mark can fail with: asyncio's `IncompleteReadError` and `LimitOverrunError`.

use std::fmt;
use std::io;

/// Why [`read_exactly`](super::StreamReader::read_exactly), [`read_until`](super::StreamReader::read_until) or
/// [`read_line`](super::StreamReader::read_line) did not give what it was asked for.
///
/// It becomes an [`io::Error`] by `?`, of kind `UnexpectedEof` or `FileTooLarge` where it is one of these, with the error
/// itself inside.
///
/// ```
/// use mainspring::net::{ReadError, UnixStream};
///
/// mainspring::run(async {
///     let (near, far) = UnixStream::pair()?;
///     far.write_all(b"abc").await?;
///     drop(far);
///     match near.read_exactly(4).await {
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
    /// The stream ended before: asyncio's `IncompleteReadError`.
    Incomplete {
        /// What came before the end. It is taken out of the buffer.
        partial: Vec<u8>,
        /// How much was asked for, where that was a number.
        expected: Option<usize>,
    },
    /// The separator is not within the limit: asyncio's `LimitOverrunError`. Everything stays in the buffer.
    LimitOverrun {
        /// So many bytes can be read before the separator may come, or comes.
        consumed: usize,
        /// So many bytes are buffered.
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
                write!(f, "the stream ended after {} bytes and no separator", partial.len())
            }
            ReadError::LimitOverrun { consumed, buffered, limit } => {
                write!(f, "no separator in {consumed} of {buffered} bytes, and the limit is {limit}")
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

/// For programs that have one error for everything on the loop.
impl From<ReadError> for crate::Error {
    fn from(error: ReadError) -> Self {
        crate::Error::Io(error.into())
    }
}
