//! `SubprocessTransport`: the handle on a process with a protocol.
//!
//! # Ownership
//!
//! The loop owns the process from its start to `connection_lost` (`Core::retain`). The process owns its pipes; the
//! protocol of a pipe refers to the process weakly. So the handle need not be kept, and closing the loop releases
//! everything.

use super::child_handle::returncode;
use super::command::Command;
use super::exit_watcher::{ExitWatcher, OnExit};
use super::subprocess_protocol::SubprocessProtocol;
use crate::event_loop::{Core, EventLoop, ExceptionContext, Retained};
use crate::host::Call;
use crate::net::connection::CancelGuard;
use crate::net::{Protocol, Transport, after_ready_calls};
use crate::panics::catch;
use crate::pipe::{ReadEnd, WriteEnd, set_nonblocking_pipe};
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::rc::{Rc, Weak};

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
    subprocess: Rc<Subprocess>,
}

struct Subprocess {
    core: Weak<Core>,
    exit_watcher: Rc<ExitWatcher>,
    kill_on_drop: Cell<bool>,
    protocol: RefCell<Option<Rc<dyn SubprocessProtocol>>>,
    pipes: RefCell<[Option<Transport>; 3]>,
    open_pipes: Cell<usize>,
    has_exited: Cell<bool>,
    is_closed: Cell<bool>,
    is_finished: Cell<bool>,
    loop_key: Cell<Option<usize>>,
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

impl Subprocess {
    fn start(
        core: &Rc<Core>,
        command: &mut Command,
        protocol: Rc<dyn SubprocessProtocol>,
    ) -> io::Result<Rc<Self>> {
        let mut started = command.start(core)?;
        let (stdin, stdout, stderr) = (started.stdin.take(), started.stdout.take(), started.stderr.take());
        let subprocess = Rc::new(Subprocess {
            core: Rc::downgrade(core),
            exit_watcher: ExitWatcher::start(core, started)?,
            // Killed if a later step fails.
            kill_on_drop: Cell::new(true),
            protocol: RefCell::new(Some(protocol)),
            pipes: RefCell::default(),
            open_pipes: Cell::new(0),
            has_exited: Cell::new(false),
            is_closed: Cell::new(false),
            is_finished: Cell::new(false),
            loop_key: Cell::new(None),
        });
        // Prepare all pipes before opening any: an open pipe would call the protocol.
        let input = stdin
            .map(|pipe| set_nonblocking_pipe(&pipe).map(|kind| (OwnedFd::from(pipe), kind)))
            .transpose()?;
        let outputs = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
        outputs.iter().flatten().try_for_each(|pipe| set_nonblocking_pipe(pipe).map(drop))?;

        // Scheduled before the pipes are opened, so that `connection_made` comes first.
        let this = Rc::clone(&subprocess);
        core.call_soon(Call::Once(Box::new(move || {
            this.call_protocol(|protocol, transport| protocol.connection_made(transport));
        })));
        if let Some((pipe, kind)) = input {
            subprocess.add_pipe(0, |protocol| WriteEnd::open(core, pipe, kind, protocol));
        }
        for (fd, pipe) in (1..).zip(outputs) {
            if let Some(pipe) = pipe {
                subprocess.add_pipe(fd, |protocol| ReadEnd::open(core, pipe, protocol));
            }
        }
        subprocess.kill_on_drop.set(command.is_killed_on_drop());
        let on_exit: Rc<dyn OnExit> = Rc::<Subprocess>::clone(&subprocess);
        subprocess.exit_watcher.set_on_exit(Rc::downgrade(&on_exit));
        subprocess.loop_key.set(Some(core.retain(Rc::<Subprocess>::clone(&subprocess))));
        Ok(subprocess)
    }

