//! Closing connections.

use crate::certificates::{acceptor, connector};
use crate::pair::{Pair, tls_error, tls_server, with_pairs};
use crate::support::TestLoop;
use crate::support::probe::{Probe, ProbeProtocol};
use mainspring::net::tls::{TlsError, TlsInfo};
use mainspring::{Protocol, Transport, sleep};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use test_support::{TestBackend, isolated};

fn assert_clean(probe: &Probe) {
    let error = probe.error.borrow();
    assert!(error.is_none(), "{error:?}");
}

#[test]
fn close_sends_buffered_data_and_closes_both_ends() {
    with_pairs(|pair| {
        pair.client.write(200_000);
        pair.client.transport().unwrap().close();
        pair.run_until_lost();
        assert_eq!(pair.peer.received.borrow().len(), 200_000);
        assert_eq!(pair.peer.eof.get(), 1);
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
        assert_eq!(pair.test_loop.event_loop.metrics().timers, 0);
    });
}

#[test]
fn tls_info_is_available_after_close() {
    with_pairs(|pair| {
        let transport = pair.client.transport().unwrap();
        transport.close();
        transport.close();
        pair.run_until_lost();
        assert!(transport.is_closing());
        assert_eq!(transport.peer_addr(), Some(pair.server.local_addr()));
        assert_eq!(TlsInfo::of(&transport).unwrap().peer_certificates().len(), 1);
    });
}

#[test]
fn one_direction_may_end_before_the_other() {
    with_pairs(|pair| {
        pair.peer.keeps_open.set(true);
        assert!(pair.client.transport().unwrap().can_write_eof());
        pair.client.write(1000);
        pair.client.write_eof();
        pair.test_loop.until("the peer receives EOF", || pair.peer.eof.get() == 1);
        assert_eq!(pair.peer.received.borrow().len(), 1000);
        pair.peer.write(500_000);
        pair.run_until_received();
        assert_eq!((pair.client.lost.get(), pair.peer.lost.get()), (0, 0));
        pair.peer.write_eof();
        pair.run_until_lost();
        assert_eq!(pair.client.eof.get(), 1);
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
    });
}

#[test]
fn both_directions_may_end_at_once() {
    with_pairs(|pair| {
        pair.client.keeps_open.set(true);
        pair.peer.keeps_open.set(true);
        pair.client.write_eof();
        pair.peer.write_eof();
        pair.run_until_lost();
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
    });
}

#[test]
fn write_after_eof_is_reported() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Epoll);
        pair.peer.keeps_open.set(true);
        pair.client.write_eof();
        pair.client.transport().unwrap().write(b"late");
        pair.test_loop.assert_reports(&["A transport failed: cannot write after write_eof()"]);
        pair.test_loop.until("the peer receives EOF", || pair.peer.eof.get() == 1);
        assert!(pair.peer.received.borrow().is_empty());
        pair.close_and_check();
    });
}

#[test]
fn a_protocol_that_does_not_keep_the_connection_open_closes_it() {
    with_pairs(|pair| {
        pair.client.write(1000);
        pair.client.write_eof();
        pair.run_until_lost();
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
    });
}

#[test]
fn eof_received_during_a_pause_follows_the_data() {
    with_pairs(|pair| {
        pair.peer.keeps_open.set(true);
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.client.write(100_000);
        pair.client.write_eof();
        pair.test_loop.run_iterations(20);
        assert_eq!(pair.peer.eof.get(), 0);
        transport.resume_reading();
        pair.test_loop.until("the peer receives EOF", || pair.peer.eof.get() == 1);
        assert_eq!(pair.peer.received.borrow().len(), 100_000);
        // The client must still be connected: the answer arrives.
        pair.peer.write(1000);
        pair.run_until_received();
    });
}

#[test]
fn an_abort_is_distinguished_from_a_clean_close() {
    with_pairs(|pair| {
        pair.client.write(1000);
        pair.run_until_received();
        pair.client.transport().unwrap().abort();
        pair.run_until_lost();
        assert_clean(&pair.client);
        let error = pair.peer.error.take().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(matches!(tls_error(&error), TlsError::Truncated));
        assert_eq!(pair.peer.eof.get(), 0, "a truncated stream has no EOF");
        assert_eq!(pair.peer.received.borrow().len(), 1000);
    });
}

#[test]
fn truncation_during_a_pause_follows_the_data() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.client.write(1000);
        pair.test_loop.run_iterations(3);
        pair.client.transport().unwrap().abort();
        pair.test_loop.until("the client is lost", || pair.client.lost.get() == 1);
        pair.test_loop.run_iterations(5);
        assert_eq!((pair.peer.lost.get(), pair.peer.received.borrow().len()), (0, 0));
        transport.resume_reading();
        pair.run_until_lost();
        assert_eq!(pair.peer.received.borrow().len(), 1000);
        assert!(matches!(tls_error(&pair.peer.error.take().unwrap()), TlsError::Truncated));
    });
}

