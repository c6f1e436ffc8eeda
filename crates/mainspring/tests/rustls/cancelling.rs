//! Cancellation at every `await`.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_server;
use crate::support::TestLoop;
use crate::support::polls::given_up_after;
use crate::support::probe::{Probe, ProbeProtocol, probe_server};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Waker};
use test_support::{TestBackend, isolated};

/// More polls than any of these operations needs.
const MAX_POLLS: usize = 100;

#[test]
fn a_cancelled_connection_is_closed_and_lost_once() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("create_connection on {on:?}"));
            let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
            let before = test_loop.event_loop.metrics();
            let made = RefCell::new(Vec::new());
            let is_done = (0..MAX_POLLS).any(|polls| {
                let probe = Probe::new("the client");
                made.borrow_mut().push(Rc::clone(&probe));
                let connector = connector();
                let connecting =
                    connector.create_connection(server.local_addr(), "localhost", || ProbeProtocol(probe));
                if let Some(connected) = test_loop.run(given_up_after(polls, connecting)) {
                    connected.unwrap().0.close();
                    return true;
                }
                test_loop.until("the loop's metrics are back to the start", || {
                    test_loop.event_loop.metrics() == before
                });
                for probe in made.borrow().iter().chain(accepted.borrow().iter()) {
                    assert_eq!(probe.made.get(), probe.lost.get(), "after {polls} polls");
                    probe.assert_in_order(None, test_loop.name());
                }
                false
            });
            assert!(is_done);
            drop(server);
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_cancelled_handshake_wait_does_not_stop_the_handshake() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("handshake on {on:?}"));
            let (server, accepted) = test_loop.run(tls_server(&acceptor())).unwrap();
            let probe = Probe::new("the client");
            let tls = connector().protocol("localhost", Rc::new(ProbeProtocol(Rc::clone(&probe)))).unwrap();
            for _ in 0..2 {
                // Before the connection is made, because the server might answer within one iteration.
                let mut waiting = Box::pin(tls.handshake());
                assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            let connecting = test_loop.event_loop.create_connection(server.local_addr(), || tls);
            let (_plain, tls) = test_loop.run(connecting).unwrap();
            test_loop.until("both ends are connected", || {
                probe.made.get() == 1 && accepted.borrow().iter().all(|peer| peer.made.get() == 1)
            });
            // Later calls return the same transport.
            let secure = test_loop.run(tls.handshake()).unwrap();
            secure.close();
            test_loop.until("both are lost", || {
                probe.lost.get() == 1 && accepted.borrow().iter().all(|peer| peer.lost.get() == 1)
            });
            drop(server);
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn a_handshake_failure_after_a_cancelled_wait_is_reported() {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("a failed handshake on {on:?}"));
            let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
            let probe = Probe::new("the client");
            let tls = connector().protocol("localhost", Rc::new(ProbeProtocol(Rc::clone(&probe)))).unwrap();
            let connecting = test_loop.event_loop.create_connection(server.local_addr(), || tls);
            let (_plain, tls) = test_loop.run(connecting).unwrap();
            assert!(
                test_loop.run(given_up_after(1, tls.handshake())).is_none(),
                "the peer has not answered yet"
            );
            test_loop
                .until("the peer is connected", || accepted.borrow().iter().any(|peer| peer.made.get() == 1));
            accepted.borrow()[0].transport().unwrap().write(b"no TLS at all");
            test_loop.until("the failure is reported", || !test_loop.reports.borrow().is_empty());
            assert!(test_loop.reports.take()[0].contains("handshake"));
            assert!(test_loop.run(tls.handshake()).is_err());
            test_loop.until("the peer is lost", || accepted.borrow()[0].lost.get() == 1);
            drop(server);
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_cancelled_upgrade_closes_the_connection() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "start_tls");
        let (server, accepted) = test_loop.run(probe_server(&test_loop.event_loop)).unwrap();
        let before = test_loop.event_loop.metrics();
        for polls in 0..2 {
            let probe = Probe::new("the client");
            let protocol = ProbeProtocol(Rc::clone(&probe));
            let connecting = test_loop.event_loop.create_connection(server.local_addr(), || protocol);
            let (plain, protocol) = test_loop.run(connecting).unwrap();
            let connector = connector();
            // The server does not answer.
            let cancelled =
                test_loop.run(given_up_after(polls, connector.start_tls(&plain, "localhost", protocol)));
            assert!(cancelled.is_none());
            if polls == 0 {
                plain.close();
            }
            test_loop.until("both are lost", || {
                probe.lost.get() == 1 && accepted.borrow().iter().all(|peer| peer.lost.get() == 1)
            });
            drop(plain);
            test_loop.until("the loop's metrics are back to the start", || {
                test_loop.event_loop.metrics() == before
            });
        }
        drop(server);
        test_loop.assert_idle();
    });
}
