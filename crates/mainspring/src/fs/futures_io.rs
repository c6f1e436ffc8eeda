//! Implements the `futures-io` traits for [`File`].

use super::file::File;
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.cursor.poll_read(cx, buffer)
    }
}

impl AsyncWrite for File {
    /// Accepts up to 2 MiB and starts writing them. The next operation returns a failure.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.cursor.poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cursor.poll_flush(cx)
    }

    /// As `poll_flush`. Dropping the file closes it.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    /// A repeated call with the same target continues the same seek, even if the first one was cancelled.
    fn poll_seek(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        self.cursor.poll_seek(cx, to)
    }
}
