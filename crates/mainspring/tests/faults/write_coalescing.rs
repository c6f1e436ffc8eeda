//! Small writes of one callback leave in one packet, and nothing stays in the buffer.

use crate::connected_probes::ConnectedProbes;
use mainspring_engine::testing::{Call, FaultPlan, Op};
use test_support::isolated;

/// The sends on the client's fd for writes of these sizes in one callback.
fn sends_for_writes(probes: &ConnectedProbes, pieces: &[usize]) -> Vec<&'static str> {
    probes.test_loop.control.take_log();
    let client = probes.client.clone();
    let pieces = pieces.to_vec();
    probes
        .test_loop
        .event_loop
        .call_soon(move || pieces.iter().for_each(|&size| client.write(size)))
        .unwrap();
    probes.test_loop.run_once();
    take_sends(probes)
}

/// The send take_sends on the client's fd.
fn take_sends(probes: &ConnectedProbes) -> Vec<&'static str> {
    let log = probes.test_loop.control.take_log();
    let on_client_fd = log.iter().filter(|entry| entry.call.fd() == Some(probes.client_fd));
    on_client_fd
        .filter_map(|entry| match entry.call {
            Call::Send { .. } => Some("send"),
            Call::SendMore { .. } => Some("more"),
            Call::Push { .. } => Some("push"),
            _ => None,
        })
        .collect()
}

#[test]
fn repeated_split_writes_are_coalesced() {
    isolated(|| {
        let probes = ConnectedProbes::new("pieces");
        assert_eq!(sends_for_writes(&probes, &[100, 10]), ["send", "send"]);
        assert_eq!(sends_for_writes(&probes, &[100, 10]), ["send", "send"]);
        assert_eq!(sends_for_writes(&probes, &[100, 10]), ["more", "send"]);
        probes.run_until_received();
        assert_eq!(sends_for_writes(&probes, &[100, 10, 5]), ["more", "send", "send"]);
        assert_eq!(
            sends_for_writes(&probes, &[9000, 10]),
            ["send", "send"],
            "a large write is not held back"
        );
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn a_held_back_write_is_pushed_when_the_callback_returns() {
    isolated(|| {
        let probes = ConnectedProbes::new("a single write");
        for _ in 0..3 {
            sends_for_writes(&probes, &[100, 10]);
        }
        assert_eq!(sends_for_writes(&probes, &[100]), ["more", "push"]);
        assert_eq!(sends_for_writes(&probes, &[100]), ["send"], "no second write is expected any more");
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn writes_outside_the_loop_are_sent_at_once() {
    isolated(|| {
        let probes = ConnectedProbes::new("outside");
        for _ in 0..3 {
            sends_for_writes(&probes, &[100, 10]);
        }
        probes.test_loop.control.take_log();
        probes.client.write(7);
        probes.client.write(8);
        assert_eq!(take_sends(&probes), ["send", "send"]);
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn a_partial_send_of_a_coalesced_write_loses_nothing() {
    isolated(|| {
        for size in [0, 1, 50] {
            let probes = ConnectedProbes::new(&format!("the kernel accepts {size} bytes of the first write"));
            for _ in 0..2 {
                sends_for_writes(&probes, &[100, 10]);
            }
            probes.test_loop.control.plan(FaultPlan::short_send(size).on(probes.client_fd));
            // Buffered data is sent when the fd is writable, not at the end of the callback.
            assert_eq!(sends_for_writes(&probes, &[100, 10])[..2], ["more", "push"]);
            probes.run_until_received();
            probes.close_and_check();
        }
    });
}

#[test]
fn a_failed_push_is_ignored() {
    isolated(|| {
        let probes = ConnectedProbes::new("a push fails");
        for _ in 0..2 {
            sends_for_writes(&probes, &[100, 10]);
        }
        probes.test_loop.control.plan(FaultPlan::fail(Op::Push, libc::EOPNOTSUPP).on(probes.client_fd));
        assert_eq!(sends_for_writes(&probes, &[100]), ["more", "push"]);
        assert_eq!(sends_for_writes(&probes, &[10]), ["send"]);
        probes.run_until_received();
        probes.close_and_check();
    });
}

#[test]
fn coalesced_writes_survive_closing_in_the_same_callback() {
    isolated(|| {
        for ending in ["close", "abort", "end of writing", "failure"] {
            let probes = ConnectedProbes::new(ending);
            for _ in 0..2 {
                sends_for_writes(&probes, &[100, 10]);
            }
            probes.run_until_received();
            let client = probes.client.clone();
            let control = probes.test_loop.control.clone();
            let fd = probes.client_fd;
            probes
                .test_loop
                .event_loop
                .call_soon(move || {
                    let Some(transport) = client.transport() else { panic!("{ending}: lost too early") };
                    client.write(100);
                    match ending {
                        "close" => transport.close(),
                        "abort" => transport.abort(),
                        "end of writing" => transport.write_eof(),
                        _ => {
                            control.plan(FaultPlan::fail(Op::Send, libc::ECONNRESET).on(fd));
                            transport.write(b"x");
                        }
                    }
                })
                .unwrap();
            probes.run_until_lost();
            assert_eq!(probes.peer.received.borrow().len(), probes.client.sent.get(), "{ending}");
            probes.close_and_check();
        }
    });
}
