//! UDP with protocols and transports.

use crate::cancel_points::cancel_at_every_poll;
use crate::support::{
    Log, assert_leaves_nothing, collect_reports, new_loop, on_every_backend, run_on, yield_times,
};
use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport, UdpSocket};
use mainspring::{EventLoop, Future};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

type Hook = Box<dyn Fn(&str, &DatagramTransport)>;

/// Logs its callbacks and calls `hook` after each.
struct Recorder {
    log: Log<String>,
    hook: Hook,
    lost: Future<()>,
}

impl Recorder {
    fn new(log: &Log<String>, hook: impl Fn(&str, &DatagramTransport) + 'static) -> Self {
        let lost = EventLoop::current().create_future();
        Recorder { log: log.clone(), hook: Box::new(hook), lost }
    }

    fn record(&self, transport: &DatagramTransport, event: &str) {
        self.log.add(event.to_owned());
        if event.starts_with("lost") {
            self.lost.set_result(()).unwrap();
        }
        (self.hook)(event, transport);
    }
}

impl DatagramProtocol for Recorder {
    fn connection_made(&self, transport: &DatagramTransport) {
        self.record(transport, "made");
    }

    fn datagram_received(&self, transport: &DatagramTransport, data: &[u8], _: SocketAddr) {
        self.record(transport, &format!("received {}", String::from_utf8_lossy(data)));
    }

    fn error_received(&self, transport: &DatagramTransport, error: io::Error) {
        self.record(transport, &format!("error {:?}", error.kind()));
    }

    fn connection_lost(&self, transport: &DatagramTransport, error: Option<io::Error>) {
        self.record(transport, &format!("lost {:?}", error.map(|error| error.kind())));
    }
}

fn local() -> DatagramOptions {
    DatagramOptions::new().local_addr("127.0.0.1:0")
}

async fn endpoint(
    log: &Log<String>,
    hook: impl Fn(&str, &DatagramTransport) + 'static,
) -> (DatagramTransport, Rc<Recorder>) {
    let event_loop = EventLoop::current();
    event_loop.create_datagram_endpoint(local(), || Recorder::new(log, hook)).await.unwrap()
}

async fn wait_for_entry(log: &Log<String>, event: &str) {
    while !log.entries().iter().any(|entry| entry == event) {
        yield_times(1).await;
    }
}

#[test]
fn a_protocols_callbacks_run_in_order() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, protocol) = endpoint(&log, |_, _| {}).await;
        log.assert(["made".to_owned()]);
        let address = transport.local_addr().unwrap();
        for data in ["one", "", "three"] {
            transport.send_to(data.as_bytes(), address);
        }
        wait_for_entry(&log, "received three").await;
        transport.close();
        transport.close();
        protocol.lost.clone().await.unwrap();
        log.assert(["made", "received one", "received ", "received three", "lost None"].map(String::from));
        assert_eq!(transport.local_addr(), Some(address));
    });
}

#[test]
fn a_udp_socket_and_an_endpoint_exchange_datagrams() {
    on_every_backend(async |_| {
        struct Echo;
        impl DatagramProtocol for Echo {
            fn datagram_received(&self, transport: &DatagramTransport, data: &[u8], from: SocketAddr) {
                transport.send_to(data, from);
            }
        }
        let event_loop = EventLoop::current();
        let (server, _) = event_loop.create_datagram_endpoint(local(), || Echo).await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(server.local_addr().unwrap()).await.unwrap();
        let mut buffer = [0; 100];
        for size in 0..100 {
            client.send(&[7; 100][..size]).await.unwrap();
            assert_eq!(client.recv(&mut buffer).await.unwrap(), size);
        }
        server.close();
    });
}

#[test]
fn an_endpoint_with_a_remote_address_sends_without_an_address() {
    on_every_backend(async |event_loop| {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server_addr = server.local_addr().unwrap();
        for broadcast in [false, true] {
            let options = DatagramOptions::new().remote_addr(server_addr).broadcast(broadcast);
            let log = Log::new();
            let (client, protocol) = event_loop
                .create_datagram_endpoint(options, || Recorder::new(&log, |_, _| {}))
                .await
                .unwrap();
            assert_eq!(client.peer_addr(), Some(server_addr));
            client.send(b"hello");
            let mut buffer = [0; 10];
            let (length, from) = server.recv_from(&mut buffer).await.unwrap();
            server.send_to(&buffer[..length], from).await.unwrap();
            wait_for_entry(&log, "received hello").await;
            client.close();
            protocol.lost.clone().await.unwrap();
        }
    });
}

#[test]
fn send_without_a_remote_address_calls_error_received() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, _) = endpoint(&log, |_, _| {}).await;
        transport.send(b"no address");
        assert!(log.entries()[1].starts_with("error "), "{:?}", log.entries());
        assert!(!transport.is_closing());
        transport.abort();
    });
}

