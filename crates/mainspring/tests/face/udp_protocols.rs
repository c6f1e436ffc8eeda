//! UDP with protocols.

use crate::adversity::{given_up_at_every_poll, turns};
use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, on_every_backend, run_on};
use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport, UdpSocket};
use mainspring::{EventLoop, Future};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

type Hook = Box<dyn Fn(&str, &DatagramTransport)>;

/// Logs its callbacks and calls `hook` each time.
struct Telling {
    log: Log<String>,
    hook: Hook,
    lost: Future<()>,
}

impl Telling {
    fn new(log: &Log<String>, hook: impl Fn(&str, &DatagramTransport) + 'static) -> Self {
        let lost = EventLoop::current().create_future();
        Telling { log: log.clone(), hook: Box::new(hook), lost }
    }

    fn tell(&self, transport: &DatagramTransport, what: &str) {
        self.log.add(what.to_owned());
        if what.starts_with("lost") {
            self.lost.set_result(()).unwrap();
        }
        (self.hook)(what, transport);
    }
}

impl DatagramProtocol for Telling {
    fn connection_made(&self, transport: &DatagramTransport) {
        self.tell(transport, "made");
    }

    fn datagram_received(&self, transport: &DatagramTransport, data: &[u8], _: SocketAddr) {
        self.tell(transport, &format!("received {}", String::from_utf8_lossy(data)));
    }

    fn error_received(&self, transport: &DatagramTransport, error: io::Error) {
        self.tell(transport, &format!("error {:?}", error.kind()));
    }

    fn connection_lost(&self, transport: &DatagramTransport, error: Option<io::Error>) {
        self.tell(transport, &format!("lost {:?}", error.map(|error| error.kind())));
    }
}

fn local() -> DatagramOptions {
    DatagramOptions::new().local_addr("127.0.0.1:0")
}

async fn endpoint(
    log: &Log<String>,
    hook: impl Fn(&str, &DatagramTransport) + 'static,
) -> (DatagramTransport, Rc<Telling>) {
    let event_loop = EventLoop::current();
    event_loop.create_datagram_endpoint(local(), || Telling::new(log, hook)).await.unwrap()
}

async fn until_told(log: &Log<String>, what: &str) {
    while !log.entries().iter().any(|entry| entry == what) {
        turns(1).await;
    }
}

#[test]
fn a_protocol_is_told_everything_in_order() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, protocol) = endpoint(&log, |_, _| {}).await;
        log.assert(["made".to_owned()]);
        let here = transport.local_addr().unwrap();
        for data in ["one", "", "three"] {
            transport.send_to(data.as_bytes(), here);
        }
        until_told(&log, "received three").await;
        transport.close();
        transport.close();
        protocol.lost.clone().await.unwrap();
        log.assert(["made", "received one", "received ", "received three", "lost None"].map(String::from));
        assert_eq!(transport.local_addr(), Some(here));
    });
}

#[test]
fn the_awaited_and_the_called_talk_to_each_other() {
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
fn with_a_remote_address_send_needs_none() {
    on_every_backend(async |event_loop| {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let there = server.local_addr().unwrap();
        for broadcast in [false, true] {
            let options = DatagramOptions::new().remote_addr(there).broadcast(broadcast);
            let log = Log::new();
            let (client, protocol) =
                event_loop.create_datagram_endpoint(options, || Telling::new(&log, |_, _| {})).await.unwrap();
            assert_eq!(client.peer_addr(), Some(there));
            client.send(b"hello");
            let mut buffer = [0; 10];
            let (length, from) = server.recv_from(&mut buffer).await.unwrap();
            server.send_to(&buffer[..length], from).await.unwrap();
            until_told(&log, "received hello").await;
            client.close();
            protocol.lost.clone().await.unwrap();
        }
    });
}

#[test]
fn an_endpoint_without_a_remote_address_tells_the_error_of_send() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, _) = endpoint(&log, |_, _| {}).await;
        transport.send(b"to whom?");
        assert!(log.entries()[1].starts_with("error "), "{:?}", log.entries());
        assert!(!transport.is_closing());
        transport.abort();
    });
}

