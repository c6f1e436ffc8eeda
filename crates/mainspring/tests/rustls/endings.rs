//! Closing connections.

use crate::certificates::{acceptor, connector};
use crate::pair::{Pair, tls_error, tls_server, with_pairs};
use crate::support::Stage;
use crate::support::probe::{Face, Probe};
use mainspring::net::tls::{TlsError, TlsInfo};
use mainspring::{Protocol, Transport, sleep};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use test_support::{On, guarded};

fn assert_clean(probe: &Probe) {
    let error = probe.error.borrow();
    assert!(error.is_none(), "{error:?}");
}

#[test]
fn closing_sends_what_was_written_and_ends_both_in_order() {
    with_pairs(|pair| {
        pair.client.write(200_000);
        pair.client.transport().unwrap().close();
        pair.until_lost();
        assert_eq!(pair.peer.received.borrow().len(), 200_000);
        assert_eq!(pair.peer.eof.get(), 1);
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
        assert_eq!(pair.stage.event_loop.metrics().timers, 0);
    });
}

#[test]
fn what_was_agreed_on_is_known_after_the_end() {
    with_pairs(|pair| {
        let transport = pair.client.transport().unwrap();
        transport.close();
        transport.close();
        pair.until_lost();
        assert!(transport.is_closing());
        assert_eq!(transport.peer_addr(), Some(pair.server.local_addr()));
        assert_eq!(TlsInfo::of(&transport).unwrap().peer_certificates().len(), 1);
    });
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    with_pairs(|pair| {
        pair.peer.keeps_open.set(true);
        assert!(pair.client.transport().unwrap().can_write_eof());
        pair.client.write(1000);
        pair.client.write_eof();
        pair.stage.until("the peer sees the end", || pair.peer.eof.get() == 1);
        assert_eq!(pair.peer.received.borrow().len(), 1000);
        pair.peer.write(500_000);
        pair.let_arrive();
        assert_eq!((pair.client.lost.get(), pair.peer.lost.get()), (0, 0));
        pair.peer.write_eof();
        pair.until_lost();
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
        pair.until_lost();
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
    });
}

#[test]
fn writing_after_the_end_of_writing_is_a_mistake() {
    guarded(|| {
        let pair = Pair::new(On::Epoll);
        pair.peer.keeps_open.set(true);
        pair.client.write_eof();
        pair.client.transport().unwrap().write(b"late");
        pair.stage.assert_reports(&["A transport failed: cannot write after write_eof()"]);
        pair.stage.until("the end is seen", || pair.peer.eof.get() == 1);
        assert!(pair.peer.received.borrow().is_empty());
        pair.end();
    });
}

#[test]
fn a_peer_that_wants_no_half_open_connection_closes_it() {
    with_pairs(|pair| {
        pair.client.write(1000);
        pair.client.write_eof();
        pair.until_lost();
        assert_clean(&pair.client);
        assert_clean(&pair.peer);
    });
}

#[test]
fn an_end_that_comes_in_a_pause_waits_for_the_data_before_it() {
    with_pairs(|pair| {
        pair.peer.keeps_open.set(true);
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.client.write(100_000);
        pair.client.write_eof();
        pair.stage.passes(20);
        assert_eq!(pair.peer.eof.get(), 0);
        transport.resume_reading();
        pair.stage.until("the end is seen", || pair.peer.eof.get() == 1);
        assert_eq!(pair.peer.received.borrow().len(), 100_000);
        // The client must not have disconnected: the answer arrives.
        pair.peer.write(1000);
        pair.let_arrive();
    });
}

#[test]
fn an_abort_is_told_from_an_end_in_order() {
    with_pairs(|pair| {
        pair.client.write(1000);
        pair.let_arrive();
        pair.client.transport().unwrap().abort();
        pair.until_lost();
        assert_clean(&pair.client);
        let error = pair.peer.error.take().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(matches!(tls_error(&error), TlsError::Truncated));
        assert_eq!(pair.peer.eof.get(), 0, "a stream that was cut has no end");
        assert_eq!(pair.peer.received.borrow().len(), 1000);
    });
}

#[test]
fn a_stream_that_is_cut_in_a_pause_brings_its_data_first() {
    with_pairs(|pair| {
        let transport = pair.peer.transport().unwrap();
        transport.pause_reading();
        pair.client.write(1000);
        pair.stage.passes(3);
        pair.client.transport().unwrap().abort();
        pair.stage.until("the client is gone", || pair.client.lost.get() == 1);
        pair.stage.passes(5);
        assert_eq!((pair.peer.lost.get(), pair.peer.received.borrow().len()), (0, 0));
        transport.resume_reading();
        pair.until_lost();
        assert_eq!(pair.peer.received.borrow().len(), 1000);
        assert!(matches!(tls_error(&pair.peer.error.take().unwrap()), TlsError::Truncated));
    });
}

