//! Pipes. Like asyncio, the module has two styles: protocols with callbacks, and streams with `await`.
//!
//! A pipe is one end of a `pipe(2)` or fifo, a terminal, or a socket used in one direction. It is a [`Transport`]
//! based on the engine's pipe transport (`ends.rs`).
//!
//! [`reader`] and [`writer`] make a stream from any fd; [`stdin`], [`stdout`] and [`stderr`] are the streams of this
//! process. For files that epoll does not support, such as regular files, the executor does the blocking calls
//! (`blocking_file.rs`).
//!
//! Everything here belongs to its loop and is not `Send`. The functions fail if this thread runs no loop, or if the
//! fd cannot be used this way.

mod blocking_file;
mod ends;
mod std_streams;
mod streams;

pub use std_streams::{stderr, stdin, stdout};
pub use streams::{reader, writer};

pub(crate) use ends::{ReadEnd, WriteEnd};
pub(crate) use streams::{reader_on, writer_on};

use crate::event_loop::EventLoop;
use crate::net::{Protocol, Transport, wait_connection_made};
use mainspring_engine::transport::{PipeKind, prepare_pipe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

impl EventLoop {
    /// Attaches a protocol to the read end of a pipe. Completes when the protocol's `connection_made` has run.
    ///
    /// The protocol is called as for a connection: `data_received`, at the end `eof_received`, whose result is
    /// ignored, and `connection_lost`. The transport cannot write.
    ///
    /// `pipe` becomes non-blocking, also for others that share the open file. `InvalidInput` for a regular file or a
    /// directory.
    ///
    /// Cancel safety: dropping the future closes the pipe.
    ///
    /// ```
    /// use mainspring::{EventLoop, Protocol, Transport};
    /// use std::cell::RefCell;
    ///
    /// #[derive(Default)]
    /// struct Collector(RefCell<Vec<u8>>);
    ///
    /// impl Protocol for Collector {
    ///     fn data_received(&self, _: &Transport, data: &[u8]) {
    ///         self.0.borrow_mut().extend(data);
    ///     }
    ///     fn connection_lost(&self, _: &Transport, _: Option<std::io::Error>) {
    ///         EventLoop::current().stop();
    ///     }
    /// }
    ///
    /// let event_loop = EventLoop::new()?;
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let (_, collector) =
    ///     event_loop.run_until_complete(event_loop.connect_read_pipe(reader, Collector::default))??;
    /// std::io::Write::write_all(&mut writer, b"through the pipe")?;
    /// drop(writer);
    /// event_loop.run_forever()?;
    /// assert_eq!(*collector.0.borrow(), b"through the pipe");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect_read_pipe<P: Protocol>(
        &self,
        pipe: impl Into<OwnedFd>,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let pipe = pipe.into();
        self.core().check_open()?;
        set_nonblocking_pipe(&pipe)?;
        let protocol = Rc::new(protocol_factory());
        let transport = ReadEnd::open(self.core(), pipe, Rc::<P>::clone(&protocol));
        Ok(wait_connection_made(self.core(), transport, protocol).await)
    }

    /// Attaches a protocol to the write end of a pipe. Completes when the protocol's `connection_made` has run.
    ///
    /// `connection_lost` is called when the transport is closed and everything is written, or when the reader closes;
    /// in that case with an error if data was left. `pause_writing` and `resume_writing` provide back-pressure.
    /// `write_eof` closes the pipe.
    ///
    /// The conditions for `pipe` are those of [`EventLoop::connect_read_pipe`].
    ///
    /// Cancel safety: dropping the future closes the pipe.
    ///
    /// ```
    /// use mainspring::{EventLoop, Protocol};
    /// use std::io::Read;
    ///
    /// struct Quiet;
    /// impl Protocol for Quiet {}
    ///
    /// let (mut reader, writer) = std::io::pipe()?;
    /// mainspring::run(async {
    ///     let (transport, _) = EventLoop::current().connect_write_pipe(writer, || Quiet).await?;
    ///     transport.write(b"through the pipe");
    ///     transport.close();
    ///     std::io::Result::Ok(())
    /// })??;
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "through the pipe");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect_write_pipe<P: Protocol>(
        &self,
        pipe: impl Into<OwnedFd>,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let pipe = pipe.into();
        self.core().check_open()?;
        let kind = set_nonblocking_pipe(&pipe)?;
        let protocol = Rc::new(protocol_factory());
        let transport = WriteEnd::open(self.core(), pipe, kind, Rc::<P>::clone(&protocol));
        Ok(wait_connection_made(self.core(), transport, protocol).await)
    }
}

/// Makes `pipe` non-blocking. Fails if it is not a pipe, socket or character device.
pub(crate) fn set_nonblocking_pipe(pipe: impl AsFd) -> io::Result<PipeKind> {
    prepare_pipe(pipe)?.ok_or_else(|| {
        let text =
            "expected a pipe, a socket or a character device; use pipe::reader or pipe::writer for files";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}
