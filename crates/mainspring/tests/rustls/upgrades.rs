//! `start_tls`: upgrades a plain connection, and a TLS connection once more.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_error;
use crate::support::Stage;
use crate::support::probe::{Face, Probe, connect, probe_server};
use mainspring::net::tls::{TlsError, TlsInfo};
use mainspring::{Protocol, Server, Transport};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use test_support::{On, guarded};

/// A plain connection of two probes.
struct Plain {
    stage: Stage,
    server: Server,
    client: Rc<Probe>,
    peer: Rc<Probe>,
}

impl Plain {
    fn new(on: On) -> Self {
        let stage = Stage::new(on, format!("start_tls on {on:?}"));
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let (client, peer) = connect(&stage, &server, &accepted, "the client");
        Plain { stage, server, client, peer }
    }

    /// Upgrades both sides at the same time.
    fn start_tls(&self) -> (Transport, Transport) {
        let below = (self.client.transport().unwrap(), self.peer.transport().unwrap());
        let faces = (below.0.get_protocol().unwrap(), below.1.get_protocol().unwrap());
        let connector = connector();
        let secure = self.stage.run(async {
            let acceptor = acceptor();
            let peer_below = below.1.clone();
            let serving = mainspring::spawn(async move { acceptor.start_tls(&peer_below, faces.1).await });
            let near = connector.start_tls(&below.0, "localhost", faces.0).await.unwrap();
            (near, serving.await.unwrap().unwrap())
        });
        *self.client.transport.borrow_mut() = Some(secure.0.clone());
        *self.peer.transport.borrow_mut() = Some(secure.1.clone());
        secure
    }

    fn let_arrive(&self) {
        self.stage.until("everything has arrived", || {
            self.peer.received.borrow().len() == self.client.sent.get()
                && self.client.received.borrow().len() == self.peer.sent.get()
        });
    }

    fn end(self) {
        self.client.transport().iter().for_each(|transport| transport.close());
        self.stage.until("both are lost", || self.client.lost.get() == 1 && self.peer.lost.get() == 1);
        self.client.assert_in_order(Some(&self.peer), self.stage.name());
        self.peer.assert_in_order(Some(&self.client), self.stage.name());
        drop(self.server);
        self.stage.assert_idle();
        self.stage.assert_reports(&[]);
    }
}

#[test]
fn a_plain_connection_becomes_secure_and_its_protocols_go_on() {
    guarded(|| {
        for on in On::ALL {
            let plain = Plain::new(on);
            plain.client.write(1000);
            plain.peer.write(2000);
            plain.let_arrive();
            let (near, far) = plain.start_tls();
            assert!(TlsInfo::of(&near).is_some() && TlsInfo::of(&far).is_some());
            plain.client.write(100_000);
            plain.peer.write(100_000);
            plain.let_arrive();
            assert_eq!((plain.client.made.get(), plain.peer.made.get()), (1, 1), "connected anew");
            plain.end();
        }
    });
}

#[test]
fn tls_goes_inside_of_tls() {
    guarded(|| {
        for on in On::ALL {
            let plain = Plain::new(on);
            for _ in 0..3 {
                plain.start_tls();
            }
            plain.client.write(300_000);
            plain.peer.write(300_000);
            plain.let_arrive();
            plain.client.transport().unwrap().pause_reading();
            plain.peer.write(300_000);
            plain.stage.passes(10);
            plain.client.transport().unwrap().resume_reading();
            plain.let_arrive();
            plain.end();
        }
    });
}

