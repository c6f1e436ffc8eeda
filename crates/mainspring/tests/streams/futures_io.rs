//! The `futures-io` traits, polled by hand.

use crate::{on_pairs, settle};
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use mainspring::spawn;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use test_support::pattern;

async fn read(reader: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *reader).poll_read(cx, buffer)).await
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *writer).poll_write(cx, data)).await
}

async fn close(writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *writer).poll_close(cx)).await
}

/// Fills the buffer and consumes `take` bytes of it.
async fn fill(reader: &mut (impl AsyncBufRead + Unpin), take: usize) -> Vec<u8> {
    let seen = poll_fn(|cx| Pin::new(&mut *reader).poll_fill_buf(cx).map(|seen| seen.map(<[u8]>::to_vec)));
    let seen = seen.await.unwrap();
    Pin::new(reader).consume(take.min(seen.len()));
    seen
}

#[test]
fn a_stream_is_read_written_and_closed() {
    on_pairs("read, write, close", async |mut near, mut far| {
        assert_eq!(write(&mut near, b"ping").await.unwrap(), 4);
        let pieces = [IoSlice::new(b"po"), IoSlice::new(b""), IoSlice::new(b"ng")];
        let both = poll_fn(|cx| Pin::new(&mut near).poll_write_vectored(cx, &pieces)).await;
        assert_eq!(both.unwrap(), 4);
        poll_fn(|cx| Pin::new(&mut near).poll_flush(cx)).await.unwrap();
        close(&mut near).await.unwrap();
        let mut buffer = [0; 20];
        let mut all = Vec::new();
        while let count @ 1.. = read(&mut far, &mut buffer).await.unwrap() {
            all.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(all, b"pingpong");
        // Closing has half-closed the connection.
        assert!(write(&mut near, b"x").await.is_err());
        far.write_all(b"back").await.unwrap();
        assert_eq!(read(&mut near, &mut buffer).await.unwrap(), 4);
    });
}

#[test]
fn poll_write_waits_for_a_peer_that_does_not_read() {
    on_pairs("back-pressure", async |mut near, far| {
        let writing = spawn(async move {
            let mut rest = pattern(2_000_000);
            while !rest.is_empty() {
                let count = write(&mut near, rest).await.unwrap();
                assert!(count > 0 && count <= 256 * 1024);
                rest = &rest[count..];
            }
            near
        });
        settle().await;
        assert!(!writing.is_finished());
        assert!(far.read_exactly(2_000_000).await.unwrap() == pattern(2_000_000));
        writing.await.unwrap();
    });
}

#[test]
fn unconsumed_fill_buf_data_is_seen_by_every_read_method() {
    on_pairs("fill_buf", async |near, mut far| {
        near.write_all(b"abcdef").await.unwrap();
        assert_eq!(fill(&mut far, 1).await, b"abcdef");
        near.write_all(b"ghi\njk").await.unwrap();
        settle().await;
        assert_eq!(far.split().0.buffered(), 11);
        assert_eq!(fill(&mut far, 0).await, b"bcdef", "fill_buf returns the same bytes again");
        assert_eq!(far.read_some(2).await.unwrap(), b"bc");
        assert_eq!(fill(&mut far, 2).await, b"defghi\njk");
        assert_eq!(far.read_line().await.unwrap(), b"fghi\n");
        near.shutdown();
        assert_eq!(fill(&mut far, 1).await, b"jk");
        assert!(!far.split().0.at_eof());
        assert_eq!(far.read_to_end().await.unwrap(), b"k");
        assert_eq!(fill(&mut far, 0).await, b"");
        assert!(far.split().0.at_eof());
    });
}

#[test]
fn consuming_fill_buf_data_unblocks_the_peer() {
    on_pairs("fill_buf and back-pressure", async |near, mut far| {
        far.split().0.set_limit(1000);
        let writing = spawn(async move {
            near.write_all(pattern(1_000_000)).await.unwrap();
        });
        let mut all = Vec::new();
        loop {
            let seen = fill(&mut far, usize::MAX).await;
            if seen.is_empty() {
                break;
            }
            all.extend(seen);
        }
        assert!(all == pattern(1_000_000));
        writing.await.unwrap();
    });
}

#[test]
fn a_half_dropped_while_waiting_leaves_no_waker() {
    on_pairs("dropped while it waits", async |near, far| {
        let waker = std::sync::Arc::new(Count);
        let (mut reader, writer) = near.into_split();
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut reader).poll_read(&mut cx, &mut [0]).is_pending());
        let counted = std::task::Waker::from(std::sync::Arc::clone(&waker));
        cx = std::task::Context::from_waker(&counted);
        assert!(Pin::new(&mut reader).poll_read(&mut cx, &mut [0]).is_pending());
        drop(reader);
        drop(counted);
        assert_eq!(std::sync::Arc::strong_count(&waker), 1);
        drop((writer, far));
    });
}

struct Count;

impl std::task::Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {}
}
