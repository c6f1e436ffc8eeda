//! Implements the `futures-io` traits for streams.
//!
//! `poll_flush` waits like `drain`; the rest of the write buffer is sent in the background. `poll_close` half-closes
//! the connection, or closes it where half-close is not supported.

use super::writer::MAX_WRITE_BYTES;
use super::{Stream, StreamReader, StreamWriter};
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

impl AsyncRead for StreamReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let readers = &self.shared.buffered.readers;
        self.shared.poll_until(readers, |slots| &mut slots.reading, cx, || self.try_read(buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
            Some(buffer) => self.poll_read(cx, buffer),
            None => Poll::Ready(Ok(0)),
        }
    }
}

impl AsyncBufRead for StreamReader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        if this.lent.get_mut().as_ref().is_none_or(|lent| lent.is_empty()) {
            let buffered = &this.shared.buffered;
            let check = || {
                let mut lent = this.lent.take();
                let is_any = buffered.with_received(|received| {
                    let is_any = !received.is_empty();
                    if is_any {
                        received.lend_to(lent.get_or_insert_default());
                    }
                    is_any
                });
                this.lent.set(lent);
                if !is_any {
                    return this.end_of_stream();
                }
                Some(Ok(()))
            };
            ready!(this.shared.poll_until(&buffered.readers, |slots| &mut slots.reading, cx, check))?;
        }
        Poll::Ready(Ok(this.lent.get_mut().as_ref().map_or(&[], |lent| lent.unread())))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        if let Some(lent) = self.lent.get_mut() {
            lent.consume(amount);
        }
        self.shared.buffered.resume_if_drained(self.shared.transport(), self.buffered());
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_flush(cx))?;
        let chunk = data.get(..MAX_WRITE_BYTES).unwrap_or(data);
        self.try_write_vectored(&[IoSlice::new(chunk)])?;
        Poll::Ready(Ok(chunk.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = pieces.iter().map(|chunk| chunk.len()).sum();
        if length > MAX_WRITE_BYTES {
            let first = pieces.iter().find(|chunk| !chunk.is_empty());
            return self.poll_write(cx, first.map_or(&[], |chunk| chunk));
        }
        ready!(self.as_mut().poll_flush(cx))?;
        self.try_write_vectored(pieces)?;
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let writers = self.shared.buffered.writers();
        self.shared.poll_until(writers, |slots| &mut slots.writing, cx, || self.try_drain())
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.can_write_eof() {
            ready!(self.as_mut().poll_flush(cx))?;
            self.write_eof();
            return Poll::Ready(Ok(()));
        }
        self.close();
        let writers = self.shared.buffered.writers();
        self.shared.poll_until(writers, |slots| &mut slots.closing, cx, || self.try_closed())
    }
}

/// Implements the traits by forwarding to the fields `$read` and `$write`.
macro_rules! forward_async_io {
    ($stream:ty, $read:ident, $write:ident) => {
        impl futures_io::AsyncRead for $stream {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                buffer: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$read).poll_read(cx, buffer)
            }
        }

        impl futures_io::AsyncBufRead for $stream {
            fn poll_fill_buf(
                self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<&[u8]>> {
                std::pin::Pin::new(&mut self.get_mut().$read).poll_fill_buf(cx)
            }

            fn consume(mut self: std::pin::Pin<&mut Self>, amount: usize) {
                std::pin::Pin::new(&mut self.$read).consume(amount);
            }
        }

        impl futures_io::AsyncWrite for $stream {
            fn poll_write(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                data: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$write).poll_write(cx, data)
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                pieces: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.$write).poll_write_vectored(cx, pieces)
            }

            fn poll_flush(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$write).poll_flush(cx)
            }

            fn poll_close(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.$write).poll_close(cx)
            }
        }
    };
}

forward_async_io!(Stream, reader, writer);

/// Implements the methods and traits that a wrapper forwards to its field `stream`.
macro_rules! forward_to_stream {
    ($stream:ident) => {
        $crate::net::stream::forward_async_io!($stream, stream, stream);

        impl $stream {
            /// Splits the stream into owned halves. See [`StreamWriter`](crate::net::StreamWriter) for the effect of
            /// dropping them.
            ///
            /// ```
            /// # mainspring::run(async {
            /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
            /// let (reader, writer) = stream.into_split();
            /// mainspring::spawn(async move { writer.write_all(b"question").await });
            /// assert_eq!(peer.read_to_end().await?, b"question");
            /// peer.write_all(b"answer").await?;
            /// assert_eq!(reader.read_exactly(6).await?, b"answer");
            /// # std::io::Result::Ok(())
            /// # })??;
            /// # Ok::<(), mainspring::Error>(())
            /// ```
            pub fn into_split(self) -> (crate::net::StreamReader, crate::net::StreamWriter) {
                self.stream.into_split()
            }

            /// Closes the connection. Waits until the write buffer is sent and the connection is closed. Returns the
            /// error that ended the connection, if any.
            ///
            /// Cancel safety: the connection is closed in any case.
            ///
            /// ```
            /// # mainspring::run(async {
            /// let (stream, peer) = mainspring::net::UnixStream::pair()?;
            /// stream.split().1.write(b"goodbye");
            /// stream.close().await?;
            /// assert_eq!(peer.read_to_end().await?, b"goodbye");
            /// # std::io::Result::Ok(())
            /// # })??;
            /// # Ok::<(), mainspring::Error>(())
            /// ```
            pub async fn close(self) -> std::io::Result<()> {
                self.stream.close().await
            }
        }

        impl std::ops::Deref for $stream {
            type Target = crate::net::Stream;

            fn deref(&self) -> &crate::net::Stream {
                &self.stream
            }
        }

        impl From<$stream> for crate::net::Stream {
            fn from(stream: $stream) -> Self {
                stream.stream
            }
        }

        impl std::fmt::Debug for $stream {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($stream))
                    .field("transport", self.transport())
                    .finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {forward_async_io, forward_to_stream};
