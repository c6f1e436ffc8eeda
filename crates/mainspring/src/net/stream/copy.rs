//! `copy` and `copy_bidirectional`: forward bytes between connections, with back-pressure.

use super::{Stream, StreamReader, StreamWriter};
use crate::task::try_join;
use std::io;

/// Bytes copied at a time.
const BUFFER_BYTES: usize = 16 * 1024;

/// Copies everything from `reader` to `writer` until the end of the stream, and returns the number of bytes. The
/// writer stays open.
///
/// Reading pauses while the writer's buffer is full, so that flow control reaches the sending peer.
///
/// The bytes are a stream, not a message: writes of other tasks to the same writer may be interleaved.
///
/// Cancel safety: safe; every byte taken from the reader is in the writer's buffer.
///
/// ```
/// use mainspring::net::{UnixStream, copy};
///
/// # mainspring::run(async {
/// let (client, inbound) = UnixStream::pair()?;
/// let (outbound, server) = UnixStream::pair()?;
/// client.write_all(b"a question").await?;
/// client.shutdown();
/// assert_eq!(copy(inbound.split().0, outbound.split().1).await?, 10);
/// assert_eq!(server.read_exactly(10).await?, b"a question");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn copy(reader: &StreamReader, writer: &StreamWriter) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut copied = 0;
    loop {
        let count = reader.read(&mut buffer).await?;
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else { return Ok(copied) };
        writer.write(chunk);
        copied += count as u64;
        writer.drain().await?;
    }
}

/// Copies between two connections in both directions, and returns the number of bytes from `first` to `second` and
/// from `second` to `first`. The end of one stream half-closes the other connection. Completes when both directions
/// have ended, or with the first error. It closes neither connection.
///
/// See [`copy`]. Works with every kind of connection: [`TcpStream`](crate::net::TcpStream),
/// [`UnixStream`](crate::net::UnixStream) and TLS streams deref to [`Stream`].
///
/// Cancel safety: as [`copy`].
///
/// ```
/// use mainspring::net::{TcpListener, TcpStream, UnixStream, copy_bidirectional};
/// use mainspring::spawn;
///
/// # mainspring::run(async {
/// let (server, behind) = UnixStream::pair()?;
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr();
/// let proxy = spawn(async move {
///     let (client, _) = listener.accept().await?;
///     copy_bidirectional(&client, &behind).await
/// });
///
/// let client = TcpStream::connect(address).await?;
/// client.write_all(b"ping").await?;
/// client.shutdown();
/// assert_eq!(server.read_to_end().await?, b"ping");
/// server.write_all(b"pong!").await?;
/// server.close().await?;
/// assert_eq!(client.read_to_end().await?, b"pong!");
/// assert_eq!(proxy.await??, (4, 5));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn copy_bidirectional(first: &Stream, second: &Stream) -> io::Result<(u64, u64)> {
    try_join((copy_then_shutdown(first, second), copy_then_shutdown(second, first))).await
}

async fn copy_then_shutdown(from: &Stream, to: &Stream) -> io::Result<u64> {
    let copied = copy(from.split().0, to.split().1).await?;
    to.shutdown();
    Ok(copied)
}
