//! Fails every operation of a connection's life in turn.
//!
//! One run counts the operations; then each operation fails in a separate run. In every run nothing panics, hangs or
//! leaks, each end that got `connection_made` gets `connection_lost` once, and the received bytes are a prefix of the
//! sent ones.

use crate::connected_probes::count;
use crate::support::TestLoop;
use crate::support::probe::{Probe, ProbeProtocol, probe_server};
use mainspring::net::{TcpListener, TcpStream};
use mainspring_engine::testing::{FaultPlan, Op};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use test_support::pattern;
use test_support::{TestBackend, isolated, now_testing, open_fds};

const OPS: [Op; 5] = [Op::Update, Op::Recv, Op::Send, Op::Accept, Op::Park];

/// The number of waits varies; later ones are like the first.
const MAX_WAITS: usize = 40;

const UPLOAD: usize = 150_000;
const DOWNLOAD: usize = 70_000;

fn sweep(name: &str, scenario: impl Fn(&TestLoop)) {
    let test_loop = TestLoop::new(TestBackend::Fake, format!("{name}, without faults"));
    test_loop.control.take_log();
    scenario(&test_loop);
    let log = test_loop.control.take_log();
    drop(test_loop);
    for op in OPS {
        let times = if op == Op::Park { MAX_WAITS.min(count(&log, op)) } else { count(&log, op) };
        assert!(times > 0, "{name} has no {op:?}");
        for errno in [libc::ECONNRESET, libc::EIO] {
            for after in 0..times {
                let before = open_fds();
                let test_loop = TestLoop::new(
                    TestBackend::Fake,
                    format!("{name}, {op:?} number {after} fails with {errno}"),
                );
                now_testing(test_loop.name());
                test_loop.may_fail.set(op == Op::Park);
                test_loop.control.plan(FaultPlan::fail(op, errno).after(after));
                scenario(&test_loop);
                test_loop.control.clear_faults();
                test_loop.assert_idle();
                let at = test_loop.name().to_owned();
                drop(test_loop);
                assert_eq!(open_fds(), before, "{at}: open fds differ");
            }
        }
    }
}

/// Short sends at first, so that the write buffer is used.
fn plan_short_sends(test_loop: &TestLoop) {
    for size in [1000, 0, 5000] {
        test_loop.control.plan(FaultPlan::short_send(size));
    }
}

fn run_protocols(test_loop: &TestLoop) {
    let event_loop = &test_loop.event_loop;
    let Ok(Ok((server, accepted))) = event_loop.run_until_complete(probe_server(event_loop)) else { return };
    let client = Probe::new("the client");
    let protocol = ProbeProtocol(Rc::clone(&client));
    let connecting = event_loop.create_connection(server.local_addr(), || protocol);
    let is_connected = matches!(event_loop.run_until_complete(connecting), Ok(Ok(_)));
    if is_connected {
        test_loop.until("it is accepted or lost", || {
            client.is_closing() || accepted.borrow().iter().any(|peer| peer.made.get() == 1)
        });
    }
    let peer = accepted.borrow().first().cloned();
    plan_short_sends(test_loop);
    client.write(UPLOAD);
    peer.iter().for_each(|peer| peer.write(DOWNLOAD));
    if let Some(peer) = &peer
        && is_connected
    {
        let is_through = || {
            let all = peer.received.borrow().len() == UPLOAD && client.received.borrow().len() == DOWNLOAD;
            all || client.is_closing() || peer.is_closing()
        };
        test_loop.until("everything has arrived or the connection is lost", is_through);
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

fn run_streams(test_loop: &TestLoop) {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let held = test_loop.event_loop.run_until_complete(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        plan_short_sends(test_loop);
        let stream = TcpStream::connect(listener.local_addr()).await?;
        let client = async {
            stream.write_all(pattern(UPLOAD)).await?;
            stream.shutdown();
            read_all(&stream, &mut down).await?;
            stream.close().await
        };
        let server = async {
            let (stream, _) = listener.accept().await?;
            read_all(&stream, &mut up).await?;
            stream.write_all(pattern(DOWNLOAD)).await?;
            stream.close().await
        };
        Ok::<_, io::Error>(both(client, server).await)
    });
    // After a clean end everything has arrived; otherwise there is an error.
    if let Ok(Ok((client, server))) = held {
        assert!(
            client.is_err() || server.is_err() || down.len() == DOWNLOAD,
            "{}: data is missing",
            test_loop.name()
        );
        assert!(
            server.is_err() || up.len() == UPLOAD || client.is_err(),
            "{}: data is missing",
            test_loop.name()
        );
    }
    assert!(
        up == pattern(up.len()) && up.len() <= UPLOAD,
        "{}: data received by the server",
        test_loop.name()
    );
    assert!(
        down == pattern(down.len()) && down.len() <= DOWNLOAD,
        "{}: data received by the client",
        test_loop.name()
    );
}

#[test]
fn protocols_survive_the_failure_of_any_operation() {
    isolated(|| sweep("protocols", run_protocols));
}

#[test]
fn streams_survive_the_failure_of_any_operation() {
    isolated(|| sweep("streams", run_streams));
}
