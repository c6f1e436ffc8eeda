//! `create_connection` and `create_server`: addresses, refusal, cancellation.

use super::{Echo, Recorder};
use crate::support::{new_loop, on_every_backend, run_on};
use mainspring::net::TcpStream;
use mainspring::sleep;
use std::io;
use std::time::Duration;

#[test]
fn a_closed_server_refuses_connections_and_keeps_existing_ones() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        stream.write_all(b"1").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        assert!(server.is_serving());
        server.close();
        assert!(!server.is_serving());
        assert!(server.serve_forever().await.is_err(), "the server is closed");
        let refused = event_loop.create_connection(server.local_addr(), || Echo).await;
        assert_eq!(refused.map(drop).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        stream.write_all(b"2").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        let closed = mainspring::timeout(Duration::ZERO, server.wait_closed()).await;
        assert!(closed.is_err(), "a connection is open");
        stream.close().await.unwrap();
        server.wait_closed().await;
    });
}

#[test]
fn a_refused_connections_error_names_the_address() {
    on_every_backend(async |event_loop| {
        let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = event_loop.create_connection(unused_address, || Echo).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(&unused_address.to_string()), "{error}");
    });
}

#[test]
fn addresses_are_tried_in_order_until_one_accepts() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let addresses = vec![unused_address, server.local_addr()];
        let (transport, protocol) = event_loop.create_connection(addresses, Recorder::new).await.unwrap();
        assert_eq!(transport.peer_addr(), Some(server.local_addr()));
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn create_connection_resolves_a_host_name() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server(("localhost", 0), 10, || Echo).await.unwrap();
        let port = server.local_addr().port();
        let (transport, protocol) =
            event_loop.create_connection(format!("localhost:{port}"), Recorder::new).await.unwrap();
        transport.close();
        protocol.lost().await;
        server.close();
        server.wait_closed().await;
    });
}

#[test]
fn an_address_without_a_port_is_an_error() {
    let event_loop = new_loop();
    for invalid in ["localhost", ":80", "localhost:http", ""] {
        let error =
            run_on(&event_loop, event_loop.create_connection(invalid, || Echo)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{invalid:?}");
    }
}

#[test]
fn a_cancelled_connect_leaves_no_registered_fd() {
    on_every_backend(async |event_loop| {
        // A full accept queue makes further connections wait.
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut fillers = Vec::new();
        while event_loop.metrics().descriptors == 0 {
            let inner = event_loop.clone();
            fillers.push(mainspring::spawn(async move {
                inner.create_connection(address, || Echo).await.map(|(transport, _)| transport)
            }));
            sleep(Duration::from_millis(1)).await;
            fillers.retain(|task| !task.is_finished());
        }
        for task in fillers {
            task.cancel();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        assert_eq!(event_loop.metrics().timers, 1, "the test's own timeout");
    });
}

#[test]
fn a_connect_cancelled_at_any_step_closes_its_socket() {
    on_every_backend(async |event_loop| {
        let server = event_loop.create_server("127.0.0.1:0", 10, || Echo).await.unwrap();
        let address = server.local_addr();
        for steps in 0..8 {
            let inner = event_loop.clone();
            let task = mainspring::spawn(async move {
                let connected = inner.create_connection(address, || Echo).await;
                connected.map(|(transport, _)| transport.close())
            });
            for _ in 0..steps {
                sleep(Duration::ZERO).await;
            }
            task.cancel();
            drop(task.await);
        }
        server.close();
        let closed = mainspring::timeout(Duration::from_secs(10), server.wait_closed()).await;
        assert!(closed.is_ok(), "{server:?}");
    });
}
