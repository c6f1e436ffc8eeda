//! The self-pipe that turns an asynchronous signal into a readable fd, and the table of signal callbacks.
//!
//! The handler that catches a signal writes its number, one byte, to the pipe: this crate's handler ([`install`]) or
//! another runtime's (Python's `signal.set_wakeup_fd`). The loop polls the read end and looks each byte up in its
//! [`SignalTable`]. A byte without a callback, such as zero, is ignored.
//!
//! The pipe is a socket pair: `set_wakeup_fd` accepts one on every system, and writing to it need not raise SIGPIPE.
//! Its buffer holds some hundreds of signals. Signals that arrive while the buffer is full are lost, as in asyncio.
//!
//! ```
//! use mainspring_engine::signals::{SignalPipe, SignalTable, install};
//!
//! let pipe = SignalPipe::new()?;
//! let mut table = SignalTable::new();
//! assert_eq!(table.set(10, "reload"), None);
//! let installed = install(10, &pipe)?;
//! # unsafe extern "C" { safe fn raise(signal: i32) -> i32; }
//! raise(10);
//!
//! let mut arrived = Vec::new();
//! pipe.read_pending(&mut arrived)?;
//! assert_eq!(arrived, [10]);
//! assert_eq!(table.get(arrived[0].into()), Some("reload"));
//! assert_eq!(installed.signum(), 10);
//! # Ok::<(), std::io::Error>(())
//! ```

// Under loom only the models use it.
#[cfg(any(not(loom), test))]
mod gate;
// The list of listeners is a `static`, which cannot contain loom's atomics.
#[cfg(not(loom))]
#[allow(unsafe_code, reason = "sigaction, and the signal handler")]
mod os;

#[cfg(not(loom))]
pub use os::{Installed, install};

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// The two ends of a loop's signal channel, both non-blocking and close-on-exec.
#[derive(Debug)]
pub struct SignalPipe {
    read_end: OwnedFd,
    /// Shared with the handlers that write to it: it stays open until the last of them is removed.
    write_end: Arc<OwnedFd>,
}

impl SignalPipe {
    /// Opens an empty pipe.
    pub fn new() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (read_end, write_end) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(SignalPipe { read_end, write_end: Arc::new(write_end) })
    }

    /// The write end. The pipe keeps ownership.
    pub fn write_fd(&self) -> RawFd {
        self.write_end.as_raw_fd()
    }

    /// Makes the pipe readable without a signal: writes a zero, which is no signal's number.
    pub fn wake(&self) {
        // A full pipe is readable.
        let _ = rustix::io::write(&self.write_end, &[0]);
    }

    /// Appends all pending signal numbers to `signums`, in the order of arrival.
    pub fn read_pending(&self, signums: &mut Vec<u8>) -> io::Result<()> {
        let mut buffer = [0; 512];
        loop {
            match rustix::io::read(&self.read_end, &mut buffer) {
                Ok(count) => {
                    signums.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    if count < buffer.len() {
                        return Ok(());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The read end, to poll.
impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read_end.as_fd()
    }
}

/// Checks that `signum` is a signal number; `InvalidInput` if not.
pub fn check_signal(signum: i32) -> io::Result<()> {
    // The C library reserves the numbers between the classic signals and the first real-time one.
    if (1..=31).contains(&signum) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signum) {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid signal number {signum}")))
    }
}

/// The callbacks of one loop, by signal number.
///
/// Callbacks are cloned out to be called, and returned when they are replaced or removed, so that neither call nor
/// drop happens while the table is borrowed.
#[derive(Clone, Debug)]
pub struct SignalTable<C>(BTreeMap<i32, C>);

impl<C> Default for SignalTable<C> {
    fn default() -> Self {
        SignalTable(BTreeMap::new())
    }
}

impl<C: Clone> SignalTable<C> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback for `signum` and returns the previous one. Does not validate the number: see
    /// [`check_signal`].
    #[must_use = "the caller drops the former callback"]
    pub fn set(&mut self, signum: i32, callback: C) -> Option<C> {
        self.0.insert(signum, callback)
    }

    /// Removes and returns the callback for `signum`.
    #[must_use = "the caller drops the callback"]
    pub fn remove(&mut self, signum: i32) -> Option<C> {
        self.0.remove(&signum)
    }

    /// The callback for `signum`.
    pub fn get(&self, signum: i32) -> Option<C> {
        self.0.get(&signum).cloned()
    }

    /// Whether there are no callbacks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All callbacks, by signal number.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &C)> {
        self.0.iter().map(|(&signum, callback)| (signum, callback))
    }

    /// Removes and returns all callbacks.
    #[must_use = "the caller drops the callbacks"]
    pub fn clear(&mut self) -> Vec<(i32, C)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(pipe: &SignalPipe) -> Vec<u8> {
        let mut signums = Vec::new();
        pipe.read_pending(&mut signums).unwrap();
        signums
    }

    #[test]
    fn bytes_arrive_once_and_in_order() {
        let pipe = SignalPipe::new().unwrap();
        assert_eq!(pending(&pipe), []);
        for signum in [15, 2, 15] {
            rustix::io::write(&pipe.write_end, &[signum]).unwrap();
        }
        assert_eq!(pending(&pipe), [15, 2, 15]);
        assert_eq!(pending(&pipe), []);
    }

    #[test]
    fn more_than_one_buffer_is_read_at_once() {
        let pipe = SignalPipe::new().unwrap();
        let many: Vec<u8> = (0..1500).map(|number| number as u8).collect();
        assert_eq!(rustix::io::write(&pipe.write_end, &many).unwrap(), many.len());
        assert_eq!(pending(&pipe), many);
    }

    #[test]
    fn writing_to_a_full_pipe_does_not_block() {
        let pipe = SignalPipe::new().unwrap();
        let mut written = 0;
        let full = loop {
            match rustix::io::write(&pipe.write_end, &[10]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(full, Errno::AGAIN);
        assert_eq!(pending(&pipe), vec![10; written]);
    }

    #[test]
    fn both_ends_are_close_on_exec() {
        let pipe = SignalPipe::new().unwrap();
        for end in [pipe.as_fd(), pipe.write_end.as_fd()] {
            assert!(rustix::io::fcntl_getfd(end).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn the_table_returns_replaced_and_removed_callbacks() {
        let mut table = SignalTable::new();
        assert!(table.is_empty());
        assert_eq!(table.set(15, "first"), None);
        assert_eq!(table.set(15, "second"), Some("first"));
        assert_eq!(table.set(2, "other"), None);
        assert_eq!(table.get(15), Some("second"));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(2, &"other"), (15, &"second")]);
        assert_eq!(table.remove(15), Some("second"));
        assert_eq!(table.remove(15), None);
        assert_eq!(table.clear(), [(2, "other")]);
        assert!(table.is_empty());
    }

    #[test]
    fn bytes_without_a_callback_are_ignored() {
        let mut table = SignalTable::new();
        assert_eq!(table.set(15, ()), None);
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(255), None);
    }

    #[test]
    fn invalid_signal_numbers_are_refused() {
        for signum in [0, -1, 32, 65, i32::MIN, i32::MAX] {
            let error = check_signal(signum).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert_eq!(error.to_string(), format!("invalid signal number {signum}"));
        }
        for signum in [libc::SIGINT, libc::SIGKILL, libc::SIGCHLD, libc::SIGRTMIN(), libc::SIGRTMAX()] {
            check_signal(signum).unwrap();
        }
    }
}
