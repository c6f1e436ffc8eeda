//! Fails every operation of a whole TLS conversation in turn.
//!
//! In every run nothing panics, hangs or leaks, each end that got `connection_made` gets `connection_lost` once, and
//! the received bytes are a prefix of the sent ones.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_server;
use crate::support::Stage;
use crate::support::probe::{Face, Probe};
use mainspring_engine::testing::{FaultPlan, Op};
use std::rc::Rc;
use test_support::{On, guarded, now_testing, open_descriptors};

const OPS: [Op; 4] = [Op::Update, Op::Recv, Op::Send, Op::Accept];

const UP: usize = 60_000;
const DOWN: usize = 30_000;

fn hold(stage: &Stage) {
    let event_loop = &stage.event_loop;
    let acceptor = acceptor();
    let Ok(Ok((server, accepted))) = event_loop.run_until_complete(tls_server(&acceptor)) else { return };
    let client = Probe::new("the client");
    let face = Face(Rc::clone(&client));
    let connector = connector();
    let connecting = connector.create_connection(server.local_addr(), "localhost", || face);
    let is_connected = matches!(event_loop.run_until_complete(connecting), Ok(Ok(_)));
    if is_connected {
        stage.until("it is accepted or lost", || {
            client.is_closing() || accepted.borrow().iter().any(|peer| peer.made.get() == 1)
        });
    }
    let peer = accepted.borrow().first().cloned();
    client.write(UP);
    peer.iter().for_each(|peer| peer.write(DOWN));
    if let Some(peer) = &peer
        && is_connected
    {
        stage.until("everything has arrived or the connection is gone", || {
            let all = peer.received.borrow().len() == UP && client.received.borrow().len() == DOWN;
            all || client.is_closing() || peer.is_closing()
        });
        client.write_eof();
    }
    stage.passes(3);
    for probe in [Some(&client), peer.as_ref()].into_iter().flatten() {
        probe.transport().iter().for_each(|transport| transport.close());
    }
    drop(server);
    let ends = [Some(client), peer];
    for end in ends.iter().flatten() {
        stage.until("an end is lost", || end.lost.get() == end.made.get());
        end.assert_in_order(None, stage.name());
    }
    if let [Some(client), Some(peer)] = &ends {
        client.assert_in_order(Some(peer), stage.name());
        peer.assert_in_order(Some(client), stage.name());
    }
}

/// Sends in short pieces, so that there are more operations to fail and the write buffer is used.
fn plan_short_sends(stage: &Stage) {
    for size in [100, 0, 300, 1000, 0, 5000] {
        stage.control.plan(FaultPlan::short_send(size));
    }
}

#[test]
fn a_conversation_survives_the_failure_of_any_operation() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "without faults");
        plan_short_sends(&stage);
        hold(&stage);
        stage.assert_idle();
        let log = stage.control.take_log();
        drop(stage);
        for op in OPS {
            let times = log.iter().filter(|entry| entry.call.op() == op).count();
            assert!(times > 0, "no {op:?}");
            for errno in [libc::ECONNRESET, libc::EAGAIN, libc::EINTR] {
                if op == Op::Update && errno != libc::ECONNRESET {
                    continue;
                }
                for after in 0..times {
                    let before = open_descriptors();
                    let stage = Stage::new(On::Fake, format!("{op:?} number {after} fails with {errno}"));
                    now_testing(stage.name());
                    stage.control.plan(FaultPlan::fail(op, errno).after(after));
                    plan_short_sends(&stage);
                    hold(&stage);
                    stage.control.clear_faults();
                    stage.assert_idle();
                    let at = stage.name().to_owned();
                    drop(stage);
                    assert_eq!(open_descriptors(), before, "{at}: descriptors");
                }
            }
        }
    });
}
