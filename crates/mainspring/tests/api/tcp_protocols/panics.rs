//! Protocols and factories that panic.

use super::Echo;
use crate::support::{assert_leaves_nothing, collect_reports, new_loop, run_on};
use mainspring::net::TcpStream;
use mainspring::{EventLoop, Protocol, Transport};
use std::cell::Cell;
use std::io;

#[test]
fn a_panicking_protocol_loses_only_its_connection() {
    struct Fragile;
    impl Protocol for Fragile {
        fn data_received(&self, _: &Transport, data: &[u8]) {
            panic!("cannot take {}", data.len());
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let server = event_loop.create_server("127.0.0.1:0", 10, || Fragile).await.unwrap();
        for _ in 0..2 {
            let stream = TcpStream::connect(server.local_addr()).await.unwrap();
            stream.write_all(b"abc").await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        }
        server.close();
        server.wait_closed().await;
    });
    assert_leaves_nothing(&event_loop);
    let report = "Fatal error: protocol.data_received() call failed.: panic: cannot take 3";
    reports.assert(vec![report.to_owned(); 2]);
}

#[test]
fn panics_in_connection_lost_and_drop_are_both_reported() {
    struct Fragile;
    impl Protocol for Fragile {
        fn connection_made(&self, transport: &Transport) {
            transport.close();
        }

        fn connection_lost(&self, _: &Transport, _: Option<io::Error>) {
            panic!("test panic in connection_lost");
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("test panic in drop");
        }
    }
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let server = event_loop.create_server("127.0.0.1:0", 10, || Fragile).await.unwrap();
        let stream = TcpStream::connect(server.local_addr()).await.unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        server.close();
        server.wait_closed().await;
    });
    assert_eq!(reports.entries().join("\n").matches("test panic in").count(), 2);
}

#[test]
fn a_panicking_factory_refuses_only_its_connection() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let event_loop = EventLoop::current();
        let tries = Cell::new(0);
        let factory = move || {
            tries.set(tries.get() + 1);
            assert!(tries.get() > 1, "not yet");
            Echo
        };
        let server = event_loop.create_server("127.0.0.1:0", 10, factory).await.unwrap();
        let first = TcpStream::connect(server.local_addr()).await.unwrap();
        assert_eq!(first.read(&mut [0]).await.unwrap(), 0);
        let second = TcpStream::connect(server.local_addr()).await.unwrap();
        second.write_all(b"x").await.unwrap();
        second.read_exact(&mut [0]).await.unwrap();
    });
    reports.assert(["The protocol factory of a server panicked: panic: not yet".to_owned()]);
}
