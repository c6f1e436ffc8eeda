//! `copy` and `copy_bidirectional`: complete, and with back-pressure.

use crate::{on_both, on_pairs, settle};
use mainspring::net::{TcpListener, TcpStream, UnixStream, copy, copy_bidirectional};
use mainspring::{spawn, timeout};
use std::io;
use std::time::Duration;

#[test]
fn copy_delivers_everything_in_order_but_not_eof() {
    on_pairs("copy", async |client, near| {
        let (far, server) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..1_000_000).map(|number| (number % 251) as u8).collect();
        let expected = sent.clone();
        let sending = spawn(async move {
            client.write_all(&sent).await?;
            client.close().await
        });
        let copying = spawn(async move { (copy(near.split().0, far.split().1).await, far) });
        assert_eq!(server.read_exactly(expected.len()).await.unwrap(), expected);
        sending.await.unwrap().unwrap();
        let (carried, far) = copying.await.unwrap();
        assert_eq!(carried.unwrap(), 1_000_000);
        far.write_all(b"more").await.unwrap();
        assert_eq!(server.read_exactly(4).await.unwrap(), b"more");
    });
}

#[test]
fn copy_applies_back_pressure() {
    on_pairs("copy to a slow reader", async |client, near| {
        let (far, server) = UnixStream::pair().unwrap();
        let copying = spawn(async move { copy(near.split().0, far.split().1).await });
        let sending = spawn(async move { client.write_all(&vec![1; 16 << 20]).await });
        settle().await;
        assert!(!sending.is_finished(), "the sender is blocked");
        let mut received = 0;
        let mut buffer = vec![0; 1 << 16];
        while received < 16 << 20 {
            received += server.read(&mut buffer).await.unwrap();
        }
        sending.await.unwrap().unwrap();
        assert_eq!(copying.await.unwrap().unwrap(), 16 << 20);
    });
}

#[test]
fn a_cancelled_copy_loses_no_data() {
    on_pairs("cancelled copy", async |client, near| {
        let (far, server) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..300_000).map(|number| (number % 251) as u8).collect();
        let expected = sent.clone();
        let sending = spawn(async move {
            client.write_all(&sent).await?;
            client.close().await
        });
        let receiving = spawn(async move { server.read_to_end().await });
        // Polled once each time and then cancelled.
        while !near.split().0.at_eof() {
            let _ = timeout(Duration::ZERO, copy(near.split().0, far.split().1)).await;
            mainspring::yield_now().await;
        }
        far.close().await.unwrap();
        sending.await.unwrap().unwrap();
        assert_eq!(receiving.await.unwrap().unwrap(), expected);
    });
}

#[test]
fn one_direction_may_end_before_the_other() {
    on_both("copy both ways", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (server, behind) = UnixStream::pair().unwrap();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (front, _) = listener.accept().await.unwrap();
            let proxy = spawn(async move { copy_bidirectional(&front, &behind).await });
            client.write_all(b"a question").await.unwrap();
            client.shutdown();
            assert_eq!(server.read_to_end().await.unwrap(), b"a question");
            settle().await;
            assert!(!proxy.is_finished(), "the other direction is still open");
            server.write_all(b"an answer").await.unwrap();
            server.close().await.unwrap();
            assert_eq!(client.read_to_end().await.unwrap(), b"an answer");
            assert_eq!(proxy.await.unwrap().unwrap(), (10, 9));
        });
    });
}

#[test]
fn a_reset_ends_both_directions() {
    on_both("copy with a reset", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (_server, behind) = UnixStream::pair().unwrap();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (front, _) = listener.accept().await.unwrap();
            let proxy = spawn(async move { copy_bidirectional(&front, &behind).await });
            settle().await;
            // Aborted with a reset.
            client.set_linger(Some(Duration::ZERO)).unwrap();
            client.transport().abort();
            let error = proxy.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn copying_to_a_closed_writer_is_an_error() {
    on_pairs("copy to a closed writer", async |client, near| {
        let (far, server) = UnixStream::pair().unwrap();
        drop(server);
        client.write_all(b"to nobody").await.unwrap();
        let error = copy(near.split().0, far.split().1).await.unwrap_err();
        let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        assert!(kinds.contains(&error.kind()), "{error}");
    });
}
