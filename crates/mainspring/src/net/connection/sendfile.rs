//! `sendfile`: the kernel sends the file if the connection is a plain socket; otherwise the file is sent in chunks.
//!
//! `sendfile(2)` bypasses the transport's write buffer. So the operation reserves the write side, waits until the
//! buffer is empty, and sends on a duplicate of the fd, because the transport may be receiving on the original.
//! Writes fail until the operation ends.

use super::transport_handle::Transport;
use crate::event_loop::{Core, run_in_executor};
use crate::host::{RustHost, Watch};
use crate::net::stream::Stream;
use mainspring_engine::socket_ops::{Operation, Pending, SendFile};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::{Rc, Weak};

/// Bytes read from the file at a time if the kernel cannot send it.
const CHUNK_BYTES: usize = 64 * 1024;

impl Stream {
    /// Sends `count` bytes of `file` from `offset` on, or all up to its end, and returns the number of bytes sent.
    /// Uses `sendfile(2)` where possible; otherwise the executor reads the file in chunks. Afterwards the position of
    /// the file is behind the last byte sent.
    ///
    /// The file counts as one message, as with [`write_all`](crate::net::StreamWriter::write_all): it waits for
    /// earlier messages, and later ones wait for it.
    ///
    /// Cancel safety: not safe; a part of the file may be sent. The connection stays usable.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use std::fs::File;
    ///
    /// mainspring::run(async {
    ///     let (stream, peer) = UnixStream::pair()?;
    ///     let file = File::open("Cargo.toml")?;
    ///     let sent = stream.sendfile(&file, 1, Some(7)).await?;
    ///     drop(stream);
    ///     assert_eq!((sent, peer.read_to_end().await?), (7, b"package".to_vec()));
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn sendfile(&self, file: &File, offset: u64, count: Option<u64>) -> io::Result<u64> {
        let writer = self.split().1;
        let _write_lock = writer.lock_writing().await?;
        match send_by_kernel(self.transport(), file, offset, count).await? {
            KernelSend::Sent(sent) => Ok(sent),
            KernelSend::Unsupported => {
                let send = async |data: &[u8]| writer.write_locked(data).await;
                send_in_chunks(self.transport(), file, offset, count, send).await
            }
        }
    }
}

impl Transport {
    /// See [`Stream::sendfile`]. Messages are not serialised here: writes fail while the kernel sends the file. If
    /// the kernel cannot send to this connection, the file goes through the write buffer, interleaved with other
    /// writes; [`Transport::set_write_buffer_limits`] provides back-pressure.
    ///
    /// Cancel safety: not safe; a part of the file may be sent. The connection stays usable.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use mainspring::{EventLoop, Protocol};
    /// use std::fs::File;
    ///
    /// struct Silent;
    /// impl Protocol for Silent {}
    ///
    /// mainspring::run(async {
    ///     let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    ///     let (transport, _) = EventLoop::current().connect_accepted_socket(stream, || Silent).await?;
    ///     transport.sendfile(&File::open("Cargo.toml")?, 0, Some(9)).await?;
    ///     assert_eq!(UnixStream::from_std(peer)?.read_exactly(9).await?, b"[package]");
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn sendfile(&self, file: &File, offset: u64, count: Option<u64>) -> io::Result<u64> {
        match send_by_kernel(self, file, offset, count).await? {
            KernelSend::Sent(sent) => Ok(sent),
            KernelSend::Unsupported => {
                let send = async |data: &[u8]| {
                    self.write(data);
                    Ok(())
                };
                send_in_chunks(self, file, offset, count, send).await
            }
        }
    }
}

enum KernelSend {
    Sent(u64),
    /// No byte was sent.
    Unsupported,
}

/// Reserves the write side of a transport. Dropping it releases the write side.
struct WriteReservation<'a>(&'a Transport);

impl Drop for WriteReservation<'_> {
    fn drop(&mut self) {
        self.0.inspect(|transport| transport.release_writing());
    }
}

fn connection_closed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the connection is closed")
}

