//! `HyperIo`: adapts a stream to hyper.

use futures_io::{AsyncBufRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Adapts a stream with the `futures-io` traits to hyper. All streams of this crate have them.
///
/// Received bytes are copied once, from the stream's buffer to hyper's. It is `Send` if the stream is. The streams of
/// this crate are not; hyper needs that only for HTTP upgrades (`with_upgrades`).
///
/// See [the module documentation](super) for a complete program.
///
/// ```
/// use mainspring::hyper::HyperIo;
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let mut io = HyperIo::new(TcpStream::connect(listener.local_addr()).await?);
///     assert_eq!(io.get_ref().peer_addr(), Some(listener.local_addr()));
///     io.get_mut().write_all(b"not by hyper").await?;
///     io.into_inner().close().await
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug)]
pub struct HyperIo<T> {
    stream: T,
}

impl<T> HyperIo<T> {
    /// Wraps a stream.
    pub const fn new(stream: T) -> Self {
        HyperIo { stream }
    }

    /// A reference to the stream.
    pub const fn get_ref(&self) -> &T {
        &self.stream
    }

    /// A mutable reference to the stream.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.stream
    }

    /// Unwraps the stream.
    pub fn into_inner(self) -> T {
        self.stream
    }
}

impl<T: Unpin> HyperIo<T> {
    fn project(self: Pin<&mut Self>) -> Pin<&mut T> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl<T: AsyncBufRead + Unpin> Read for HyperIo<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = self.project();
        let buffered = ready!(stream.as_mut().poll_fill_buf(cx))?;
        let count = buffered.len().min(out.remaining());
        out.put_slice(buffered.get(..count).unwrap_or_default());
        stream.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> Write for HyperIo<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.project().poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().poll_write_vectored(cx, pieces)
    }
}
