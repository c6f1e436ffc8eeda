//! A pipe that is written, as a kind of connection.

use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::Transport;
use crate::net::connection::{Above, Below, Told, WithFd};
use mainspring_engine::Readiness;
use mainspring_engine::memory;
use mainspring_engine::transport::{Cx, Notice, PipeKind, WaterMarks, WritePipe};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// See the module's text.
pub(crate) struct WriteEnd {
    core: Weak<Core>,
    pipe: WritePipe<RustHost, Above>,
}

impl WriteEnd {
    /// Puts `protocol` on a non-blocking pipe of this kind. `connection_made` is called soon.
    pub(crate) fn open(core: &Rc<Core>, pipe: OwnedFd, kind: PipeKind, told: impl Into<Told>) -> Transport {
        let pipe = WritePipe::new(pipe, kind, Above::new(told, None));
        let end = Rc::new(WriteEnd { core: Rc::downgrade(core), pipe });
        let transport = Transport::new(Rc::<WriteEnd>::clone(&end));
        transport.with(|_, cx| end.pipe.open(cx));
        transport
    }
}

impl Below for WriteEnd {
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

    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.pipe.write(cx, data, || memory::copy(data).ok())
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    /// There is only one direction: its end is the pipe's.
    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.pipe.close(cx)
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

    fn is_writing_paused(&self) -> bool {
        self.pipe.is_writing_paused()
    }

    fn write_buffer_size(&self, _: Cx<'_, RustHost>) -> Result<usize, Failure> {
        Ok(self.pipe.write_buffer_size())
    }

    fn water_marks(&self) -> WaterMarks {
        self.pipe.water_marks()
    }

    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        self.pipe.set_water_marks(cx, marks)
    }

    fn fd(&self) -> RawFd {
        self.pipe.fd()
    }

    fn with_fd(&self, use_it: WithFd<'_>) -> io::Result<()> {
        self.pipe.with_fd(use_it)
    }
}
