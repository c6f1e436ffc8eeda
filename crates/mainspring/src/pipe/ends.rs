//! The two ends of a pipe, each a kind of connection: [`ReadEnd`] and [`WriteEnd`] wrap the engine's pipe transports.

use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::Transport;
use crate::net::connection::{ProtocolRef, ProtocolSlot, TransportImpl, WithFd};
use mainspring_engine::Readiness;
use mainspring_engine::memory;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Cx, DeferredCall, PipeKind, ReadPipe, WaterMarks, WritePipe};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// The read end of a pipe.
pub(crate) struct ReadEnd {
    core: Weak<Core>,
    pipe: ReadPipe<RustHost, ProtocolSlot>,
}

/// The write end of a pipe.
pub(crate) struct WriteEnd {
    core: Weak<Core>,
    pipe: WritePipe<RustHost, ProtocolSlot>,
}

impl ReadEnd {
    /// Attaches a protocol to a non-blocking pipe. `connection_made` is scheduled.
    pub(crate) fn open(core: &Rc<Core>, pipe: OwnedFd, protocol: impl Into<ProtocolRef>) -> Transport {
        let pipe = ReadPipe::new(pipe, ProtocolSlot::new(protocol, None));
        let end = Rc::new(ReadEnd { core: Rc::downgrade(core), pipe });
        let transport = Transport::new(Rc::<ReadEnd>::clone(&end));
        transport.with(|_, cx| end.pipe.open(cx));
        transport
    }
}

impl WriteEnd {
    /// Attaches a protocol to a non-blocking pipe of this kind. `connection_made` is scheduled.
    pub(crate) fn open(
        core: &Rc<Core>,
        pipe: OwnedFd,
        kind: PipeKind,
        protocol: impl Into<ProtocolRef>,
    ) -> Transport {
        let pipe = WritePipe::new(pipe, kind, ProtocolSlot::new(protocol, None));
        let end = Rc::new(WriteEnd { core: Rc::downgrade(core), pipe });
        let transport = Transport::new(Rc::<WriteEnd>::clone(&end));
        transport.with(|_, cx| end.pipe.open(cx));
        transport
    }
}

/// The methods of [`TransportImpl`] that both ends forward to the engine's transport.
macro_rules! forward_to_pipe {
    () => {
        fn core(&self) -> &Weak<Core> {
            &self.core
        }

        fn protocol_slot(&self) -> &ProtocolSlot {
            self.pipe.sink()
        }

        fn io_ready(&self, cx: Cx<'_, RustHost>, readiness: Readiness) -> Result<(), Failure> {
            self.pipe.io_ready(cx, readiness)
        }

        fn run_deferred(&self, cx: Cx<'_, RustHost>, deferred: DeferredCall) -> Result<(), Failure> {
            self.pipe.run_deferred(cx, deferred)
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

        fn fd(&self) -> RawFd {
            self.pipe.fd()
        }

        fn with_fd(&self, f: WithFd<'_>) -> io::Result<()> {
            self.pipe.with_fd(f)
        }
    };
}

impl TransportImpl for ReadEnd {
    forward_to_pipe!();

    fn write(&self, _: Cx<'_, RustHost>, _: &[u8]) -> Result<(), Failure> {
        let text = format!("file descriptor {} is the read end of a pipe and cannot be written", self.fd());
        Err(Failure::Io(io::Error::new(io::ErrorKind::Unsupported, text)))
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
}

impl TransportImpl for WriteEnd {
    forward_to_pipe!();

    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.pipe.write(cx, data, || memory::copy(data).ok())
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    /// Closes the pipe: it has no other direction.
    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.pipe.close(cx)
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
}
