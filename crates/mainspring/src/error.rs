//! `Error`: why the loop refused a call.

use crate::testing::{Deadlock, RealIoError};
use std::fmt;
use std::io;

/// Why the loop, or an object on it, refused a call.
///
/// It is `Send` and `Sync`, and converts to [`io::Error`].
///
/// ```
/// use mainspring::{Error, EventLoop};
///
/// let event_loop = EventLoop::new()?;
/// event_loop.close()?;
/// let refused = event_loop.call_soon(|| ()).unwrap_err();
/// assert!(matches!(refused, Error::Closed));
/// assert_eq!(std::io::Error::from(refused).to_string(), "the event loop is closed");
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A loop runs on this thread. Also returned by [`EventLoop::close`](crate::EventLoop::close) while the loop
    /// runs.
    AlreadyRunning,
    /// The loop is closed.
    Closed,
    /// The runtime is shut down, or shutting down.
    ShutDown,
    /// [`EventLoop::stop`](crate::EventLoop::stop) was called before the run ended.
    Stopped,
    /// Ctrl-C was pressed while the future ran, and the [`Runner`](crate::Runner) is configured to end it.
    Interrupted,
    /// The future is done.
    AlreadyDone,
    /// The low-water mark is above the high-water mark.
    InvalidLimits {
        /// The high mark.
        high: usize,
        /// The low mark.
        low: usize,
    },
    /// Nothing can ever continue the program. Only with a virtual clock: see [`Deadlock`].
    Deadlock(Deadlock),
    /// The program waits for something outside of its loop, and [`testing::Options`](crate::testing::Options) forbid it.
    RealIo(RealIoError),
    /// The system call failed.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::AlreadyRunning => f.write_str("an event loop is already running on this thread"),
            Error::Closed => f.write_str("the event loop is closed"),
            Error::ShutDown => f.write_str("the runtime is shut down and accepts nothing more"),
            Error::Stopped => f.write_str("the event loop was stopped before it was done"),
            Error::Interrupted => f.write_str("interrupted before the future was done"),
            Error::AlreadyDone => f.write_str("the future is already done"),
            Error::InvalidLimits { high, low } => {
                write!(f, "the high-water mark ({high}) must not be below the low one ({low})")
            }
            Error::Deadlock(deadlock) => deadlock.fmt(f),
            Error::RealIo(refused) => refused.fmt(f),
            Error::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Error::Io(error) = self { error.source() } else { None }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

/// For I/O functions on a loop that refuses the call.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            refusal => io::Error::other(refusal),
        }
    }
}
