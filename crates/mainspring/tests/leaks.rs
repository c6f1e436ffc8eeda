//! Nothing stays open: the process has as many descriptors after a loop as before it.
//!
//! Descriptors are the whole process's, so these tests have a program of their own and take turns in it.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring::fs::File;
use mainspring::net::{DatagramOptions, DatagramProtocol, TcpListener, TcpStream, UdpSocket, UnixDatagram};
use mainspring::{EventLoop, Protocol, Transport, sleep, spawn};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use test_support::open_descriptors;

static TURN: Mutex<()> = Mutex::new(());

/// Runs `test` and compares what is open before and after.
fn leaves_nothing_open(test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = open_descriptors();
    test();
    assert_eq!(open_descriptors(), before);
}

struct Echo;

impl Protocol for Echo {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }
}

#[test]
fn a_loop_that_never_ran() {
    leaves_nothing_open(|| drop(EventLoop::new().unwrap()));
}

#[test]
fn a_loop_with_a_signal_handler_and_a_used_executor() {
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
fn connections_that_were_closed_in_order() {
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
fn connections_and_listeners_that_live_when_the_loop_is_closed() {
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
                // Accepted by the loop, and never asked for.
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
fn attempts_to_connect_that_failed_or_were_given_up() {
    leaves_nothing_open(|| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        mainspring::run(async {
            for _ in 0..5 {
                TcpStream::connect(free).await.unwrap_err();
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr();
            // Given up after each number of steps that connecting may take.
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
fn datagram_sockets_that_were_used_given_up_or_left_to_the_loop() {
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
                // Dropped while somebody has waited for it.
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
                // Still open when the loop ends.
                drop(event_loop.create_datagram_endpoint(options(), || Quiet).await.unwrap());
                drop(spawn(async move { one.recv(&mut [0]).await }));
            }
        })
        .unwrap();
    });
}

#[test]
fn files_that_were_used_and_given_up() {
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
        // What was begun goes on, and ends before the executor does.
        event_loop.shutdown_executor();
        drop(event_loop);
    });
}