#[test]
fn what_was_written_before_is_sent_before_although_writing_is_paused() {
    guarded(|| {
        for on in On::ALL {
            let plain = Plain::new(on);
            plain.peer.transport().unwrap().pause_reading();
            plain.stage.until("the client is paused", || {
                plain.client.fill();
                plain.client.paused.get()
            });
            let before = plain.client.sent.get();
            let (client, peer) = (Rc::clone(&plain.client), Rc::clone(&plain.peer));
            let below = client.transport().unwrap();
            let face = below.get_protocol().unwrap();
            let connector = connector();
            let near = plain
                .stage
                .event_loop
                .spawn(async move { connector.start_tls(&below, "localhost", face).await });
            plain.stage.passes(3);
            // The peer reads exactly the plain bytes, then starts TLS.
            let cut = Cut::new(before, Rc::clone(&peer));
            let below = peer.transport().unwrap();
            let face = below.get_protocol().unwrap();
            below.set_protocol(Rc::<Cut>::clone(&cut));
            below.resume_reading();
            plain.stage.until("all that is plain has arrived", || peer.received.borrow().len() == before);
            let secure = acceptor().protocol(face);
            let secure = Rc::new(UpgradeBy(secure));
            below.set_protocol(Rc::<UpgradeBy>::clone(&secure));
            secure.connection_made(&below);
            let early = cut.rest.take();
            if !early.is_empty() {
                secure.data_received(&below, &early);
            }
            let near = plain.stage.run(near.unwrap()).unwrap().unwrap();
            assert!(!client.paused.get(), "still paused");
            *client.transport.borrow_mut() = Some(near);
            // `start_tls` does not call `connection_made`, so the test calls it for the probe's count.
            plain.stage.until("the peer stands", || peer.made.get() == 2);
            client.transport().unwrap().abort();
            peer.transport().unwrap().abort();
            let Plain { stage, server, .. } = plain;
            drop(server);
            stage.assert_idle();
        }
    });
}

/// Passes a number of bytes to its probe and keeps the rest.
struct Cut {
    at: usize,
    probe: Rc<Probe>,
    rest: RefCell<Vec<u8>>,
}

impl Cut {
    fn new(at: usize, probe: Rc<Probe>) -> Rc<Self> {
        Rc::new(Cut { at, probe, rest: RefCell::default() })
    }
}

impl Protocol for Cut {
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
fn an_upgrade_on_a_connection_that_is_gone_fails_at_once() {
    guarded(|| {
        let plain = Plain::new(On::Epoll);
        let below = plain.client.transport().unwrap();
        let face = below.get_protocol().unwrap();
        below.close();
        let connector = connector();
        let error = plain.stage.run(connector.start_tls(&below, "localhost", face)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        plain.end();
    });
}

#[test]
fn a_protocol_that_knew_the_connection_hears_of_an_upgrade_that_failed() {
    guarded(|| {
        let plain = Plain::new(On::Epoll);
        let below = plain.client.transport().unwrap();
        let face = below.get_protocol().unwrap();
        let connector = connector();
        let near = plain
            .stage
            .event_loop
            .spawn(async move { connector.start_tls(&below, "localhost", face).await.map(drop) });
        plain.stage.passes(2);
        plain.peer.transport().unwrap().write(b"what is this?");
        let error = plain.stage.run(near.unwrap()).unwrap().unwrap_err();
        assert!(matches!(tls_error(&error), TlsError::NotTls));
        plain.stage.until("the client is told", || plain.client.lost.get() == 1);
        assert!(plain.client.error.borrow().is_some());
        let Plain { stage, server, .. } = plain;
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn an_acceptor_serves_a_face_that_was_never_connected() {
    // A custom protocol over a custom transport needs nothing but `TlsProtocol`.
    guarded(|| {
        let stage = Stage::new(On::Epoll, "by hand");
        let peer = Probe::new("the server");
        let (acceptor, face) = (acceptor(), Rc::clone(&peer));
        let make = move || acceptor.protocol(Rc::new(Face(Rc::clone(&face))));
        let server = stage.run(stage.event_loop.create_server("127.0.0.1:0", 10, make)).unwrap();
        let client = Probe::new("the client");
        let tls = connector().protocol("localhost", Rc::new(Face(Rc::clone(&client)))).unwrap();
        let (_, tls) = stage.run(stage.event_loop.create_connection(server.local_addr(), || tls)).unwrap();
        let secure = stage.run(tls.handshake()).unwrap();
        assert!(TlsInfo::of(&secure).is_some());
        assert_eq!(client.made.get(), 1);
        client.write(1000);
        stage.until("it arrives", || peer.received.borrow().len() == 1000);
        secure.close();
        drop(server);
        stage.assert_idle();
        stage.assert_reports(&[]);
    });
}
