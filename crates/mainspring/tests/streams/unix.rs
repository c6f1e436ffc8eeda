//! Unix connections: paths, abstract names and socket files.

use crate::on_both;
use mainspring::net::{ServerOptions, UnixListener, UnixStream, open_unix_connection, start_unix_server};
use mainspring::{ConcurrentFuture, EventLoop, Protocol, Transport, sleep, spawn};
use std::fs::{self, File};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A temporary directory, removed when this is dropped.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mainspring-unix-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn abstract_name() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("\0mainspring-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

#[test]
fn streams_and_protocols_connect_by_path_and_by_abstract_name() {
    on_both("both styles", |test_loop| {
        let place = TempDir::new();
        test_loop.run(async {
            for path in [place.socket(), PathBuf::from(abstract_name())] {
                let event_loop = EventLoop::current();
                let server = event_loop.create_unix_server(&path, || Echo).unwrap();
                assert!(server.is_serving() && server.local_addrs().is_empty());
                let stream = UnixStream::connect(&path).await.unwrap();
                stream.write_all(b"hello").await.unwrap();
                assert_eq!(stream.read_exactly(5).await.unwrap(), b"hello");
                assert!(stream.local_addr().unwrap().is_unnamed());
                let peer = stream.peer_addr().unwrap();
                assert_eq!(format!("{peer:?}"), format!("{:?}", server.unix_addr().unwrap()));
                assert_eq!(stream.transport().peer_addr(), None);
                let (transport, _) = event_loop.create_unix_connection(&path, || Echo).await.unwrap();
                transport.close();
                drop(stream);
                server.close();
                server.wait_closed().await;
                let refused = UnixStream::connect(&path).await.unwrap_err();
                assert!(matches!(refused.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused));
            }
        });
        assert!(!place.socket().exists(), "the socket file is removed with its server");
    });
}

#[test]
fn a_stale_socket_file_is_replaced() {
    on_both("a stale file", |test_loop| {
        let place = TempDir::new();
        drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
        assert!(place.socket().exists());
        test_loop.run(async {
            let listener = UnixListener::bind(place.socket()).unwrap();
            let _near = UnixStream::connect(place.socket()).await.unwrap();
            listener.accept().await.unwrap();
        });
    });
}

#[test]
fn a_file_that_is_not_a_socket_is_not_replaced() {
    on_both("another file", |test_loop| {
        let place = TempDir::new();
        fs::write(place.socket(), b"precious").unwrap();
        test_loop.run(async {
            let error = UnixListener::bind(place.socket()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(error.to_string().contains("socket"), "{error}");
        });
        assert_eq!(fs::read(place.socket()).unwrap(), b"precious");
    });
}

#[test]
fn a_server_removes_only_its_own_socket_file() {
    on_both("a replaced socket file", |test_loop| {
        let place = TempDir::new();
        test_loop.run(async {
            let first = start_unix_server(place.socket(), |_, _| async {}).unwrap();
            // Takes the path over, as asyncio allows.
            let second = start_unix_server(place.socket(), |_, _| async {}).unwrap();
            first.close();
            assert!(place.socket().exists());
            drop(open_unix_connection(place.socket()).await.unwrap());
            second.close();
            assert!(!place.socket().exists());
            second.close();

            let kept = ServerOptions::new().cleanup_socket(false);
            drop(kept.bind_unix(place.socket()).unwrap());
            assert!(place.socket().exists());
            fs::remove_file(place.socket()).unwrap();
            // Removed already: nothing to report.
            let third = UnixListener::bind(place.socket()).unwrap();
            fs::remove_file(place.socket()).unwrap();
            drop(third);
        });
    });
}

#[test]
fn an_invalid_path_is_an_error() {
    on_both("bad paths", |test_loop| {
        test_loop.run(async {
            let long = "x".repeat(200);
            for path in ["", &long] {
                let refused = UnixListener::bind(path).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
                let refused = UnixStream::connect(path).await.unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{refused}");
            }
            let place = TempDir::new();
            assert_eq!(
                UnixStream::connect(place.socket()).await.unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
            File::create(place.socket()).unwrap();
            assert_eq!(
                UnixStream::connect(place.socket()).await.unwrap_err().kind(),
                io::ErrorKind::ConnectionRefused
            );
        });
    });
}

#[test]
fn connecting_to_a_full_queue_waits() {
    on_both("a full queue", |test_loop| {
        test_loop.run(async {
            let name = abstract_name();
            let bound = std::os::unix::net::UnixListener::bind_addr(
                &std::os::unix::net::SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap(),
            )
            .unwrap();
            rustix::net::listen(&bound, 1).unwrap();
            let connecting: Vec<_> = (0..6)
                .map(|_| {
                    let name = name.clone();
                    spawn(async move { UnixStream::connect(name).await.unwrap() })
                })
                .collect();
            sleep(Duration::from_millis(20)).await;
            assert!(
                connecting.iter().any(|task| !task.is_finished()),
                "the queue holds only a few connections"
            );
            let taken: Vec<_> = (0..6)
                .map(|_| {
                    let bound = bound.try_clone().unwrap();
                    // Not in the executor: the back-off of the clients uses virtual time, which would wait for it.
                    let (promise, accepted) = ConcurrentFuture::<_>::pair();
                    std::thread::spawn(move || promise.set_result(bound.accept().map(drop)));
                    accepted
                })
                .collect();
            for task in connecting {
                task.await.unwrap();
            }
            for accepted in taken {
                accepted.await.unwrap().unwrap();
            }
        });
    });
}

#[test]
fn a_std_listener_keeps_its_socket_file() {
    on_both("from std", |test_loop| {
        let place = TempDir::new();
        test_loop.run(async {
            let bound = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
            let listener = UnixListener::from_std(bound).unwrap();
            assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(place.socket().as_path()));
            let (reader, writer) = open_unix_connection(place.socket()).await.unwrap();
            let accepted = listener.accept().await.unwrap();
            writer.write(b"x");
            assert_eq!(accepted.read_exactly(1).await.unwrap(), b"x");
            drop((reader, writer));
        });
        assert!(place.socket().exists());
    });
}

#[test]
fn peer_cred_returns_process_and_user() {
    on_both("the peer of a Unix connection", |test_loop| {
        test_loop.run(async {
            let name = format!("\0mainspring-peer-{}-{:?}", std::process::id(), std::thread::current().id());
            let listener = UnixListener::bind(&name).unwrap();
            let client = UnixStream::connect(&name).await.unwrap();
            let server = listener.accept().await.unwrap();
            for end in [&client, &server] {
                let peer = end.peer_cred().unwrap();
                assert_eq!(peer.pid(), Some(std::process::id()));
                assert_eq!(peer.uid(), rustix::process::getuid().as_raw());
                assert_eq!(peer.gid(), rustix::process::getgid().as_raw());
            }
            client.transport().abort();
            crate::settle().await;
            assert!(client.peer_cred().is_err(), "the connection is gone");
        });
    });
}
