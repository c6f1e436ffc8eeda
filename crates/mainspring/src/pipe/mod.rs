//! Pipes, in asyncio's two ways: protocols that are called, and streams that are awaited.
//!
//! A pipe here is one end of a `pipe(2)` or fifo, a terminal, or a socket that is used in one direction. It is a
//! [`Transport`] like a connection's, with the engine's pipe transport in it (`ends.rs`).
//!
//! [`reader`] and [`writer`] are for any descriptor that is read or written as a stream; [`stdin`], [`stdout`] and
//! [`stderr`] for those of this process. What the kernel cannot watch, such as a regular file, is read and written by
//! the loop's executor there (`blocking_file.rs`).
//!
//! All of it belongs to its loop and stays on its thread (`!Send`). Without a loop that runs here it is an error, and so it
//! is for a descriptor that cannot be read or written so.

mod blocking_file;
mod ends;
mod std_streams;
mod streams;

pub use std_streams::{stderr, stdin, stdout};
pub use streams::{reader, writer};

pub(crate) use ends::{ReadEnd, WriteEnd};
pub(crate) use streams::{reader_on, writer_on};

use crate::event_loop::EventLoop;
use crate::net::{Protocol, Transport, wait_until_made};
use mainspring_engine::transport::{PipeKind, prepare_pipe};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

impl EventLoop {
    /// Reads from `pipe`, and puts a protocol on it. Done when the protocol's `connection_made` has run.
    ///
    /// The protocol is told as that of a connection is: `data_received`, at the end of the pipe `eof_received`, whose
    /// answer does not matter, and `connection_lost`. Its transport cannot write.
    ///
    /// `pipe` becomes non-blocking, also for others who have the same end open. `InvalidInput` for a regular file or
    /// a directory.
    ///
    /// Cancel safety: dropping this future closes the pipe.
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
        Ok(wait_until_made(self.core(), transport, protocol).await)
    }

    /// Writes to `pipe`, and puts a protocol on it. Done when the protocol's `connection_made` has run.
    ///
    /// `connection_lost` tells when the transport was closed and everything is written, and also when the reader is
    /// gone: with an error if something was still to be written. `pause_writing` and `resume_writing` tell of a
    /// reader that is slow. `write_eof` closes the pipe.
    ///
    /// What is said of `pipe` at [`EventLoop::connect_read_pipe`] holds here too.
    ///
    /// Cancel safety: dropping this future closes the pipe.
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
        Ok(wait_until_made(self.core(), transport, protocol).await)
    }
}

/// Makes `pipe` non-blocking; an error if it is none.
pub(crate) fn set_nonblocking_pipe(pipe: impl AsFd) -> io::Result<PipeKind> {
    prepare_pipe(pipe)?.ok_or_else(|| {
        let text = "a pipe transport is for pipes, sockets and character devices only";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}
