//! `start_tls`: upgrades a plain connection, and a TLS connection once more.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_error;
use crate::support::TestLoop;
use crate::support::probe::{Probe, ProbeProtocol, connect, probe_server};
use mainspring::net::tls::{TlsError, TlsInfo};
use mainspring::{Protocol, Server, Transport};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use test_support::{TestBackend, isolated};

/// A plain connection of two probes.
struct Plain {
    test_loop: TestLoop,
    server: Server,
    client: Rc<Probe>,
    peer: Rc<Probe>,
}

impl Plain {
    fn new(on: TestBackend) -> Self {
        let test_loop = TestLoop::new(on, format!("start_tls on {on:?}"));
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let (client, peer) = connect(&test_loop, &server, &accepted, "the client");
        Plain { test_loop, server, client, peer }
    }

    /// Upgrades both sides at the same time.
    fn start_tls(&self) -> (Transport, Transport) {
        let lower = (self.client.transport().unwrap(), self.peer.transport().unwrap());
        let protocols = (lower.0.get_protocol().unwrap(), lower.1.get_protocol().unwrap());
        let connector = connector();
        let secure = self.test_loop.run(async {
            let acceptor = acceptor();
            let peer_lower = lower.1.clone();
            let serving =
                mainspring::spawn(async move { acceptor.start_tls(&peer_lower, protocols.1).await });
            let near = connector.start_tls(&lower.0, "localhost", protocols.0).await.unwrap();
            (near, serving.await.unwrap().unwrap())
        });
        *self.client.transport.borrow_mut() = Some(secure.0.clone());
        *self.peer.transport.borrow_mut() = Some(secure.1.clone());
        secure
    }

    fn run_until_received(&self) {
        self.test_loop.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    fn close_and_check(self) {
        self.client.transport().iter().for_each(|transport| transport.close());
        self.test_loop.until("both are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
        self.client.assert_in_order(Some(&self.peer), self.test_loop.name());
        self.peer.assert_in_order(Some(&self.client), self.test_loop.name());
        drop(self.server);
        self.test_loop.assert_idle();
        self.test_loop.assert_reports(&[]);
    }
}

#[test]
fn an_upgraded_connection_keeps_its_protocols() {
    isolated(|| {
        for on in TestBackend::ALL {
            let plain = Plain::new(on);
            plain.client.write(1000);
            plain.peer.write(2000);
            plain.run_until_received();
            let (near, far) = plain.start_tls();
            assert!(TlsInfo::of(&near).is_some() && TlsInfo::of(&far).is_some());
            plain.client.write(100_000);
            plain.peer.write(100_000);
            plain.run_until_received();
            assert_eq!(
                (plain.client.made.get(), plain.peer.made.get()),
                (1, 1),
                "connection_made was called again"
            );
            plain.close_and_check();
        }
    });
}

#[test]
fn tls_can_be_nested() {
    isolated(|| {
        for on in TestBackend::ALL {
            let plain = Plain::new(on);
            for _ in 0..3 {
                plain.start_tls();
            }
            plain.client.write(300_000);
            plain.peer.write(300_000);
            plain.run_until_received();
            plain.client.transport().unwrap().pause_reading();
            plain.peer.write(300_000);
            plain.test_loop.run_iterations(10);
            plain.client.transport().unwrap().resume_reading();
            plain.run_until_received();
            plain.close_and_check();
        }
    });
}

#[test]
fn plain_data_queued_before_the_upgrade_is_sent_first() {
    isolated(|| {
        for on in TestBackend::ALL {
            let plain = Plain::new(on);
            plain.peer.transport().unwrap().pause_reading();
            plain.test_loop.until("the client is paused", || {
                plain.client.fill();
                plain.client.paused.get()
            });
            let before = plain.client.sent.get();
            let (client, peer) = (Rc::clone(&plain.client), Rc::clone(&plain.peer));
            let lower = client.transport().unwrap();
            let protocol = lower.get_protocol().unwrap();
            let connector = connector();
            let near = plain
                .test_loop
                .event_loop
                .spawn(async move { connector.start_tls(&lower, "localhost", protocol).await });
            plain.test_loop.run_iterations(3);
            // The peer reads exactly the plain bytes, then starts TLS.
            let split = SplitAt::new(before, Rc::clone(&peer));
            let lower = peer.transport().unwrap();
            let protocol = lower.get_protocol().unwrap();
            lower.set_protocol(Rc::<SplitAt>::clone(&split));
            lower.resume_reading();
            plain.test_loop.until("all plain data has arrived", || peer.received.borrow().len() == before);
            let secure = acceptor().protocol(protocol);
            let secure = Rc::new(UpgradeBy(secure));
            lower.set_protocol(Rc::<UpgradeBy>::clone(&secure));
            secure.connection_made(&lower);
            let early = split.rest.take();
            if !early.is_empty() {
                secure.data_received(&lower, &early);
            }
            let near = plain.test_loop.run(near.unwrap()).unwrap().unwrap();
            assert!(!client.paused.get(), "still paused");
            *client.transport.borrow_mut() = Some(near);
            // `start_tls` does not call `connection_made`, so the test calls it for the probe's count.
            plain.test_loop.until("the peer is connected", || peer.made.get() == 2);
            client.transport().unwrap().abort();
            peer.transport().unwrap().abort();
            let Plain { test_loop, server, .. } = plain;
            drop(server);
            test_loop.assert_idle();
        }
    });
}

/// Passes the first `at` bytes to its probe and keeps the rest.
struct SplitAt {
    at: usize,
    probe: Rc<Probe>,
    rest: RefCell<Vec<u8>>,
}

impl SplitAt {
    fn new(at: usize, probe: Rc<Probe>) -> Rc<Self> {
        Rc::new(SplitAt { at, probe, rest: RefCell::default() })
    }
}

impl Protocol for SplitAt {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        let mut received = self.probe.received.borrow_mut();
        let (plain, rest) = data.split_at(data.len().min(self.at - received.len()));
        received.extend_from_slice(plain);
        self.rest.borrow_mut().extend_from_slice(rest);
    }
}

struct UpgradeBy(mainspring::net::tls::TlsProtocol);

impl Protocol for UpgradeBy {
    fn connection_made(&self, transport: &Transport) {
        self.0.connection_made(transport);
    }

    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.0.data_received(transport, data);
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        self.0.connection_lost(transport, error);
    }
}

