//! `SubprocessTransport`: the handle on a process with a protocol.

use super::child_handle::returncode;
use super::command::Command;
use super::subprocess::Subprocess;
use super::subprocess_protocol::SubprocessProtocol;
use crate::event_loop::{EventLoop, ExceptionContext};
use crate::net::connection::CancelGuard;
use crate::net::{Transport, after_ready_calls};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::process::Stdio;
use std::rc::Rc;

/// A process with a [`SubprocessProtocol`]. Clones refer to the same process.
///
/// Created by [`EventLoop::subprocess_exec`]. Dropping it has no effect: the loop owns the process until it has
/// exited and its pipes are closed. It is not `Send`.
///
/// ```
/// use mainspring::EventLoop;
/// use mainspring::process::{Command, SubprocessProtocol, SubprocessTransport};
///
/// struct Talkative;
///
/// impl SubprocessProtocol for Talkative {
///     fn connection_made(&self, transport: &SubprocessTransport) {
///         if let Some(stdin) = transport.get_pipe_transport(0) {
///             stdin.write(b"good morning");
///             stdin.close();
///         }
///     }
///     fn pipe_data_received(&self, _: &SubprocessTransport, fd: i32, data: &[u8]) {
///         println!("{fd}: {}", String::from_utf8_lossy(data));
///     }
/// }
///
/// let event_loop = EventLoop::new()?;
/// let started = event_loop.subprocess_exec(&mut Command::new("cat"), || Talkative);
/// let (transport, _) = event_loop.run_until_complete(started)??;
/// event_loop.run_until_idle()?;
/// assert_eq!(transport.get_returncode(), Some(0), "process {}", transport.get_pid());
/// assert!(!transport.is_closing());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct SubprocessTransport {
    pub(super) subprocess: Rc<Subprocess>,
}

impl EventLoop {
    /// Starts the process now and attaches a protocol to it and its pipes. The future completes when the protocol's
    /// `connection_made` has run. Standard streams that are not set are piped.
    ///
    /// See [`SubprocessProtocol`] for an example.
    ///
    /// Cancel safety: dropping the future kills the process.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use mainspring::process::{Command, SubprocessProtocol};
    ///
    /// struct Silent;
    ///
    /// impl SubprocessProtocol for Silent {}
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// let (transport, _) = event_loop.subprocess_exec(&mut Command::new("cat"), || Silent).await?;
    /// assert!(transport.get_pid() > 0 && transport.get_pipe_transport(1).is_some());
    /// transport.close();
    ///
    /// let missing = event_loop.subprocess_exec(&mut Command::new("/no/such/program"), || Silent).await;
    /// assert_eq!(missing.err().unwrap().kind(), std::io::ErrorKind::NotFound);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn subprocess_exec<P: SubprocessProtocol, F: FnOnce() -> P>(
        &self,
        command: &mut Command,
        protocol_factory: F,
    ) -> impl Future<Output = io::Result<(SubprocessTransport, Rc<P>)>> + use<P, F> {
        let core = Rc::clone(self.core());
        let protocol = Rc::new(protocol_factory());
        command.default_stdio([Stdio::piped; 3]);
        let started = Subprocess::start(&core, command, Rc::<P>::clone(&protocol)).map(|subprocess| {
            let transport = SubprocessTransport { subprocess };
            (transport.clone(), CancelGuard::new(transport, SubprocessTransport::close))
        });
        async move {
            let (transport, guard) = started?;
            after_ready_calls(&core).await;
            guard.disarm();
            Ok((transport, protocol))
        }
    }

    /// As [`subprocess_exec`](EventLoop::subprocess_exec), for a shell script: see [`Command::shell`].
    ///
    /// Cancel safety: as [`subprocess_exec`](EventLoop::subprocess_exec).
    ///
    /// ```
    /// use mainspring::process::{SubprocessProtocol, SubprocessTransport};
    /// use mainspring::{EventLoop, Future};
    ///
    /// struct Waiter(Future<Option<i32>>);
    ///
    /// impl SubprocessProtocol for Waiter {
    ///     fn process_exited(&self, transport: &SubprocessTransport) {
    ///         self.0.set_result(transport.get_returncode()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// let returncode = event_loop.create_future();
    /// event_loop.subprocess_shell("exit 3", || Waiter(returncode.clone())).await?;
    /// assert_eq!(returncode.await.unwrap(), Some(3));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn subprocess_shell<P: SubprocessProtocol, F: FnOnce() -> P, S: AsRef<OsStr>>(
        &self,
        script: S,
        protocol_factory: F,
    ) -> impl Future<Output = io::Result<(SubprocessTransport, Rc<P>)>> + use<P, F, S> {
        self.subprocess_exec(&mut Command::shell(script), protocol_factory)
    }
}

