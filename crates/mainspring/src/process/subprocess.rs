//! `Subprocess`: the state of a process with a protocol, and the protocols of its pipes.
//!
//! # Ownership
//!
//! The loop owns the process from its start to `connection_lost` (`Core::retain`). The process owns its pipes; the
//! protocol of a pipe refers to the process weakly. So the handle need not be kept, and closing the loop releases
//! everything.

use super::command::Command;
use super::exit_watcher::{ExitWatcher, OnExit};
use super::subprocess_protocol::SubprocessProtocol;
use super::subprocess_transport::SubprocessTransport;
use crate::event_loop::{Core, ExceptionContext, Retained};
use crate::host::Call;
use crate::net::{Protocol, Transport};
use crate::panics::catch;
use crate::pipe::{ReadEnd, WriteEnd, set_nonblocking_pipe};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

pub(super) struct Subprocess {
    pub(super) core: Weak<Core>,
    pub(super) exit_watcher: Rc<ExitWatcher>,
    kill_on_drop: Cell<bool>,
    protocol: RefCell<Option<Rc<dyn SubprocessProtocol>>>,
    pub(super) pipes: RefCell<[Option<Transport>; 3]>,
    open_pipes: Cell<usize>,
    has_exited: Cell<bool>,
    pub(super) is_closed: Cell<bool>,
    is_finished: Cell<bool>,
    loop_key: Cell<Option<usize>>,
}

impl Subprocess {
    pub(super) fn start(
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
