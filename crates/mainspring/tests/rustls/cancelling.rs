//! Cancellation at every `await`.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_server;
use crate::support::Stage;
use crate::support::polls::given_up_after;
use crate::support::probe::{Face, Probe, probe_server};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};
use test_support::{On, guarded};

/// More polls than any of these operations needs.
const MAX_POLLS: usize = 100;

#[test]
fn a_connection_that_is_given_up_is_closed_and_lost_once() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("create_connection on {on:?}"));
            let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
            let before = stage.event_loop.metrics();
            let made = RefCell::new(Vec::new());
            let is_done = (0..MAX_POLLS).any(|polls| {
                let probe = Probe::new("the client");
                made.borrow_mut().push(Rc::clone(&probe));
                let connector = connector();
                let connecting =
                    connector.create_connection(server.local_addr(), "localhost", || Face(probe));
                if let Some(connected) = stage.run(given_up_after(polls, connecting)) {
                    connected.unwrap().0.close();
                    return true;
                }
                stage.until("the loop is as it was", || stage.event_loop.metrics() == before);
                for probe in made.borrow().iter().chain(accepted.borrow().iter()) {
                    assert_eq!(probe.made.get(), probe.lost.get(), "after {polls} polls");
                    probe.assert_in_order(None, stage.name());
                }
                false
            });
            assert!(is_done);
            drop(server);
            stage.assert_idle();
        }
    });
}

#[test]
fn a_wait_for_a_handshake_that_is_given_up_lets_it_go_on() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("handshake on {on:?}"));
            let (server, accepted) = stage.run(tls_server(&acceptor())).unwrap();
            let probe = Probe::new("the client");
            let tls = connector().protocol("localhost", Rc::new(Face(Rc::clone(&probe)))).unwrap();
            for _ in 0..2 {
                // Before the connection is made, because the server might answer within one iteration.
                let mut waiting = Box::pin(tls.handshake());
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            let connecting = stage.event_loop.create_connection(server.local_addr(), || tls);
            let (_below, tls) = stage.run(connecting).unwrap();
            stage.until("both stand", || {
                probe.made.get() == 1 && accepted.borrow().iter().all(|peer| peer.made.get() == 1)
            });
            // Later calls get the same error.
            let secure = stage.run(tls.handshake()).unwrap();
            secure.close();
            stage.until("both are lost", || {
                probe.lost.get() == 1 && accepted.borrow().iter().all(|peer| peer.lost.get() == 1)
            });
            drop(server);
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn a_handshake_that_fails_after_its_wait_was_given_up_is_reported() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("a failed handshake on {on:?}"));
            let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
            let probe = Probe::new("the client");
            let tls = connector().protocol("localhost", Rc::new(Face(Rc::clone(&probe)))).unwrap();
            let connecting = stage.event_loop.create_connection(server.local_addr(), || tls);
            let (_below, tls) = stage.run(connecting).unwrap();
            assert!(stage.run(given_up_after(1, tls.handshake())).is_none(), "nobody has answered yet");
            stage.until("the peer stands", || accepted.borrow().iter().any(|peer| peer.made.get() == 1));
            accepted.borrow()[0].transport().unwrap().write(b"no TLS at all");
            stage.until("somebody is told", || !stage.reports.borrow().is_empty());
            assert!(stage.reports.take()[0].contains("handshake"));
            assert!(stage.run(tls.handshake()).is_err());
            stage.until("the peer is gone", || accepted.borrow()[0].lost.get() == 1);
            drop(server);
            stage.assert_idle();
        }
    });
}

#[test]
fn an_upgrade_that_is_given_up_closes_the_connection() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "start_tls");
        let (server, accepted) = stage.run(probe_server(&stage.event_loop)).unwrap();
        let before = stage.event_loop.metrics();
        for polls in 0..2 {
            let probe = Probe::new("the client");
            let face = Face(Rc::clone(&probe));
            let connecting = stage.event_loop.create_connection(server.local_addr(), || face);
            let (below, face) = stage.run(connecting).unwrap();
            let connector = connector();
            // The server does not answer.
            let given_up = stage.run(given_up_after(polls, connector.start_tls(&below, "localhost", face)));
            assert!(given_up.is_none());
            if polls == 0 {
                below.close();
            }
            stage.until("both are lost", || {
                probe.lost.get() == 1 && accepted.borrow().iter().all(|peer| peer.lost.get() == 1)
            });
            drop(below);
            stage.until("the loop is as it was", || stage.event_loop.metrics() == before);
        }
        drop(server);
        stage.assert_idle();
    });
}