impl SubprocessTransport {
    /// The process id.
    pub fn get_pid(&self) -> u32 {
        self.subprocess.exit_watcher.pid()
    }

    /// The exit code, or the negative number of the signal that killed the process; 255 if another part of the
    /// program has reaped it. `None` until the exit is known.
    pub fn get_returncode(&self) -> Option<i32> {
        self.subprocess.exit_watcher.exit_status().map(returncode)
    }

    /// The transport of a pipe: standard input (0), output (1) or error (2). `None` if it is not piped, and after
    /// `connection_lost`.
    pub fn get_pipe_transport(&self, fd: i32) -> Option<Transport> {
        let index = usize::try_from(fd).ok()?;
        self.subprocess.pipes.borrow().get(index).cloned().flatten()
    }

    /// Sends a signal. A no-op if the process has exited. Errors are those of
    /// [`Child::send_signal`](super::Child::send_signal).
    ///
    /// ```
    /// use mainspring::process::{Command, SubprocessProtocol, SubprocessTransport};
    /// use mainspring::signal::SignalKind;
    /// use mainspring::{EventLoop, Future};
    ///
    /// struct Waiter(Future<Option<i32>>);
    ///
    /// impl SubprocessProtocol for Waiter {
    ///     fn process_exited(&self, transport: &SubprocessTransport) {
    ///         self.0.set_result(transport.get_returncode()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// // Each of the three ends a program that does not handle signals.
    /// let ways = [
    ///     |transport: &SubprocessTransport| transport.send_signal(SignalKind::user_defined1()),
    ///     |transport: &SubprocessTransport| transport.terminate(),
    ///     |transport: &SubprocessTransport| transport.kill(),
    /// ];
    /// for (end, returncode) in ways.iter().zip([-10, -15, -9]) {
    ///     let exited = event_loop.create_future();
    ///     let mut sleep = Command::new("sleep");
    ///     let (transport, _) =
    ///         event_loop.subprocess_exec(sleep.arg("1000"), || Waiter(exited.clone())).await?;
    ///     end(&transport)?;
    ///     assert_eq!(exited.await.unwrap(), Some(returncode));
    /// }
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn send_signal(&self, signal: impl Into<i32>) -> io::Result<()> {
        self.subprocess.exit_watcher.send_signal(signal.into())
    }

    /// Sends SIGTERM. See [`send_signal`](SubprocessTransport::send_signal).
    pub fn terminate(&self) -> io::Result<()> {
        self.subprocess.exit_watcher.send_signal(libc::SIGTERM)
    }

    /// Sends SIGKILL. See [`send_signal`](SubprocessTransport::send_signal).
    pub fn kill(&self) -> io::Result<()> {
        self.subprocess.exit_watcher.send_signal(libc::SIGKILL)
    }

    /// Closes the pipes and kills the process if it runs.
    ///
    /// ```
    /// use mainspring::EventLoop;
    /// use mainspring::process::{Command, SubprocessProtocol};
    ///
    /// struct Silent;
    ///
    /// impl SubprocessProtocol for Silent {}
    ///
    /// let event_loop = EventLoop::new()?;
    /// let started = event_loop.subprocess_exec(&mut Command::new("cat"), || Silent);
    /// let (transport, _) = event_loop.run_until_complete(started)??;
    /// transport.close();
    /// assert!(transport.is_closing());
    /// event_loop.run_until_idle()?;
    /// assert_eq!(transport.get_returncode(), Some(-9));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn close(&self) {
        if self.subprocess.is_closed.replace(true) {
            return;
        }
        let pipes = self.subprocess.pipes.borrow().clone();
        for pipe in pipes.into_iter().flatten() {
            pipe.close();
        }
        if !self.subprocess.exit_watcher.has_exited()
            && let Err(error) = self.kill()
            && let Some(core) = self.subprocess.core.upgrade()
        {
            let context = ExceptionContext::new(format!("Process {} could not be killed", self.get_pid()))
                .with_error(error);
            core.call_exception_handler(&context);
        }
    }

    /// Whether [`close`](SubprocessTransport::close) was called.
    pub fn is_closing(&self) -> bool {
        self.subprocess.is_closed.get()
    }
}

impl fmt::Debug for SubprocessTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubprocessTransport")
            .field("pid", &self.get_pid())
            .field("returncode", &self.get_returncode())
            .field("closing", &self.is_closing())
            .finish_non_exhaustive()
    }
}
