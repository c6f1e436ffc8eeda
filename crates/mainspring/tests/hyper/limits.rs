//! hyper's timeouts, in virtual time.

use crate::http1::serve;
use crate::service::Service;
use crate::support::TestLoop;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mainspring::hyper::{HyperIo, HyperTimer};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::spawn;
use std::time::Duration;
use test_support::{TestBackend, isolated};

#[test]
fn a_client_with_slow_headers_is_disconnected() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "slow headers");
        let limit = Duration::from_secs(10);
        let begun = test_loop.event_loop.time();
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut http = http1::Builder::new();
            http.timer(HyperTimer::current()).header_read_timeout(limit);
            let service = service_fn(|request| Service::default().answer(request));
            let serving = spawn(http.serve_connection(HyperIo::new(stream), service));
            client.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
            assert!(serving.await.unwrap().unwrap_err().is_timeout());
        });
        assert!(test_loop.event_loop.time().saturating_duration_since(begun) >= limit);
        test_loop.assert_idle();
    });
}

#[test]
fn a_finished_connection_leaves_no_timer() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "no timer");
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let serving = spawn(serve(stream, Service::default()));
            client.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
            let answer = client.read_to_end().await.unwrap();
            assert!(answer.ends_with(b"/slow"), "{}", String::from_utf8_lossy(&answer));
            serving.await.unwrap().unwrap();
        });
        test_loop.assert_idle();
    });
}
