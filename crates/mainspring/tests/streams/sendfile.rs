//! `sendfile`.

use crate::{on_both, settle};
use mainspring::net::{TcpListener, TcpStream, UnixStream};
use mainspring::{EventLoop, Protocol, spawn, timeout};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use test_support::pattern;

/// An unnamed file that contains `pattern(size)`.
fn file_of(size: usize) -> File {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mainspring-file-{}-{number}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(pattern(size)).unwrap();
    file
}

async fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

#[test]
fn sendfile_sends_all_or_the_requested_part() {
    on_both("parts of a file", |test_loop| {
        test_loop.run(async {
            let (near, far) = tcp_pair().await;
            let far = Rc::new(far);
            let mut file = file_of(3_000_000);
            for (offset, count, expected) in [
                (0, None, 0..3_000_000),
                (5, Some(1000), 5..1005),
                (2_999_990, Some(1000), 2_999_990..3_000_000),
                (3_000_000, None, 0..0),
                (9_000_000, Some(5), 0..0),
                (7, Some(0), 0..0),
            ] {
                let reading = spawn({
                    let (far, length) = (Rc::clone(&far), expected.len());
                    async move { far.read_exactly(length).await.unwrap() }
                });
                let sent = near.sendfile(&file, offset, count).await.unwrap();
                assert_eq!(sent, expected.len() as u64);
                assert!(reading.await.unwrap() == pattern(3_000_000)[expected]);
                assert_eq!(file.stream_position().unwrap(), offset + sent);
            }
            near.write_all(b"after").await.unwrap();
            assert_eq!(far.read_exactly(5).await.unwrap(), b"after");
        });
    });
}

#[test]
fn queued_data_precedes_the_file_and_nothing_interleaves() {
    on_both("a queue and a file", |test_loop| {
        test_loop.run(async {
            let (near, far) = tcp_pair().await;
            let near = Rc::new(near);
            near.transport().write(pattern(8_000_000));
            let sending = spawn({
                let near = Rc::clone(&near);
                async move { near.sendfile(&file_of(1_000_000), 0, None).await }
            });
            settle().await;
            assert!(!sending.is_finished());
            let behind = spawn({
                let near = Rc::clone(&near);
                async move { near.write_all(b"behind").await }
            });
            let refused = near.transport().sendfile(&file_of(10), 0, None).await.unwrap_err();
            assert!(refused.to_string().contains("file"), "{refused}");
            assert!(far.read_exactly(8_000_000).await.unwrap() == pattern(8_000_000));
            assert!(far.read_exactly(1_000_000).await.unwrap() == pattern(1_000_000));
            assert_eq!(sending.await.unwrap().unwrap(), 1_000_000);
            behind.await.unwrap().unwrap();
            assert_eq!(far.read_exactly(6).await.unwrap(), b"behind");
            near.write_all(b"after").await.unwrap();
            assert_eq!(far.read_exactly(5).await.unwrap(), b"after");
        });
    });
}

#[test]
fn writing_is_refused_while_the_transport_sends_a_file() {
    on_both("a transport's file and a message", |test_loop| {
        test_loop.run(async {
            let (near, far) = tcp_pair().await;
            near.transport().write(pattern(8_000_000));
            let transport = near.transport().clone();
            let sending = spawn(async move { transport.sendfile(&file_of(10), 0, None).await });
            settle().await;
            let refused = near.write_all(b"between").await.unwrap_err();
            assert!(refused.to_string().contains("file"), "{refused}");
            assert!(far.read_exactly(8_000_000).await.unwrap() == pattern(8_000_000));
            assert_eq!(sending.await.unwrap().unwrap(), 10);
        });
    });
}

#[test]
fn a_device_that_sendfile_rejects_is_read_in_chunks() {
    on_both("a device", |test_loop| {
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            let zeros = File::open("/dev/zero").unwrap();
            let reading = spawn(async move { far.read_exactly(200_000).await.unwrap() });
            assert_eq!(near.sendfile(&zeros, 0, Some(200_000)).await.unwrap(), 200_000);
            assert!(reading.await.unwrap().iter().all(|&byte| byte == 0));
            let directory = File::open("/").unwrap();
            assert!(near.sendfile(&directory, 0, None).await.is_err());
            let write_only = File::options().write(true).open("/dev/null").unwrap();
            assert!(near.sendfile(&write_only, 0, None).await.is_err());
        });
        test_loop.event_loop.shutdown_executor();
    });
}

#[test]
fn a_cancelled_sendfile_leaves_a_working_connection() {
    on_both("a cancelled sendfile", |test_loop| {
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            let file = file_of(5_000_000);
            timeout(Duration::from_secs(1), near.sendfile(&file, 0, None)).await.unwrap_err();
            near.split().1.write(b"after");
            near.shutdown();
            let received = far.read_to_end().await.unwrap();
            let sent = received.len() - 5;
            assert!(sent > 0 && sent < 5_000_000 && received[..sent] == pattern(5_000_000)[..sent]);
            assert_eq!(&received[sent..], b"after");
        });
    });
}

#[test]
fn losing_the_connection_during_sendfile_is_an_error() {
    on_both("lost during sendfile", |test_loop| {
        test_loop.run(async {
            for is_queued in [false, true] {
                let (near, far) = UnixStream::pair().unwrap();
                let near = Rc::new(near);
                if is_queued {
                    near.transport().write(pattern(5_000_000));
                }
                let sending = spawn({
                    let near = Rc::clone(&near);
                    async move { near.sendfile(&file_of(5_000_000), 0, None).await }
                });
                settle().await;
                drop(far);
                let error = sending.await.unwrap().unwrap_err();
                assert!(
                    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
                    "{error}"
                );
                assert!(near.sendfile(&file_of(1), 0, None).await.is_err());
            }
            // Closed locally.
            let (near, _far) = UnixStream::pair().unwrap();
            let near = Rc::new(near);
            let sending = spawn({
                let near = Rc::clone(&near);
                async move { near.sendfile(&file_of(5_000_000), 0, None).await }
            });
            settle().await;
            near.transport().abort();
            assert_eq!(sending.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn a_protocol_can_send_a_file_through_its_transport() {
    struct Silent;
    impl Protocol for Silent {}
    on_both("a transport's file", |test_loop| {
        test_loop.run(async {
            let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
            let (transport, _) = EventLoop::current().connect_accepted_socket(near, || Silent).await.unwrap();
            let far = UnixStream::from_std(far).unwrap();
            let reading = spawn(async move { far.read_exactly(1_000_000).await.unwrap() });
            assert_eq!(transport.sendfile(&file_of(1_000_000), 0, None).await.unwrap(), 1_000_000);
            assert!(reading.await.unwrap() == pattern(1_000_000));
            transport.close();
        });
    });
}
