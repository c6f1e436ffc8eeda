//! `add_reader`, `add_writer` and `add_signal_handler`: callbacks that run on every event.

use super::EventLoop;
use crate::error::Error;
use crate::host::Watch;
use crate::signal::CaughtSignals;
use mainspring_engine::Direction;
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

/// A callback that runs on every event until it is replaced or removed.
struct Repeating<F> {
    /// Taken out while it runs, so that a nested iteration does not call it again.
    closure: Cell<Option<F>>,
    is_cancelled: Cell<bool>,
}

impl<F: FnMut() + 'static> Repeating<F> {
    fn shared(closure: F) -> Rc<dyn Watch> {
        Rc::new(Repeating { closure: Cell::new(Some(closure)), is_cancelled: Cell::new(false) })
    }
}

impl<F: FnMut()> Watch for Repeating<F> {
    fn fire(&self) {
        /// Puts the closure back, also after a panic: asyncio also keeps the reader.
        struct PutBack<'a, F>(&'a Repeating<F>, Option<F>);
        impl<F> Drop for PutBack<'_, F> {
            fn drop(&mut self) {
                if self.1.is_some() && !self.0.is_cancelled.get() {
                    self.0.closure.set(self.1.take());
                }
            }
        }
        let mut running = PutBack(self, self.closure.take());
        if let Some(closure) = &mut running.1 {
            closure();
        }
    }

    fn cancel(&self) {
        self.is_cancelled.set(true);
        drop(self.closure.take());
    }
}

impl EventLoop {
    /// Calls `callback` whenever `fd` is readable. Replaces the previous reader. The caller keeps the descriptor, and
    /// must remove the reader before closing it. If a transport takes the descriptor, its reader and writer are
    /// removed.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the loop is closed. [`Error::Io`] if the kernel refuses (a regular file cannot be
    /// watched), or with `ResourceBusy` if the descriptor belongs to a transport.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// peer.write_all(b"!")?;
    /// let (stopper, mut reading) = (event_loop.clone(), socket.try_clone()?);
    /// event_loop.add_reader(&socket, move || {
    ///     let mut byte = [0];
    ///     reading.read_exact(&mut byte).unwrap();
    ///     assert_eq!(&byte, b"!");
    ///     stopper.stop();
    /// })?;
    /// event_loop.run_forever()?;
    /// assert!(event_loop.remove_reader(&socket)?);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_reader(&self, fd: &impl AsRawFd, callback: impl FnMut() + 'static) -> Result<(), Error> {
        self.watch(fd.as_raw_fd(), Direction::Inbound, Repeating::shared(callback))
    }

    /// Removes the reader of `fd`. Returns whether there was one. Fails as [`add_reader`](EventLoop::add_reader),
    /// except for errors of the kernel.
    pub fn remove_reader(&self, fd: &impl AsRawFd) -> Result<bool, Error> {
        self.unwatch(fd.as_raw_fd(), Direction::Inbound)
    }

    /// Calls `callback` whenever `fd` is writable. Otherwise as [`add_reader`](EventLoop::add_reader).
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// let (stopper, mut writing) = (event_loop.clone(), socket.try_clone()?);
    /// event_loop.add_writer(&socket, move || {
    ///     writing.write_all(b"!").unwrap();
    ///     stopper.stop();
    /// })?;
    /// event_loop.run_forever()?;
    /// assert!(event_loop.remove_writer(&socket)?);
    /// let mut byte = [0];
    /// peer.read_exact(&mut byte)?;
    /// assert_eq!(&byte, b"!");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_writer(&self, fd: &impl AsRawFd, callback: impl FnMut() + 'static) -> Result<(), Error> {
        self.watch(fd.as_raw_fd(), Direction::Outbound, Repeating::shared(callback))
    }

    /// Removes the writer of `fd`. Returns whether there was one. Fails as
    /// [`remove_reader`](EventLoop::remove_reader).
    pub fn remove_writer(&self, fd: &impl AsRawFd) -> Result<bool, Error> {
        self.unwatch(fd.as_raw_fd(), Direction::Outbound)
    }

    /// Calls `callback` on the loop whenever this process receives the signal `signum`. Replaces the previous
    /// callback and the signal's default action. Awaited [`signal`](crate::signal)s are woken too, before the
    /// callback runs.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the loop is closed. [`Error::Io`] with `InvalidInput` if `signum` is not a signal, or
    /// cannot be caught.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let stopper = event_loop.clone();
    /// event_loop.add_signal_handler(12, move || stopper.stop())?;
    /// # let _ = std::process::Command::new("kill").args(["-12", &std::process::id().to_string()]).status();
    /// event_loop.run_forever()?;
    /// assert!(event_loop.remove_signal_handler(12));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_signal_handler(&self, signum: i32, callback: impl FnMut() + 'static) -> Result<(), Error> {
        let replaced = CaughtSignals::set_callback(self.core(), signum, Repeating::shared(callback))?;
        if let Some(replaced) = replaced {
            replaced.cancel();
        }
        Ok(())
    }

    /// Removes the callback of `signum`. Returns whether there was one. If nothing else listens for the signal, its
    /// previous action is restored.
    pub fn remove_signal_handler(&self, signum: i32) -> bool {
        let removed = CaughtSignals::remove_callback(self.core(), signum);
        removed.inspect(|watch| watch.cancel()).is_some()
    }

    fn watch(&self, fd: RawFd, direction: Direction, watch: Rc<dyn Watch>) -> Result<(), Error> {
        self.core().check_open()?;
        let replaced = self.core().engine.watch(fd, direction, watch)?;
        if let Some(replaced) = replaced {
            replaced.cancel();
        }
        Ok(())
    }

    fn unwatch(&self, fd: RawFd, direction: Direction) -> Result<bool, Error> {
        self.core().check_open()?;
        let removed = self.core().engine.unwatch(fd, direction)?;
        Ok(removed.inspect(|watch| watch.cancel()).is_some())
    }
}
