//! `SubprocessProtocol`: what is told of a process and its pipes.

use super::subprocess_transport::SubprocessTransport;
use std::io;

/// What a process's events are told to, as asyncio's `SubprocessProtocol`.
///
/// The methods are called on the loop, one after the other: `connection_made` first, then `pipe_data_received` and
/// `pipe_connection_lost` of each pipe, and `process_exited` when the process has ended, which may be before, between or
/// after those of the pipes; `connection_lost` last, once, when the process has ended and all its pipes are gone. They take
/// `&self` because they may be called again while they run; state goes into cells.
///
/// A method that panics harms nobody else, and the exception handler is told.
///
/// ```
/// use mainspring::process::{Command, SubprocessProtocol, SubprocessTransport};
/// use mainspring::{EventLoop, Future};
/// use std::cell::RefCell;
///
/// struct Collector {
///     output: RefCell<Vec<u8>>,
///     is_lost: Future<()>,
/// }
///
/// impl SubprocessProtocol for Collector {
///     fn pipe_data_received(&self, _: &SubprocessTransport, _fd: i32, data: &[u8]) {
///         self.output.borrow_mut().extend(data);
///     }
///     fn connection_lost(&self, _: &SubprocessTransport, _: Option<std::io::Error>) {
///         self.is_lost.set_result(()).unwrap();
///     }
/// }
///
/// # mainspring::run(async {
/// let event_loop = EventLoop::current();
/// let is_lost = event_loop.create_future();
/// let make = || Collector { output: RefCell::default(), is_lost: is_lost.clone() };
/// let (transport, collector) =
///     event_loop.subprocess_exec(Command::new("echo").arg("hello"), make).await?;
/// is_lost.await.unwrap();
/// assert_eq!(*collector.output.borrow(), b"hello\n");
/// assert_eq!(transport.get_returncode(), Some(0));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[expect(unused_variables, reason = "the defaults use nothing, and the names are for the reader")]
pub trait SubprocessProtocol: 'static {
    /// The process runs, and its pipes stand. The transport may be kept.
    fn connection_made(&self, transport: &SubprocessTransport) {}

    /// Bytes came from its output (`fd` 1) or its error (`fd` 2).
    fn pipe_data_received(&self, transport: &SubprocessTransport, fd: i32, data: &[u8]) {}

    /// The pipe `fd` is gone: its input (0), output (1) or error (2).
    fn pipe_connection_lost(&self, transport: &SubprocessTransport, fd: i32, error: Option<io::Error>) {}

    /// The process has ended: [`SubprocessTransport::get_returncode`] tells how.
    fn process_exited(&self, transport: &SubprocessTransport) {}

    /// The process has ended and its pipes are gone.
    fn connection_lost(&self, transport: &SubprocessTransport, error: Option<io::Error>) {}

    /// More waits to be written to its input than the high-water mark.
    fn pause_writing(&self, transport: &SubprocessTransport) {}

    /// What waits to be written to its input is down to the low-water mark.
    fn resume_writing(&self, transport: &SubprocessTransport) {}
}
