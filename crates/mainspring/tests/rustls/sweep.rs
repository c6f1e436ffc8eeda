//! Fails every operation of a TLS connection's life in turn.
//!
//! In every run nothing panics, hangs or leaks, each end that got `connection_made` gets `connection_lost` once, and
//! the received bytes are a prefix of the sent ones.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_server;
use crate::support::TestLoop;
use crate::support::probe::{Probe, ProbeProtocol};
use mainspring_engine::testing::{FaultPlan, Op};
use std::rc::Rc;
use test_support::{TestBackend, isolated, now_testing, open_fds};

const OPS: [Op; 4] = [Op::Update, Op::Recv, Op::Send, Op::Accept];

const UPLOAD: usize = 60_000;
const DOWNLOAD: usize = 30_000;

fn scenario(test_loop: &TestLoop) {
    let event_loop = &test_loop.event_loop;
    let acceptor = acceptor();
    let Ok(Ok((server, accepted))) = event_loop.run_until_complete(tls_server(&acceptor)) else { return };
    let client = Probe::new("the client");
    let protocol = ProbeProtocol(Rc::clone(&client));
    let connector = connector();
    let connecting = connector.create_connection(server.local_addr(), "localhost", || protocol);
    let is_connected = matches!(event_loop.run_until_complete(connecting), Ok(Ok(_)));
    if is_connected {
        test_loop.until("it is accepted or lost", || {
            client.is_closing() || accepted.borrow().iter().any(|peer| peer.made.get() == 1)
        });
    }
    let peer = accepted.borrow().first().cloned();
    client.write(UPLOAD);
    peer.iter().for_each(|peer| peer.write(DOWNLOAD));
    if let Some(peer) = &peer
        && is_connected
    {
        test_loop.until("everything has arrived or the connection is lost", || {
            let all = peer.received.borrow().len() == UPLOAD && client.received.borrow().len() == DOWNLOAD;
            all || client.is_closing() || peer.is_closing()
        });
        client.write_eof();
    }
    test_loop.run_iterations(3);
    for probe in [Some(&client), peer.as_ref()].into_iter().flatten() {
        probe.transport().iter().for_each(|transport| transport.close());
    }
    drop(server);
    let ends = [Some(client), peer];
    for end in ends.iter().flatten() {
        test_loop.until("an end is lost", || end.lost.get() == end.made.get());
        end.assert_in_order(None, test_loop.name());
    }
    if let [Some(client), Some(peer)] = &ends {
        client.assert_in_order(Some(peer), test_loop.name());
        peer.assert_in_order(Some(client), test_loop.name());
    }
}

/// Sends in short pieces, so that there are more operations to fail and the write buffer is used.
fn plan_short_sends(test_loop: &TestLoop) {
    for size in [100, 0, 300, 1000, 0, 5000] {
        test_loop.control.plan(FaultPlan::short_send(size));
    }
}

#[test]
fn tls_survives_the_failure_of_any_operation() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "without faults");
        plan_short_sends(&test_loop);
        scenario(&test_loop);
        test_loop.assert_idle();
        let log = test_loop.control.take_log();
        drop(test_loop);
        for op in OPS {
            let times = log.iter().filter(|entry| entry.call.op() == op).count();
            assert!(times > 0, "no {op:?}");
            for errno in [libc::ECONNRESET, libc::EAGAIN, libc::EINTR] {
                if op == Op::Update && errno != libc::ECONNRESET {
                    continue;
                }
                for after in 0..times {
                    let before = open_fds();
                    let test_loop =
                        TestLoop::new(TestBackend::Fake, format!("{op:?} number {after} fails with {errno}"));
                    now_testing(test_loop.name());
                    test_loop.control.plan(FaultPlan::fail(op, errno).after(after));
                    plan_short_sends(&test_loop);
                    scenario(&test_loop);
                    test_loop.control.clear_faults();
                    test_loop.assert_idle();
                    let at = test_loop.name().to_owned();
                    drop(test_loop);
                    assert_eq!(open_fds(), before, "{at}: open fds differ");
                }
            }
        }
    });
}
