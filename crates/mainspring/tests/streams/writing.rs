//! `StreamWriter`: sending, dropping, closing and half-closing.

use crate::{on_both, on_pairs, settle};
use mainspring::net::{TcpListener, TcpStream, UnixStream, open_connection};
use mainspring::{EventLoop, spawn};
use std::io::{self, Write};
use std::rc::Rc;
use test_support::isolated;
use test_support::pattern;

#[test]
fn writelines_sends_all_pieces() {
    on_pairs("writelines", async |near, far| {
        near.split().1.writelines(&[b"one ", b"", b"two ", b"three"]);
        near.shutdown();
        assert_eq!(far.read_to_end().await.unwrap(), b"one two three");
    });
}

#[test]
fn dropping_the_writer_half_closes_and_reading_continues() {
    on_pairs("a dropped writer", async |near, far| {
        let (reader, writer) = near.into_split();
        writer.write(pattern(600_000));
        drop(writer);
        let question = far.read_to_end().await.unwrap();
        assert!(question == pattern(600_000), "queued data is sent before the close");
        far.write_all(b"answer").await.unwrap();
        assert_eq!(reader.read_exactly(6).await.unwrap(), b"answer");
    });
}

#[test]
fn dropping_the_reader_keeps_the_writer_and_the_last_half_closes() {
    on_pairs("a dropped reader", async |near, far| {
        let (reader, writer) = near.into_split();
        drop(reader);
        writer.write_all(b"still").await.unwrap();
        assert_eq!(far.read_exactly(5).await.unwrap(), b"still");
        drop(writer);
        assert_eq!(far.read_to_end().await.unwrap(), b"");
        // The first write succeeds from the writer's point of view; the next one reports the failure.
        let _ = far.write_all(b"x").await;
        settle().await;
        assert!(far.write_all(b"x").await.is_err(), "the peer has closed");
    });
}

#[test]
fn every_wait_closed_completes() {
    on_pairs("wait_closed", async |near, far| {
        let (reader, writer) = near.into_split();
        let writer = Rc::new(writer);
        let waiting = [1, 2, 3].map(|_| {
            let writer = Rc::clone(&writer);
            spawn(async move { writer.wait_closed().await })
        });
        settle().await;
        writer.write(pattern(600_000));
        writer.close();
        assert!(writer.is_closing());
        assert_eq!(reader.read_some(1).await.unwrap(), b"", "reading ends after a local close");
        assert_eq!(writer.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!(far.read_to_end().await.unwrap() == pattern(600_000));
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        writer.wait_closed().await.unwrap();
    });
}

#[test]
fn drain_waits_until_the_peer_reads() {
    on_pairs("drain", async |near, far| {
        near.drain().await.unwrap();
        near.transport().write(pattern(1_000_000));
        let near = Rc::new(near);
        let draining = spawn({
            let near = Rc::clone(&near);
            async move { near.drain().await }
        });
        settle().await;
        assert!(!draining.is_finished());
        far.read_exactly(1_000_000).await.unwrap();
        draining.await.unwrap().unwrap();
    });
}

#[test]
fn a_second_write_eof_does_nothing() {
    on_pairs("two write_eof() calls", async |near, far| {
        assert!(near.transport().can_write_eof());
        near.shutdown();
        near.shutdown();
        assert_eq!(near.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(far.read_to_end().await.unwrap(), b"");
    });
}

#[test]
fn streams_of_a_closed_loop_fail_on_another_loop() {
    isolated(|| {
        let one = EventLoop::new().unwrap();
        let (near, far) = one.run_until_complete(async { UnixStream::pair() }).unwrap().unwrap();
        let (reader, writer) = near.into_split();
        writer.write(pattern(1_000_000));
        one.close().unwrap();
        mainspring::run(async {
            for error in [
                writer.wait_closed().await.unwrap_err(),
                writer.drain().await.unwrap_err(),
                reader.read_some(1).await.unwrap_err(),
                reader.read_to_end().await.unwrap_err(),
                far.close().await.unwrap_err(),
            ] {
                assert!(error.to_string().contains("closed"), "{error}");
            }
            assert!(writer.write_all(b"x").await.is_err());
        })
        .unwrap();
    });
}

#[test]
fn both_ends_of_a_tcp_connection_know_their_addresses() {
    on_both("addresses", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (reader, writer) = open_connection(listener.local_addr()).await.unwrap();
            let (peer, address) = listener.accept().await.unwrap();
            assert_eq!(writer.peer_addr(), Some(listener.local_addr()));
            assert_eq!((writer.local_addr(), peer.peer_addr()), (Some(address), Some(address)));
            assert!(peer.transport().unix_peer_addr().is_none());
            drop((reader, writer));
            settle().await;
        });
    });
}

#[test]
fn from_std_takes_over_a_connected_socket() {
    on_both("from std", |test_loop| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let made = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"early").unwrap();
        test_loop.run(async {
            let stream = TcpStream::from_std(made).unwrap();
            assert_eq!(stream.read_exactly(5).await.unwrap(), b"early");
            assert!(stream.nodelay().unwrap());
        });
    });
}

#[test]
fn write_after_eof_is_refused_even_when_the_connection_is_lost() {
    on_pairs("after the end", async |near, far| {
        near.shutdown();
        assert_eq!(far.read_to_end().await.unwrap(), b"");
        let refusal = async || near.write_all(b"more").await.unwrap_err().to_string();
        assert_eq!(refusal().await, "cannot write after write_eof()");
        near.transport().abort();
        near.split().1.wait_closed().await.unwrap();
        assert_eq!(refusal().await, "cannot write after write_eof()");
    });
}