async fn send_by_kernel(
    transport: &Transport,
    file: &File,
    offset: u64,
    count: Option<u64>,
) -> io::Result<KernelSend> {
    transport.check_write()?;
    if transport.is_closing() {
        return Err(connection_closed());
    }
    let is_regular = file.metadata().is_ok_and(|found| found.is_file());
    let reserved =
        transport.inspect(|transport| if is_regular { transport.reserve_writing() } else { None }).flatten();
    let (Some(is_empty), Some(core)) = (reserved, transport.core()) else {
        return Ok(KernelSend::Unsupported);
    };
    let reserved = WriteReservation(transport);
    if !is_empty {
        wait_until(transport, || (transport.get_write_buffer_size() == 0).then_some(Ok(()))).await?;
    }
    let socket = transport.with_fd(|fd| fd.try_clone_to_owned()).map_err(|_| connection_closed())?;
    let mut operation = SendFile::new(file.as_fd().try_clone_to_owned()?, offset, count);
    // Usually one call sends everything.
    let (outcome, pending_send) =
        match Operation::<RustHost>::advance(&mut operation, &core.engine, socket.as_fd()) {
            Ok(None) => {
                let pending_send = PendingSendFile::new(&core, transport, socket, operation);
                (pending_send.run(&core).await, pending_send)
            }
            Ok(Some(_)) => (Ok(()), PendingSendFile::new(&core, transport, socket, operation)),
            Err(error) => (Err(error), PendingSendFile::new(&core, transport, socket, operation)),
        };
    drop(reserved);
    let sent = pending_send.pending.with_operation(SendFile::sent);
    match outcome {
        // The kernel cannot read this kind of file. Send in chunks instead, which reports real errors.
        Err(error) if sent == 0 && is_unsupported(&error) => Ok(KernelSend::Unsupported),
        Err(error) => Err(error),
        Ok(()) => {
            pending_send.pending.with_operation(SendFile::update_position)?;
            Ok(KernelSend::Sent(sent))
        }
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::ENOTSOCK))
}

/// Waits until `check` returns a result. It is called when the write buffer is empty, when the connection is lost,
/// and when the file is sent.
async fn wait_until<R>(transport: &Transport, check: impl Fn() -> Option<io::Result<R>>) -> io::Result<R> {
    let is_closed = || transport.is_lost() || transport.is_loop_closed();
    let check = || check().or_else(|| is_closed().then(|| Err(connection_closed())));
    match transport.drained() {
        Some(list) => list.wait_until(check).await,
        None => Err(connection_closed()),
    }
}

/// A file being sent: the engine's operation continues whenever the socket is writable.
struct PendingSendFile {
    core: Weak<Core>,
    transport: Transport,
    socket: OwnedFd,
    pending: Pending<SendFile>,
    outcome: Cell<Option<io::Result<()>>>,
}

impl PendingSendFile {
    fn new(core: &Rc<Core>, transport: &Transport, socket: OwnedFd, operation: SendFile) -> Rc<Self> {
        Rc::new(PendingSendFile {
            core: Rc::downgrade(core),
            transport: transport.clone(),
            socket,
            pending: Pending::new(operation),
            outcome: Cell::new(None),
        })
    }

    async fn run(self: &Rc<Self>, core: &Core) -> io::Result<()> {
        /// Removes the watch, also when the future is dropped.
        struct CancelWait<'a>(&'a PendingSendFile, &'a Core);
        impl Drop for CancelWait<'_> {
            fn drop(&mut self) {
                let watch = self.0.pending.leave(&self.1.engine);
                drop(watch);
            }
        }
        let watch: Rc<dyn Watch> = Rc::<PendingSendFile>::clone(self);
        let replaced = self.pending.wait(&core.engine, self.socket.as_fd(), watch)?;
        drop(replaced);
        let _cancel_wait = CancelWait(self, core);
        wait_until(&self.transport, || self.outcome.take()).await
    }
}

impl Watch for PendingSendFile {
    fn fire(&self) {
        let Some(core) = self.core.upgrade() else { return };
        let Some(settled) = self.pending.ready(&core.engine, self.socket.as_fd()) else { return };
        self.outcome.set(Some(settled.outcome.map(drop)));
        drop(settled.watch);
        if let Some(list) = self.transport.drained() {
            list.wake_all();
        }
    }

    fn cancel(&self) {}
}

/// Reads the file in the executor, chunk by chunk, and passes each chunk to `send`.
async fn send_in_chunks(
    transport: &Transport,
    file: &File,
    offset: u64,
    count: Option<u64>,
    send: impl AsyncFn(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let core = transport.core().ok_or_else(connection_closed)?;
    let mut sent = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let left = count.map_or(u64::MAX, |count| count - sent);
        chunk.truncate(usize::try_from(left).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES));
        if chunk.is_empty() {
            break;
        }
        let file_clone = file.try_clone()?;
        let reading = run_in_executor(&core, move || {
            let filled = file_clone.read_at(&mut chunk, offset + sent);
            filled.map(|filled| (chunk, filled))
        })?;
        let (read, filled) = reading.await.map_err(io::Error::other)??;
        if transport.is_closing() {
            return Err(connection_closed());
        }
        send(read.get(..filled).unwrap_or_default()).await?;
        sent += filled as u64;
        if filled == 0 {
            break;
        }
        chunk = read;
    }
    let mut file = file;
    file.seek(SeekFrom::Start(offset + sent))?;
    Ok(sent)
}
