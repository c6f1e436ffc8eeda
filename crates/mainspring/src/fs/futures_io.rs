//! `futures-io`'s traits on [`File`], for the libraries that read and write by them.

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
    /// Accepts up to 2 MiB and begins to write them. A failure is told to the next operation.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.cursor.poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cursor.poll_flush(cx)
    }

    /// As `poll_flush`: the file is closed when it is dropped.
    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsyncSeek for File {
    /// Asked again for the same place before anything else, it is the same seek, also if the first one was given up.
    fn poll_seek(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        self.cursor.poll_seek(cx, to)
    }
}
