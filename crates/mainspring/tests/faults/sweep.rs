//! Fails every operation of a whole conversation in turn.
//!
//! One run counts the operations; then each is failed in a run of its own. In every run nothing panics, hangs or
//! leaks, each end that got `connection_made` gets `connection_lost` once, and the received bytes are a prefix of the
//! sent ones.

use crate::conversation::count;
use crate::support::Stage;
use crate::support::probe::{Face, Probe, probe_server};
use mainspring::net::{TcpListener, TcpStream};
use mainspring_engine::testing::{FaultPlan, Op};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use test_support::pattern;
use test_support::{On, guarded, now_testing, open_descriptors};

const OPS: [Op; 5] = [Op::Update, Op::Recv, Op::Send, Op::Accept, Op::Park];

/// The number of waits varies; later ones are like the first.
const MAX_WAITS: usize = 40;

const UP: usize = 150_000;
const DOWN: usize = 70_000;

fn sweep(name: &str, hold: impl Fn(&Stage)) {
    let stage = Stage::new(On::Fake, format!("{name}, without faults"));
    stage.control.take_log();
    hold(&stage);
    let log = stage.control.take_log();
    drop(stage);
    for op in OPS {
        let times = if op == Op::Park { MAX_WAITS.min(count(&log, op)) } else { count(&log, op) };
        assert!(times > 0, "{name} has no {op:?}");
        for errno in [libc::ECONNRESET, libc::EIO] {
            for after in 0..times {
                let before = open_descriptors();
                let stage = Stage::new(On::Fake, format!("{name}, {op:?} number {after} fails with {errno}"));
                now_testing(stage.name());
                stage.may_fail.set(op == Op::Park);
                stage.control.plan(FaultPlan::fail(op, errno).after(after));
                hold(&stage);
                stage.control.clear_faults();
                stage.assert_idle();
                let at = stage.name().to_owned();
                drop(stage);
                assert_eq!(open_descriptors(), before, "{at}: descriptors");
            }
        }
    }
}

/// Short sends at first, so that the write buffer is used.
fn plan_short_sends(stage: &Stage) {
    for size in [1000, 0, 5000] {
        stage.control.plan(FaultPlan::short_send(size));
    }
}

fn hold_by_protocols(stage: &Stage) {
    let event_loop = &stage.event_loop;
    let Ok(Ok((server, accepted))) = event_loop.run_until_complete(probe_server(event_loop)) else { return };
    let client = Probe::new("the client");
    let face = Face(Rc::clone(&client));
    let connecting = event_loop.create_connection(server.local_addr(), || face);
    let is_connected = matches!(event_loop.run_until_complete(connecting), Ok(Ok(_)));
    if is_connected {
        stage.until("it is accepted or lost", || {
            client.is_closing() || accepted.borrow().iter().any(|peer| peer.made.get() == 1)
        });
    }
    let peer = accepted.borrow().first().cloned();
    plan_short_sends(stage);
    client.write(UP);
    peer.iter().for_each(|peer| peer.write(DOWN));
    if let Some(peer) = &peer
        && is_connected
    {
        let is_through = || {
            let all = peer.received.borrow().len() == UP && client.received.borrow().len() == DOWN;
            all || client.is_closing() || peer.is_closing()
        };
        stage.until("everything has arrived or the connection is gone", is_through);
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

/// Awaits both.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_is, mut b_is) = (None, None);
    poll_fn(|cx| {
        if a_is.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(cx)
        {
            a_is = Some(output);
        }
        if b_is.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(cx)
        {
            b_is = Some(output);
        }
        match (a_is.take(), b_is.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            undone => {
                (a_is, b_is) = undone;
                Poll::Pending
            }
        }
    })
    .await
}

async fn read_all(stream: &TcpStream, into: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 10_000];
    loop {
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            count => into.extend_from_slice(&piece[..count]),
        }
    }
}

fn hold_by_streams(stage: &Stage) {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let held = stage.event_loop.run_until_complete(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        plan_short_sends(stage);
        let stream = TcpStream::connect(listener.local_addr()).await?;
        let client = async {
            stream.write_all(pattern(UP)).await?;
            stream.shutdown();
            read_all(&stream, &mut down).await?;
            stream.close().await
        };
        let server = async {
            let (stream, _) = listener.accept().await?;
            read_all(&stream, &mut up).await?;
            stream.write_all(pattern(DOWN)).await?;
            stream.close().await
        };
        Ok::<_, io::Error>(both(client, server).await)
    });
    // After a clean end everything has arrived; otherwise there is an error.
    if let Ok(Ok((client, server))) = held {
        assert!(client.is_err() || server.is_err() || down.len() == DOWN, "{}: cut off", stage.name());
        assert!(server.is_err() || up.len() == UP || client.is_err(), "{}: cut off", stage.name());
    }
    assert!(up == pattern(up.len()) && up.len() <= UP, "{}: arrived at the server", stage.name());
    assert!(down == pattern(down.len()) && down.len() <= DOWN, "{}: arrived at the client", stage.name());
}

#[test]
fn protocols_survive_the_failure_of_any_operation() {
    guarded(|| sweep("a conversation by protocols", hold_by_protocols));
}

#[test]
fn streams_survive_the_failure_of_any_operation() {
    guarded(|| sweep("a conversation by streams", hold_by_streams));
}