#[test]
fn abort_in_any_callback_loses_the_connection_once() {
    for close in [Transport::abort, Transport::close] {
        with_pairs(|pair| {
            let peer = Rc::downgrade(&pair.peer);
            *pair.peer.hook.borrow_mut() = Some(Rc::new(move |_| {
                let transport = peer.upgrade().and_then(|peer| peer.transport());
                transport.iter().for_each(close);
            }));
            pair.client.write(100_000);
            pair.run_until_lost();
        });
    }
}

#[test]
fn a_reset_is_passed_to_connection_lost() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Fake);
        pair.test_loop.control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET));
        pair.client.write(10);
        pair.run_until_lost();
        assert_eq!(pair.peer.error_number(), Some(libc::ECONNRESET));
        pair.close_and_check();
    });
}

/// A TLS client whose lower transport the test controls.
struct LowerTransport(mainspring::net::tls::TlsProtocol, Rc<RefCell<Option<Transport>>>);

impl Protocol for LowerTransport {
    fn connection_made(&self, transport: &Transport) {
        *self.1.borrow_mut() = Some(transport.clone());
        self.0.connection_made(transport);
    }

    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.0.data_received(transport, data);
    }

    fn eof_received(&self, transport: &Transport) -> bool {
        self.0.eof_received(transport)
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        self.0.connection_lost(transport, error);
    }
}

#[test]
fn a_shutdown_has_a_time_limit() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "a peer that does not answer");
        let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
        let probe = Probe::new("the client");
        let connector = connector().shutdown_timeout(Duration::from_secs(5));
        let tls = connector.protocol("localhost", Rc::new(ProbeProtocol(Rc::clone(&probe)))).unwrap();
        test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || tls)).unwrap();
        test_loop.until("both ends are connected", || {
            probe.made.get() == 1 && accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let peer = Rc::clone(&accepted.borrow()[0]);
        // The peer keeps its side open, so it does not send close_notify.
        peer.keeps_open.set(true);
        let transport = probe.transport().unwrap();
        transport.close();
        test_loop.run(sleep(Duration::from_secs(4)));
        test_loop.run_iterations(2);
        assert_eq!((probe.lost.get(), peer.eof.get()), (0, 1));
        test_loop.run(sleep(Duration::from_secs(2)));
        test_loop.until("the connection is lost", || probe.lost.get() == 1);
        assert!(matches!(tls_error(&probe.error.take().unwrap()), TlsError::ShutdownTimeout(_)));
        peer.transport().unwrap().abort();
        drop(server);
        test_loop.assert_idle();
    });
}

#[test]
fn invalid_ciphertext_closes_the_connection_with_an_error() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "garbage");
        let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
        let (probe, lower) = (Probe::new("the client"), Rc::new(RefCell::new(None)));
        let tls = connector().protocol("localhost", Rc::new(ProbeProtocol(Rc::clone(&probe)))).unwrap();
        let protocol = LowerTransport(tls, Rc::clone(&lower));
        test_loop.run(test_loop.event_loop.create_connection(server.local_addr(), || protocol)).unwrap();
        test_loop.until("both ends are connected", || {
            probe.made.get() == 1 && accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let lower: Transport = lower.take().unwrap();
        lower.write(b"\x17\x03\x03\x00\x20this is no ciphertext of anything");
        test_loop.until("both are lost", || probe.lost.get() == 1 && accepted.borrow()[0].lost.get() == 1);
        let error = accepted.borrow()[0].error.take().unwrap();
        assert!(matches!(tls_error(&error), TlsError::Rustls(_)), "{error:?}");
        drop((server, lower));
        test_loop.assert_idle();
        test_loop.assert_reports(&[]);
    });
}

#[test]
fn closing_the_loop_drops_its_connections() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Epoll);
        pair.client.write(1_000_000);
        let Pair { test_loop, server, client, peer } = pair;
        let kept = client.transport().unwrap();
        test_loop.event_loop.close().unwrap();
        assert!(kept.is_closing());
        kept.write(b"nobody");
        client.transport.take();
        peer.transport.take();
        drop((kept, server, client, peer, test_loop));
    });
}

#[test]
fn dropping_an_unregistered_connection_leaves_nothing() {
    isolated(|| {
        let pair = Pair::new(TestBackend::Epoll);
        pair.peer.transport().unwrap().pause_reading();
        pair.test_loop.until("the client is paused", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        let transport = pair.peer.transport.take();
        // The lower transport is paused, so only this handle keeps it alive.
        drop(transport);
        pair.test_loop.until("the client is lost", || pair.client.lost.get() == 1);
        let Pair { test_loop, server, .. } = pair;
        drop(server);
        test_loop.assert_idle();
    });
}
