//! `StreamWriter`: sending, dropping, closing and half-closing.

use crate::{on_both, on_pairs, settle};
use mainspring::net::{TcpListener, TcpStream, UnixStream, open_connection};
use mainspring::{EventLoop, spawn};
use std::io::{self, Write};
use std::rc::Rc;
use test_support::guarded;
use test_support::pattern;

#[test]
fn several_pieces_leave_as_one() {
    on_pairs("writelines", async |near, far| {
        near.split().1.writelines(&[b"one ", b"", b"two ", b"three"]);
        near.shutdown();
        assert_eq!(far.read_to_end().await.unwrap(), b"one two three");
    });
}

#[test]
fn a_dropped_writer_ends_its_side_and_the_reader_reads_on() {
    on_pairs("a dropped writer", async |near, far| {
        let (reader, writer) = near.into_split();
        writer.write(pattern(600_000));
        drop(writer);
        let question = far.read_to_end().await.unwrap();
        assert!(question == pattern(600_000), "what was queued goes out first");
        far.write_all(b"answer").await.unwrap();
        assert_eq!(reader.read_exactly(6).await.unwrap(), b"answer");
    });
}

#[test]
fn a_dropped_reader_leaves_the_writer_and_the_last_closes() {
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
        assert!(far.write_all(b"x").await.is_err(), "nobody is there any more");
    });
}

#[test]
fn closing_is_seen_by_all_who_wait_for_it() {
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
        assert_eq!(reader.read_some(1).await.unwrap(), b"", "this side reads no more");
        assert_eq!(writer.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert!(far.read_to_end().await.unwrap() == pattern(600_000));
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        writer.wait_closed().await.unwrap();
    });
}

#[test]
fn drain_waits_for_the_peer_and_no_longer() {
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
fn ends_that_are_written_twice_are_one() {
    on_pairs("two ends", async |near, far| {
        assert!(near.transport().can_write_eof());
        near.shutdown();
        near.shutdown();
        assert_eq!(near.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(far.read_to_end().await.unwrap(), b"");
    });
}

#[test]
fn waiting_on_one_loop_for_a_connection_of_another_that_is_closed_ends() {
    guarded(|| {
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
fn the_sides_of_a_tcp_connection_know_their_addresses() {
    on_both("addresses", |stage| {
        stage.run(async {
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
fn a_stream_of_std_is_taken_over_as_it_is() {
    on_both("from std", |stage| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let made = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"early").unwrap();
        stage.run(async {
            let stream = TcpStream::from_std(made).unwrap();
            assert_eq!(stream.read_exactly(5).await.unwrap(), b"early");
            assert!(stream.nodelay().unwrap());
        });
    });
}

#[test]
fn a_write_after_the_end_of_writing_is_refused_also_when_the_connection_is_gone() {
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