#[test]
fn a_datagram_that_comes_back_is_told_and_the_endpoint_goes_on() {
    on_every_backend(async |event_loop| {
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = Log::new();
        let options = DatagramOptions::new().remote_addr(gone);
        let (transport, protocol) =
            event_loop.create_datagram_endpoint(options, || Telling::new(&log, |_, _| {})).await.unwrap();
        transport.send(b"anybody?");
        until_told(&log, "error ConnectionRefused").await;
        assert!(!transport.is_closing());
        transport.close();
        protocol.lost.clone().await.unwrap();
    });
}

#[test]
fn a_paused_endpoint_receives_nothing_until_it_is_resumed() {
    on_every_backend(async |_| {
        let log = Log::new();
        let (transport, _) = endpoint(&log, |_, _| {}).await;
        transport.pause_reading();
        transport.send_to(b"later", transport.local_addr().unwrap());
        turns(5).await;
        log.assert(["made".to_owned()]);
        transport.resume_reading();
        until_told(&log, "received later").await;
        transport.close();
    });
}

#[test]
fn a_method_that_panics_is_reported_and_the_endpoint_goes_on() {
    for culprit in ["made", "received bang", "error ", "lost None"] {
        let event_loop = new_loop();
        let reports = collect_reports(&event_loop);
        run_on(&event_loop, async {
            let log = Log::new();
            let panic = move |what: &str, _: &DatagramTransport| {
                assert!(!what.starts_with(culprit), "deliberate");
            };
            let (transport, protocol) = endpoint(&log, panic).await;
            let here = transport.local_addr().unwrap();
            transport.send(b"to nobody");
            transport.send_to(b"bang", here);
            transport.send_to(b"last", here);
            until_told(&log, "received last").await;
            transport.close();
            protocol.lost.clone().await.unwrap();
        });
        assert_leaves_nothing(&event_loop);
        let reports = reports.entries();
        assert_eq!(reports.len(), 1, "{culprit}: {reports:?}");
        assert!(reports[0].contains("deliberate"), "{reports:?}");
    }
}

#[test]
fn a_callback_may_close_abort_pause_and_send() {
    for action in ["close", "abort", "pause", "send"] {
        for moment in ["made", "received one", "lost None"] {
            on_every_backend(async |_| {
                let log = Log::new();
                let act = move |what: &str, transport: &DatagramTransport| {
                    if what == moment {
                        match action {
                            "close" => transport.close(),
                            "abort" => transport.abort(),
                            "pause" => transport.pause_reading(),
                            _ => transport.send_to(b"more", transport.local_addr().unwrap()),
                        }
                    }
                };
                let (transport, protocol) = endpoint(&log, act).await;
                let here = transport.local_addr().unwrap();
                transport.send_to(b"one", here);
                transport.send_to(b"two", here);
                turns(5).await;
                transport.close();
                protocol.lost.clone().await.unwrap();
                assert_eq!(log.entries().iter().filter(|entry| entry.starts_with("lost")).count(), 1);
            });
        }
    }
}

#[test]
fn an_endpoint_that_is_given_up_while_it_is_made_is_closed() {
    on_every_backend(async |event_loop| {
        let logs = RefCell::new(Vec::new());
        let make = async || {
            let log = Log::new();
            logs.borrow_mut().push(log.clone());
            event_loop.create_datagram_endpoint(local(), || Telling::new(&log, |_, _| {})).await
        };
        let (transport, _) = given_up_at_every_poll(make, async |_| {
            turns(3).await;
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
fn sending_to_an_endpoint_that_is_gone_is_reported_when_it_is_repeated() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let log = Log::new();
        let (transport, protocol) = endpoint(&log, |_, _| {}).await;
        let here = transport.local_addr().unwrap();
        transport.close();
        protocol.lost.clone().await.unwrap();
        turns(1).await;
        for _ in 0..4 {
            transport.send_to(b"x", here);
        }
        assert!(transport.is_closing());
    });
    reports.assert([]);
}

#[test]
fn a_protocol_is_dropped_with_its_endpoint_and_a_transport_may_outlive_the_loop() {
    struct Held(Rc<Cell<bool>>);
    impl DatagramProtocol for Held {}
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let event_loop = new_loop();
    let is_dropped = Rc::new(Cell::new(false));
    let transport = run_on(&event_loop, async {
        let held = Held(Rc::clone(&is_dropped));
        event_loop.create_datagram_endpoint(local(), || held).await.unwrap().0
    });
    event_loop.close().unwrap();
    assert!(transport.is_closing());
    transport.send_to(b"x", transport.local_addr().unwrap());
    transport.close();
    drop(transport);
    assert!(is_dropped.get());
}