    fn add_pipe(self: &Rc<Self>, fd: i32, open: impl FnOnce(Rc<dyn Protocol>) -> Transport) {
        let transport = open(Rc::new(PipeProtocol { subprocess: Rc::downgrade(self), fd }));
        self.open_pipes.set(self.open_pipes.get() + 1);
        let index = usize::try_from(fd).unwrap_or_default();
        if let Some(pipe) = self.pipes.borrow_mut().get_mut(index) {
            *pipe = Some(transport);
        }
    }

    /// Calls the protocol, unless it is detached.
    fn call_protocol(self: &Rc<Self>, call: impl FnOnce(&dyn SubprocessProtocol, &SubprocessTransport)) {
        let protocol = self.protocol.borrow().clone();
        let Some(protocol) = protocol else { return };
        let transport = SubprocessTransport { subprocess: Rc::clone(self) };
        let called = catch(move || {
            call(&*protocol, &transport);
            drop(protocol);
        });
        if let Err(text) = called
            && let Some(core) = self.core.upgrade()
        {
            let message = "A callback of a subprocess protocol panicked";
            core.call_exception_handler(&ExceptionContext::from_panic(message, text));
        }
    }

    /// Schedules `connection_lost` once the process has exited and all pipes are closed.
    fn try_finish(self: &Rc<Self>) {
        if !self.has_exited.get() || self.open_pipes.get() > 0 || self.is_finished.replace(true) {
            return;
        }
        let Some(core) = self.core.upgrade() else { return };
        let this = Rc::clone(self);
        core.call_soon(Call::Once(Box::new(move || {
            this.call_protocol(|protocol, transport| protocol.connection_lost(transport, None));
            this.detach_from_loop();
            let core = this.core.upgrade();
            let retained = core.zip(this.loop_key.take()).and_then(|(core, key)| core.release(key));
            drop(retained);
        })));
    }
}

impl OnExit for Subprocess {
    fn process_exited(self: Rc<Self>) {
        self.call_protocol(|protocol, transport| protocol.process_exited(transport));
        self.has_exited.set(true);
        self.try_finish();
    }
}

impl Retained for Subprocess {
    /// The protocol may own the transport. Dropping it breaks the cycle.
    fn detach_from_loop(&self) {
        let protocol = self.protocol.borrow_mut().take();
        let pipes = self.pipes.take();
        drop(pipes);
        drop(protocol);
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        if self.kill_on_drop.get() && !self.exit_watcher.has_exited() {
            // A kill fails only without permission (a setuid program). There is no caller to report it to.
            let _ = self.exit_watcher.send_signal(libc::SIGKILL);
        }
    }
}

/// The protocol of one pipe.
struct PipeProtocol {
    subprocess: Weak<Subprocess>,
    fd: i32,
}

impl PipeProtocol {
    fn call_protocol(&self, call: impl FnOnce(&dyn SubprocessProtocol, &SubprocessTransport)) {
        if let Some(subprocess) = self.subprocess.upgrade() {
            subprocess.call_protocol(call);
        }
    }
}

impl Protocol for PipeProtocol {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.call_protocol(|protocol, transport| protocol.pipe_data_received(transport, self.fd, data));
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        self.call_protocol(|protocol, transport| protocol.pipe_connection_lost(transport, self.fd, error));
        if let Some(subprocess) = self.subprocess.upgrade() {
            subprocess.open_pipes.set(subprocess.open_pipes.get().saturating_sub(1));
            subprocess.try_finish();
        }
    }

    fn pause_writing(&self, _: &Transport) {
        self.call_protocol(|protocol, transport| protocol.pause_writing(transport));
    }

    fn resume_writing(&self, _: &Transport) {
        self.call_protocol(|protocol, transport| protocol.resume_writing(transport));
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
    ///     |transport: &SubprocessTransport| transport.send_signal(SignalKind::hangup()),
    ///     |transport: &SubprocessTransport| transport.terminate(),
    ///     |transport: &SubprocessTransport| transport.kill(),
    /// ];
    /// for (end, returncode) in ways.iter().zip([-1, -15, -9]) {
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
