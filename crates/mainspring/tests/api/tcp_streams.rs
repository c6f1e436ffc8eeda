//! `TcpStream` and `TcpListener`.

use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{sleep, spawn, timeout};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::time::Duration;

/// Both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (server, peer) = listener.accept().await.unwrap();
    assert_eq!(Some(peer), client.local_addr());
    assert_eq!(server.peer_addr(), client.local_addr());
    (client, server)
}

#[test]
fn each_end_reads_what_the_other_writes() {
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        client.write_all(b"ping").await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(server.read(&mut buffer).await.unwrap(), 4);
        assert_eq!(&buffer[..4], b"ping");
        server.write_all(b"pong").await.unwrap();
        client.read_exact(&mut buffer[..2]).await.unwrap();
        client.read_exact(&mut buffer[2..4]).await.unwrap();
        assert_eq!(&buffer[..4], b"pong");
        assert_eq!(client.read(&mut []).await.unwrap(), 0);
    });
}

#[test]
fn shutdown_closes_only_the_write_side() {
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        client.write_all(b"question").await.unwrap();
        client.shutdown();
        assert_eq!(client.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(server.read_to_end().await.unwrap(), b"question");
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        server.write_all(b"answer").await.unwrap();
        drop(server);
        assert_eq!(client.read_to_end().await.unwrap(), b"answer");
    });
}

#[test]
fn read_exact_fails_on_early_eof() {
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        client.write_all(b"ab").await.unwrap();
        client.close().await.unwrap();
        let error = server.read_exact(&mut [0; 3]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_writer_waits_for_a_slow_reader_and_loses_nothing() {
    const SIZE: usize = 20_000_000;
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        let is_written = Rc::new(Cell::new(false));
        let written = Rc::clone(&is_written);
        let writing = spawn(async move {
            let data: Vec<u8> = (0..SIZE).map(|number| (number % 251) as u8).collect();
            client.write_all(&data).await.unwrap();
            written.set(true);
            client.close().await.unwrap();
        });
        let mut first = [0];
        server.read_exact(&mut first).await.unwrap();
        // Enough iterations for a writer without back-pressure to finish.
        for _ in 0..200 {
            sleep(Duration::ZERO).await;
        }
        assert!(!is_written.get(), "more data than the buffers hold, and it was not read");
        assert!(!server.transport().is_reading(), "the reader's buffer is full");
        let rest = server.read_to_end().await.unwrap();
        let all = first.into_iter().chain(rest);
        assert!(all.enumerate().all(|(index, byte)| byte == (index % 251) as u8));
        writing.await.unwrap();
    });
}

#[test]
fn many_connections_are_served_concurrently() {
    on_every_backend(async |_| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr();
        let clients: Vec<_> = (0..50_u8)
            .map(|number| {
                spawn(async move {
                    let stream = TcpStream::connect(address).await.unwrap();
                    stream.write_all(&[number]).await.unwrap();
                    stream.shutdown();
                    assert_eq!(stream.read_to_end().await.unwrap(), [number, number]);
                })
            })
            .collect();
        for _ in 0..clients.len() {
            let (stream, _) = listener.accept().await.unwrap();
            spawn(async move {
                let received = stream.read_to_end().await.unwrap();
                stream.write_all(&[received[0], received[0]]).await.unwrap();
            });
        }
        for client in clients {
            client.await.unwrap();
        }
    });
}

#[test]
fn a_listener_accepts_only_a_few_connections_ahead() {
    on_every_backend(async |event_loop| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr();
        let clients: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        for _ in 0..10 {
            sleep(Duration::ZERO).await;
        }
        assert_eq!(event_loop.metrics().descriptors, 0, "not registered while its queue is full");
        for mut client in clients {
            let (stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"x").await.unwrap();
            drop(stream);
            let _ = client.write(b"y");
        }
    });
}

#[test]
fn a_connection_reset_is_an_error_for_reader_and_writer() {
    on_every_backend(async |_| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let resetting = std::net::TcpStream::connect(listener.local_addr()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        socket2::SockRef::from(&resetting).set_linger(Some(Duration::ZERO)).unwrap();
        drop(resetting);
        for _ in 0..2 {
            assert_eq!(stream.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
        assert_eq!(stream.write_all(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(stream.drain().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(stream.close().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_cancelled_read_loses_no_data() {
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        for _ in 0..3 {
            timeout(Duration::ZERO, server.read(&mut [0; 4])).await.unwrap_err();
        }
        client.write_all(b"all of it").await.unwrap();
        drop(client);
        assert_eq!(server.read_to_end().await.unwrap(), b"all of it");
    });
}

#[test]
fn one_task_may_read_while_another_writes() {
    on_every_backend(async |_| {
        let (client, server) = pair().await;
        let client = Rc::new(client);
        let reading = spawn({
            let client = Rc::clone(&client);
            async move { client.read_to_end().await.unwrap() }
        });
        sleep(Duration::ZERO).await;
        client.write_all(b"ping").await.unwrap();
        server.read_exact(&mut [0; 4]).await.unwrap();
        server.write_all(b"pong").await.unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), b"pong");
    });
}

#[test]
fn dropping_a_stream_sends_queued_data() {
    on_every_backend(async |event_loop| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        stream.transport().write(&vec![7; 8_000_000]);
        assert!(stream.transport().get_write_buffer_size() > 0);
        drop(stream);
        let reading = event_loop.run_in_executor(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).map(|_| all)
        });
        assert_eq!(reading.unwrap().await.unwrap().unwrap().len(), 8_000_000);
    });
}

#[test]
fn connecting_without_a_loop_is_an_error() {
    let event_loop = new_loop();
    let mut connecting = Box::pin(TcpStream::connect("127.0.0.1:1"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(connecting.as_mut().poll(&mut cx), std::task::Poll::Ready(Err(_))));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn dropping_a_listener_with_a_pending_connection_leaves_nothing() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let listener = TcpListener::bind("[::1]:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr()).await.unwrap();
        sleep(Duration::ZERO).await;
        drop(listener);
        assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
    });
    assert_leaves_nothing(&event_loop);
}
