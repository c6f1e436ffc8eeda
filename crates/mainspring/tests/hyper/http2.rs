//! HTTP/2 over TLS, negotiated by ALPN: hyper's tasks run on the loop.

use crate::certificates::{client_config, server_config};
use crate::service::{Service, check, request};
use crate::support::TestLoop;
use hyper::client::conn::http2 as client;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use mainspring::hyper::{HyperExecutor, HyperIo, HyperTimer};
use mainspring::net::TcpListener;
use mainspring::net::tls::{TlsAcceptor, TlsConnector};
use mainspring::spawn;
use test_support::{TestBackend, isolated};

const REQUESTS: usize = 100;

#[test]
fn many_requests_share_one_connection() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "HTTP/2");
        let service = Service::default();
        let counted = service.clone();
        test_loop.run(async move {
            let (mut acceptor, mut connector) = (server_config(), client_config());
            acceptor.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            connector.alpn_protocols = vec![b"h2".to_vec()];
            let (acceptor, connector) = (TlsAcceptor::new(acceptor), TlsConnector::new(connector));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr();
            let serving = spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                assert_eq!(stream.tls_info().alpn_protocol(), Some(&b"h2"[..]));
                let mut http = server::Builder::new(HyperExecutor);
                http.timer(HyperTimer::current());
                let service = service_fn(move |request| service.clone().answer(request));
                http.serve_connection(HyperIo::new(stream), service).await
            });
            let stream = connector.open_connection(address, "localhost").await.unwrap();
            let (sender, connection) = client::handshake(HyperExecutor, HyperIo::new(stream)).await.unwrap();
            let connection = spawn(connection);
            let asking = (0..REQUESTS).map(|number| {
                let mut sender = sender.clone();
                spawn(async move {
                    let (request, expected) = request(number);
                    check(sender.send_request(request).await.unwrap(), &expected).await;
                })
            });
            for task in asking.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            drop(sender);
            connection.await.unwrap().unwrap();
            serving.await.unwrap().unwrap();
        });
        assert_eq!(counted.requests.get(), REQUESTS);
        test_loop.assert_idle();
        test_loop.assert_reports(&[]);
    });
}