#[test]
fn upgrading_a_lost_connection_fails_at_once() {
    isolated(|| {
        let plain = Plain::new(TestBackend::Epoll);
        let lower = plain.client.transport().unwrap();
        let protocol = lower.get_protocol().unwrap();
        lower.close();
        let connector = connector();
        let error =
            plain.test_loop.run(connector.start_tls(&lower, "localhost", protocol)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        plain.close_and_check();
    });
}

#[test]
fn a_failed_upgrade_calls_connection_lost() {
    isolated(|| {
        let plain = Plain::new(TestBackend::Epoll);
        let lower = plain.client.transport().unwrap();
        let protocol = lower.get_protocol().unwrap();
        let connector = connector();
        let near = plain
            .test_loop
            .event_loop
            .spawn(async move { connector.start_tls(&lower, "localhost", protocol).await.map(drop) });
        plain.test_loop.run_iterations(2);
        plain.peer.transport().unwrap().write(b"what is this?");
        let error = plain.test_loop.run(near.unwrap()).unwrap().unwrap_err();
        assert!(matches!(tls_error(&error), TlsError::NotTls));
        plain.test_loop.until("the client is lost", || plain.client.lost.get() == 1);
        assert!(plain.client.error.borrow().is_some());
        let Plain { test_loop, server, .. } = plain;
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn tls_protocol_works_as_an_ordinary_protocol() {
    // `TlsProtocol` does not need `TlsAcceptor::create_server`: it runs on any transport.
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "TlsProtocol as a protocol");
        let peer = Probe::new("the server");
        let (acceptor, probe) = (acceptor(), Rc::clone(&peer));
        let make = move || acceptor.protocol(Rc::new(ProbeProtocol(Rc::clone(&probe))));
        let server = test_loop.run(test_loop.event_loop.create_server("127.0.0.1:0", 10, make)).unwrap();
        let client = Probe::new("the client");
        let tls = connector().protocol("localhost", Rc::new(ProbeProtocol(Rc::clone(&client)))).unwrap();
        let (_, tls) =
            test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || tls)).unwrap();
        let secure = test_loop.run(tls.handshake()).unwrap();
        assert!(TlsInfo::of(&secure).is_some());
        assert_eq!(client.made.get(), 1);
        client.write(1000);
        test_loop.until("the data arrives", || peer.received.borrow().len() == 1000);
        secure.close();
        drop(server);
        test_loop.assert_idle();
        test_loop.assert_reports(&[]);
    });
}