#[test]
fn an_icmp_refusal_calls_error_received_and_the_endpoint_stays_open() {
    on_every_backend(async |event_loop| {
        let unused_address = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = Log::new();
        let options = DatagramOptions::new().remote_addr(unused_address);
        let (transport, protocol) =
            event_loop.create_datagram_endpoint(options, || Recorder::new(&log, |_, _| {})).await.unwrap();
        transport.send(b"refused");
        wait_for_entry(&log, "error ConnectionRefused").await;
        assert!(!transport.is_closing());
        transport.close();
        protocol.lost.clone().await.unwrap();
    });
}

#[test]
fn pause_reading_stops_datagrams_until_resume_reading() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, _) = endpoint(&log, |_, _| {}).await;
        transport.pause_reading();
        transport.send_to(b"later", transport.local_addr().unwrap());
        yield_times(5).await;
        log.assert(["made".to_owned()]);
        transport.resume_reading();
        wait_for_entry(&log, "received later").await;
        transport.close();
    });
}

#[test]
fn a_panicking_callback_is_reported_and_the_endpoint_stays_open() {
    for panicking_callback in ["made", "received bang", "error ", "lost None"] {
        let event_loop = new_loop();
        let reports = collect_reports(&event_loop);
        run_on(&event_loop, async {
            let log = Log::new();
            let panic = move |event: &str, _: &DatagramTransport| {
                assert!(!event.starts_with(panicking_callback), "deliberate");
            };
            let (transport, protocol) = endpoint(&log, panic).await;
            let address = transport.local_addr().unwrap();
            transport.send(b"no address");
            transport.send_to(b"bang", address);
            transport.send_to(b"last", address);
            wait_for_entry(&log, "received last").await;
            transport.close();
            protocol.lost.clone().await.unwrap();
        });
        assert_leaves_nothing(&event_loop);
        let reports = reports.entries();
        assert_eq!(reports.len(), 1, "{panicking_callback}: {reports:?}");
        assert!(reports[0].contains("deliberate"), "{reports:?}");
    }
}

#[test]
fn a_callback_may_close_abort_pause_and_send() {
    for action in ["close", "abort", "pause", "send"] {
        for callback in ["made", "received one", "lost None"] {
            on_every_backend(async |_| {
                let log = Log::new();
                let act = move |event: &str, transport: &DatagramTransport| {
                    if event == callback {
                        match action {
                            "close" => transport.close(),
                            "abort" => transport.abort(),
                            "pause" => transport.pause_reading(),
                            _ => transport.send_to(b"more", transport.local_addr().unwrap()),
                        }
                    }
                };
                let (transport, protocol) = endpoint(&log, act).await;
                let address = transport.local_addr().unwrap();
                transport.send_to(b"one", address);
                transport.send_to(b"two", address);
                yield_times(5).await;
                transport.close();
                protocol.lost.clone().await.unwrap();
                assert_eq!(log.entries().iter().filter(|entry| entry.starts_with("lost")).count(), 1);
            });
        }
    }
}

#[test]
fn cancelling_create_datagram_endpoint_closes_the_endpoint() {
    on_every_backend(async |event_loop| {
        let logs = RefCell::new(Vec::new());
        let make = async || {
            let log = Log::new();
            logs.borrow_mut().push(log.clone());
            event_loop.create_datagram_endpoint(local(), || Recorder::new(&log, |_, _| {})).await
        };
        let (transport, _) = cancel_at_every_poll(make, async |_| {
            yield_times(3).await;
            assert_eq!(event_loop.metrics().descriptors, 0);
            for log in logs.borrow().iter() {
                let entries = log.entries();
                assert!(entries.is_empty() || entries == ["made", "lost None"], "{entries:?}");
            }
        })
        .await
        .unwrap();
        transport.close();
    });
}

#[test]
fn sending_on_a_closed_endpoint_reports_nothing() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let log = Log::new();
        let (transport, protocol) = endpoint(&log, |_, _| {}).await;
        let address = transport.local_addr().unwrap();
        transport.close();
        protocol.lost.clone().await.unwrap();
        yield_times(1).await;
        for _ in 0..4 {
            transport.send_to(b"x", address);
        }
        assert!(transport.is_closing());
    });
    reports.assert([]);
}

#[test]
fn close_drops_the_protocol_and_the_transport_may_outlive_the_loop() {
    struct SetsFlagOnDrop(Rc<Cell<bool>>);
    impl DatagramProtocol for SetsFlagOnDrop {}
    impl Drop for SetsFlagOnDrop {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let event_loop = new_loop();
    let is_dropped = Rc::new(Cell::new(false));
    let transport = run_on(&event_loop, async {
        let protocol = SetsFlagOnDrop(Rc::clone(&is_dropped));
        event_loop.create_datagram_endpoint(local(), || protocol).await.unwrap().0
    });
    event_loop.close().unwrap();
    assert!(transport.is_closing());
    transport.send_to(b"x", transport.local_addr().unwrap());
    transport.close();
    drop(transport);
    assert!(is_dropped.get());
}
