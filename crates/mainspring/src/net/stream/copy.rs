//! `copy` and `copy_bidirectional`: from one connection to another, no faster than the slower one takes.

use super::{Stream, StreamReader, StreamWriter};
use crate::task::try_join;
use std::io;

/// So much is copied at a time.
const BUFFER_BYTES: usize = 16 * 1024;

/// Carries everything from `reader` to `writer` until the end of the stream, and gives the number of bytes. The writer is
/// left open.
///
/// No more is read than the other side takes: while it does not, the reader's buffer fills, and its peer waits.
///
/// What it carries is a stream and not a message: what other tasks write to the same writer meanwhile goes in between.
///
/// Cancel safety: given up, it has lost nothing: what it has taken from the reader is queued at the writer.
///
/// ```
/// use mainspring::net::{UnixStream, copy};
///
/// # mainspring::run(async {
/// let (client, near) = UnixStream::pair()?;
/// let (far, server) = UnixStream::pair()?;
/// client.write_all(b"a question").await?;
/// client.shutdown();
/// assert_eq!(copy(near.split().0, far.split().1).await?, 10);
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

/// Carries everything between two connections, both ways, and gives the number of bytes from `first` to `second` and from
/// `second` to `first`. The end of one side's stream ends what is sent to the other side, which may go on. It is
/// over when both have ended, or with the first error; neither is closed by it.
///
/// See [`copy`]. The connections may be of any kind: each of [`TcpStream`](crate::net::TcpStream),
/// [`UnixStream`](crate::net::UnixStream) and TLS's derefs to [`Stream`].
///
/// Cancel safety: as of [`copy`].
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