#[test]
fn an_abort_in_any_callback_ends_it_once() {
    for close in [Transport::abort, Transport::close] {
        with_pairs(|pair| {
            let peer = Rc::downgrade(&pair.peer);
            *pair.peer.hook.borrow_mut() = Some(Rc::new(move |_| {
                let transport = peer.upgrade().and_then(|peer| peer.transport());
                transport.iter().for_each(close);
            }));
            pair.client.write(100_000);
            pair.until_lost();
        });
    }
}

#[test]
fn a_reset_is_told_as_what_it_is() {
    guarded(|| {
        let pair = Pair::new(On::Fake);
        pair.stage.control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET));
        pair.client.write(10);
        pair.until_lost();
        assert_eq!(pair.peer.error_number(), Some(libc::ECONNRESET));
        pair.end();
    });
}

/// A TLS client whose lower transport the test controls.
struct Below(mainspring::net::tls::TlsProtocol, Rc<RefCell<Option<Transport>>>);

impl Protocol for Below {
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
    guarded(|| {
        let stage = Stage::new(On::Epoll, "a peer that does not answer");
        let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
        let probe = Probe::new("the client");
        let connector = connector().shutdown_timeout(Duration::from_secs(5));
        let tls = connector.protocol("localhost", Rc::new(Face(Rc::clone(&probe)))).unwrap();
        stage.run(stage.event_loop.create_connection(server.local_addr(), || tls)).unwrap();
        stage.until("both stand", || {
            probe.made.get() == 1 && accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let peer = Rc::clone(&accepted.borrow()[0]);
        // The peer keeps its side open, so it does not send close_notify.
        peer.keeps_open.set(true);
        let transport = probe.transport().unwrap();
        transport.close();
        stage.run(sleep(Duration::from_secs(4)));
        stage.passes(2);
        assert_eq!((probe.lost.get(), peer.eof.get()), (0, 1));
        stage.run(sleep(Duration::from_secs(2)));
        stage.until("it is lost", || probe.lost.get() == 1);
        assert!(matches!(tls_error(&probe.error.take().unwrap()), TlsError::ShutdownTimeout(_)));
        peer.transport().unwrap().abort();
        drop(server);
        stage.assert_idle();
    });
}

#[test]
fn garbage_in_the_middle_of_the_stream_is_a_failure() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "garbage");
        let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
        let (probe, below) = (Probe::new("the client"), Rc::new(RefCell::new(None)));
        let tls = connector().protocol("localhost", Rc::new(Face(Rc::clone(&probe)))).unwrap();
        let protocol = Below(tls, Rc::clone(&below));
        stage.run(stage.event_loop.create_connection(server.local_addr(), || protocol)).unwrap();
        stage.until("both stand", || {
            probe.made.get() == 1 && accepted.borrow().first().is_some_and(|peer| peer.made.get() == 1)
        });
        let below: Transport = below.take().unwrap();
        below.write(b"\x17\x03\x03\x00\x20this is no ciphertext of anything");
        stage.until("both are lost", || probe.lost.get() == 1 && accepted.borrow()[0].lost.get() == 1);
        let error = accepted.borrow()[0].error.take().unwrap();
        assert!(matches!(tls_error(&error), TlsError::Rustls(_)), "{error:?}");
        drop((server, below));
        stage.assert_idle();
        stage.assert_reports(&[]);
    });
}

#[test]
fn a_loop_that_is_closed_takes_its_connections_with_it() {
    guarded(|| {
        let pair = Pair::new(On::Epoll);
        pair.client.write(1_000_000);
        let Pair { stage, server, client, peer } = pair;
        let kept = client.transport().unwrap();
        stage.event_loop.close().unwrap();
        assert!(kept.is_closing());
        kept.write(b"nobody");
        client.transport.take();
        peer.transport.take();
        drop((kept, server, client, peer, stage));
    });
}

#[test]
fn connections_that_nobody_keeps_and_the_loop_does_not_watch_leave_nothing() {
    guarded(|| {
        let pair = Pair::new(On::Epoll);
        pair.peer.transport().unwrap().pause_reading();
        pair.stage.until("the client is paused", || {
            pair.client.fill();
            pair.client.paused.get()
        });
        let transport = pair.peer.transport.take();
        // The lower transport is paused, so only this handle keeps it alive.
        drop(transport);
        pair.stage.until("the client is told", || pair.client.lost.get() == 1);
        let Pair { stage, server, .. } = pair;
        drop(server);
        stage.assert_idle();
    });
}
