//! `add_reader`, `add_writer` and `add_signal_handler`: closures that are called again and again.

use super::EventLoop;
use crate::error::Error;
use crate::host::Watch;
use crate::signal::CaughtSignals;
use mainspring_engine::Direction;
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

/// A closure to be called each time something happens, until it is replaced or removed.
struct Repeating<F> {
    /// Out of here while it runs: a pass that it starts itself finds nothing to call.
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
        /// Puts the closure back, also after a panic: asyncio goes on watching.
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
    /// Calls `callback` whenever `fd` is readable, in place of the reader it may have had. The descriptor stays
    /// the caller's, who removes it here before it is closed. If it becomes a transport's, its reader and its writer are
    /// over.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the loop is closed; [`Error::Io`] as the kernel does (a regular file cannot be watched), and with
    /// `ResourceBusy` for the descriptor of a transport.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let (here, mut there) = UnixStream::pair()?;
    /// there.write_all(b"!")?;
    /// let (stopper, mut reading) = (event_loop.clone(), here.try_clone()?);
    /// event_loop.add_reader(&here, move || {
    ///     let mut byte = [0];
    ///     reading.read_exact(&mut byte).unwrap();
    ///     assert_eq!(&byte, b"!");
    ///     stopper.stop();
    /// })?;
    /// event_loop.run_forever()?;
    /// assert!(event_loop.remove_reader(&here)?);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_reader(&self, fd: &impl AsRawFd, callback: impl FnMut() + 'static) -> Result<(), Error> {
        self.watch(fd.as_raw_fd(), Direction::Inbound, Repeating::shared(callback))
    }

    /// Stops calling the reader of `fd`. Whether it had one. Fails as [`add_reader`](EventLoop::add_reader) does, but for
    /// what the kernel says.
    pub fn remove_reader(&self, fd: &impl AsRawFd) -> Result<bool, Error> {
        self.unwatch(fd.as_raw_fd(), Direction::Inbound)
    }

    /// Calls `callback` whenever `fd` is writable, in place of the writer it may have had. Else as
    /// [`add_reader`](EventLoop::add_reader).
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let (here, mut there) = UnixStream::pair()?;
    /// let (stopper, mut writing) = (event_loop.clone(), here.try_clone()?);
    /// event_loop.add_writer(&here, move || {
    ///     writing.write_all(b"!").unwrap();
    ///     stopper.stop();
    /// })?;
    /// event_loop.run_forever()?;
    /// assert!(event_loop.remove_writer(&here)?);
    /// let mut byte = [0];
    /// there.read_exact(&mut byte)?;
    /// assert_eq!(&byte, b"!");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn add_writer(&self, fd: &impl AsRawFd, callback: impl FnMut() + 'static) -> Result<(), Error> {
        self.watch(fd.as_raw_fd(), Direction::Outbound, Repeating::shared(callback))
    }

    /// Stops calling the writer of `fd`. Whether it had one. Fails as [`remove_reader`](EventLoop::remove_reader) does.
    pub fn remove_writer(&self, fd: &impl AsRawFd) -> Result<bool, Error> {
        self.unwatch(fd.as_raw_fd(), Direction::Outbound)
    }

    /// Calls `callback` on the loop whenever this process receives the signal `signum`, in place of the
    /// callback it may have had, and of what the signal does otherwise. [`signal`](crate::signal)s that are awaited
    /// are told as well, and before.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the loop is closed; [`Error::Io`] with `InvalidInput` for what is no signal, or none that can be
    /// caught.
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

    /// Calls the callback of `signum` no more. Whether it had one. If nobody else listens, the signal does again
    /// what it did before.
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
