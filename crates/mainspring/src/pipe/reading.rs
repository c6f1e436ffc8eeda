//! A pipe that is read, as a kind of connection.

use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::Transport;
use crate::net::connection::{Above, Below, Told, WithFd};
use mainspring_engine::Readiness;
use mainspring_engine::transport::{Cx, Notice, ReadPipe};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// See the module's text.
pub(crate) struct ReadEnd {
    core: Weak<Core>,
    pipe: ReadPipe<RustHost, Above>,
}

impl ReadEnd {
    /// Puts `protocol` on a non-blocking pipe. `connection_made` is called soon.
    pub(crate) fn open(core: &Rc<Core>, pipe: OwnedFd, told: impl Into<Told>) -> Transport {
        let pipe = ReadPipe::new(pipe, Above::new(told, None));
        let end = Rc::new(ReadEnd { core: Rc::downgrade(core), pipe });
        let transport = Transport::new(Rc::<ReadEnd>::clone(&end));
        transport.with(|_, cx| end.pipe.open(cx));
        transport
    }
}

impl Below for ReadEnd {
    fn core(&self) -> &Weak<Core> {
        &self.core
    }

    fn above(&self) -> &Above {
        self.pipe.upper()
    }

    fn io_ready(&self, cx: Cx<'_, RustHost>, readiness: Readiness) -> Result<(), Failure> {
        self.pipe.io_ready(cx, readiness)
    }

    fn notified(&self, cx: Cx<'_, RustHost>, notice: Notice) -> Result<(), Failure> {
        self.pipe.notified(cx, notice)
    }

    fn write(&self, _: Cx<'_, RustHost>, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::Io(io::Error::new(io::ErrorKind::Unsupported, "this end of the pipe is only read")))
    }

    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.pipe.close(cx)
    }

    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.pipe.abort(cx, failure)
    }

    fn is_closing(&self) -> bool {
        self.pipe.is_closing()
    }

    fn is_lost(&self) -> bool {
        self.pipe.is_lost()
    }

    fn pause_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.pipe.pause_reading(cx)
    }

    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.pipe.resume_reading(cx)
    }

    fn is_reading(&self) -> bool {
        self.pipe.is_reading()
    }

    fn fd(&self) -> RawFd {
        self.pipe.fd()
    }

    fn with_fd(&self, use_it: WithFd<'_>) -> io::Result<()> {
        self.pipe.with_fd(use_it)
    }
}
