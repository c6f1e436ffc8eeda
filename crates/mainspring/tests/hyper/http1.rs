//! HTTP/1: many keep-alive connections.

use crate::certificates::{acceptor, connector};
use crate::service::{Service, check, request};
use crate::support::TestLoop;
use futures_io::{AsyncBufRead, AsyncWrite};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use mainspring::hyper::{HyperIo, HyperTimer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::{Task, spawn};
use std::io;
use test_support::{TestBackend, isolated};

const CONNECTIONS: usize = 50;
const REQUESTS: usize = 40;

/// Serves one connection.
pub async fn serve(
    stream: impl AsyncBufRead + AsyncWrite + Unpin + 'static,
    service: Service,
) -> hyper::Result<()> {
    let mut http = server::Builder::new();
    http.timer(HyperTimer::current());
    http.serve_connection(HyperIo::new(stream), service_fn(move |request| service.clone().answer(request)))
        .await
}

/// Sends many requests over one connection, one after another.
async fn ask(stream: impl AsyncBufRead + AsyncWrite + Unpin + 'static, from: usize) {
    let (mut sender, connection) = client::handshake(HyperIo::new(stream)).await.unwrap();
    let connection = spawn(connection);
    for number in from..from + REQUESTS {
        let (request, expected) = request(number);
        sender.ready().await.unwrap();
        check(sender.send_request(request).await.unwrap(), &expected).await;
    }
    drop(sender);
    connection.await.unwrap().unwrap();
}

async fn join<T>(tasks: Vec<Task<T>>) {
    for task in tasks {
        drop(task.await.unwrap());
    }
}

#[test]
fn many_connections_are_served_at_once_and_kept_alive() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("http on {on:?}"));
            let service = Service::default();
            let counted = service.clone();
            test_loop.run(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr();
                let clients =
                    (0..CONNECTIONS).map(|number| {
                        spawn(async move {
                            ask(TcpStream::connect(address).await.unwrap(), number * REQUESTS).await
                        })
                    });
                let clients: Vec<_> = clients.collect();
                let mut serving = Vec::new();
                for _ in 0..CONNECTIONS {
                    let (stream, _) = listener.accept().await.unwrap();
                    let service = service.clone();
                    serving.push(spawn(async move { serve(stream, service).await.unwrap() }));
                }
                join(clients).await;
                join(serving).await;
            });
            assert_eq!(counted.requests.get(), CONNECTIONS * REQUESTS);
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn many_tls_connections_are_served_at_once_and_kept_alive() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("https on {on:?}"));
            let service = Service::default();
            let counted = service.clone();
            test_loop.run(async move {
                let (acceptor, connector) = (acceptor(), connector());
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr();
                let clients = (0..10).map(|number| {
                    let connector = connector.clone();
                    spawn(async move {
                        let stream = connector.open_connection(address, "localhost").await.unwrap();
                        ask(stream, number * REQUESTS).await;
                    })
                });
                let clients: Vec<_> = clients.collect();
                let mut serving = Vec::new();
                for _ in 0..10 {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (acceptor, service) = (acceptor.clone(), service.clone());
                    serving.push(spawn(async move {
                        serve(acceptor.accept(stream).await.unwrap(), service).await.unwrap();
                    }));
                }
                join(clients).await;
                join(serving).await;
            });
            assert_eq!(counted.requests.get(), 10 * REQUESTS);
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn a_client_that_disconnects_during_a_body_does_not_affect_others() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a client that disconnects");
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr()).await.unwrap();
            stream
                .write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nshort")
                .await
                .unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let serving = spawn(serve(accepted, Service::default()));
            stream.transport().abort();
            drop(stream);
            assert!(serving.await.unwrap().is_err());
            // The next one is served.
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (accepted, _) = listener.accept().await.unwrap();
            let serving = spawn(serve(accepted, Service::default()));
            ask(client, 0).await;
            serving.await.unwrap().unwrap();
        });
        test_loop.assert_idle();
        test_loop.assert_reports(&[]);
    });
}

#[test]
fn a_body_larger_than_every_buffer_arrives() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a large body");
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr();
            let serving = spawn(async move {
                let (stream, _) = listener.accept().await?;
                serve(stream, Service::default()).await.map_err(io::Error::other)
            });
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut sender, connection) = client::handshake(HyperIo::new(stream)).await.unwrap();
            let connection = spawn(connection);
            let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
            let expected = [b"/large".as_slice(), &body].concat();
            let request =
                hyper::Request::post("/large").body(http_body_util::Full::<hyper::body::Bytes>::from(body));
            check(sender.send_request(request.unwrap()).await.unwrap(), &expected).await;
            drop(sender);
            connection.await.unwrap().unwrap();
            serving.await.unwrap().unwrap();
        });
        test_loop.assert_idle();
    });
}
