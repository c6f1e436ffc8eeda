//! `SubprocessProtocol`: callbacks of a process and its pipes.

use super::subprocess_transport::SubprocessTransport;
use std::io;

/// Receives the events of a process, as asyncio's `SubprocessProtocol`.
///
/// The loop calls the methods one at a time: `connection_made` first, then `pipe_data_received` and
/// `pipe_connection_lost` for each pipe. `process_exited` may come before, between or after those of the pipes.
/// `connection_lost` is called once at the end, when the process has exited and all pipes are closed. The methods
/// take `&self` because calls can nest; keep state in cells.
///
/// If a method panics, the panic is reported to the exception handler.
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
#[expect(unused_variables, reason = "the default methods do nothing; the names document the parameters")]
pub trait SubprocessProtocol: 'static {
    /// The process runs and its pipes are open. Keep a clone of the transport if needed.
    fn connection_made(&self, transport: &SubprocessTransport) {}

    /// Data arrived from standard output (`fd` 1) or standard error (`fd` 2).
    fn pipe_data_received(&self, transport: &SubprocessTransport, fd: i32, data: &[u8]) {}

    /// A pipe is closed: standard input (`fd` 0), output (1) or error (2).
    fn pipe_connection_lost(&self, transport: &SubprocessTransport, fd: i32, error: Option<io::Error>) {}

    /// The process has exited. See [`SubprocessTransport::get_returncode`].
    fn process_exited(&self, transport: &SubprocessTransport) {}

    /// The process has exited and all pipes are closed.
    fn connection_lost(&self, transport: &SubprocessTransport, error: Option<io::Error>) {}

    /// The write buffer of standard input is above the high-water mark.
    fn pause_writing(&self, transport: &SubprocessTransport) {}

    /// The write buffer of standard input is down to the low-water mark.
    fn resume_writing(&self, transport: &SubprocessTransport) {}
}
