//! No fd leaks: the process has as many open fds after a loop as before it.
//!
//! Fds belong to the whole process, so these tests are a separate program and run one at a time.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::fs::File;
use mainspring::net::{DatagramOptions, DatagramProtocol, TcpListener, TcpStream, UdpSocket, UnixDatagram};
use mainspring::{EventLoop, Protocol, Transport, sleep, spawn};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use test_support::open_fds;

static SERIAL: Mutex<()> = Mutex::new(());

/// Runs `test` and compares the open fds before and after.
fn leaves_nothing_open(test: impl FnOnce()) {
    let _turn = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open_fds();
    test();
    assert_eq!(open_fds(), before);
}

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

#[test]
fn a_loop_that_never_ran_leaks_no_fd() {
    leaves_nothing_open(|| drop(EventLoop::new().unwrap()));
}

#[test]
fn a_signal_handler_and_an_executor_leak_no_fd() {
    leaves_nothing_open(|| {
        mainspring::run(async {
            let event_loop = EventLoop::current();
            event_loop.add_signal_handler(libc::SIGUSR2, || {}).unwrap();
            event_loop.run_in_executor(|| ()).unwrap().await.unwrap();
        })
        .unwrap();
    });
}

#[test]
fn closed_connections_leak_no_fd() {
    leaves_nothing_open(|| {
        mainspring::run(async {
            let server = EventLoop::current().create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
            for _ in 0..10 {
                let stream = TcpStream::connect(server.local_addr()).await.unwrap();
                stream.write_all(b"x").await.unwrap();
                stream.read_exact(&mut [0]).await.unwrap();
                stream.close().await.unwrap();
            }
            server.close();
            server.wait_closed().await;
        })
        .unwrap();
    });
}

#[test]
fn connections_open_at_loop_close_leak_no_fd() {
    leaves_nothing_open(|| {
        mainspring::run(async {
            let event_loop = EventLoop::current();
            let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
            let address = server.local_addr();
            let (half_closed, _) = event_loop.create_connection(address, || Echo).await.unwrap();
            half_closed.write_eof();
            let (paused, _) = event_loop.create_connection(address, || Echo).await.unwrap();
            paused.pause_reading();
            spawn(async move {
                let _server = server;
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
                // The second connection is accepted by the loop, but no task calls `accept()` for it.
                listener.accept().await.unwrap();
                let _late = TcpStream::connect(listener.local_addr()).await.unwrap();
                stream.read(&mut [0]).await.unwrap();
                std::future::pending::<()>().await;
            });
            sleep(Duration::from_millis(5)).await;
        })
        .unwrap();
    });
}

#[test]
fn failed_and_cancelled_connects_leak_no_fd() {
    leaves_nothing_open(|| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        mainspring::run(async {
            for _ in 0..5 {
                TcpStream::connect(free).await.unwrap_err();
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr();
            // Cancelled after each number of iterations that connecting may take.
            for steps in 0..6 {
                let task = spawn(TcpStream::connect(address));
                for _ in 0..steps {
                    sleep(Duration::ZERO).await;
                }
                task.cancel();
                drop(task.await);
            }
        })
        .unwrap();
    });
}

#[test]
fn datagram_sockets_leak_no_fd() {
    struct Quiet;
    impl DatagramProtocol for Quiet {}
    leaves_nothing_open(|| {
        mainspring::run(async {
            let event_loop = EventLoop::current();
            for polls in 0..4 {
                let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                let here = socket.local_addr().unwrap();
                socket.send_to(b"x", here).await.unwrap();
                socket.recv(&mut [0]).await.unwrap();
                // Dropped after a task waited for it.
                let waiting = spawn(async move { socket.recv(&mut [0]).await });
                for _ in 0..polls {
                    sleep(Duration::ZERO).await;
                }
                waiting.cancel();
                drop(waiting.await);
                UdpSocket::bind(here).await.unwrap().into_std().unwrap();
                UdpSocket::bind("192.0.2.1:1").await.unwrap_err();
                let (one, other) = UnixDatagram::pair().unwrap();
                one.send(b"x").await.unwrap();
                other.recv(&mut [0]).await.unwrap();
                let options = || DatagramOptions::new().local_addr("127.0.0.1:0");
                let (closed, _) = event_loop.create_datagram_endpoint(options(), || Quiet).await.unwrap();
                closed.close();
                // Still open when the loop closes.
                drop(event_loop.create_datagram_endpoint(options(), || Quiet).await.unwrap());
                drop(spawn(async move { one.recv(&mut [0]).await }));
            }
        })
        .unwrap();
    });
}

#[test]
fn files_leak_no_fd() {
    leaves_nothing_open(|| {
        let event_loop = EventLoop::new().unwrap();
        event_loop
            .run_until_complete(async {
                for steps in 0..6 {
                    let reading = spawn(async {
                        let mut file = File::open("Cargo.toml").await?;
                        file.read(&mut [0; 10]).await?;
                        let mut entries = mainspring::fs::read_dir("src").await?;
                        entries.next_entry().await.map(drop)
                    });
                    for _ in 0..steps {
                        sleep(Duration::ZERO).await;
                    }
                    reading.cancel();
                    drop(reading.await);
                }
            })
            .unwrap();
        // Operations that have started run to completion before the executor shuts down.
        event_loop.shutdown_executor();
        drop(event_loop);
    });
}
