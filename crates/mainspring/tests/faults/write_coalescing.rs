//! Small writes of one callback leave in one packet, and nothing stays in the buffer.

use crate::conversation::Conversation;
use mainspring_engine::testing::{Call, FaultPlan, Op};
use test_support::guarded;

/// The sends of the client's connection for writes of these sizes in one callback.
fn turn(talk: &Conversation, pieces: &[usize]) -> Vec<&'static str> {
    talk.stage.control.take_log();
    let client = talk.client.clone();
    let pieces = pieces.to_vec();
    talk.stage.event_loop.call_soon(move || pieces.iter().for_each(|&size| client.write(size))).unwrap();
    talk.stage.pass();
    calls(talk)
}

/// The send calls on the client's fd.
fn calls(talk: &Conversation) -> Vec<&'static str> {
    let log = talk.stage.control.take_log();
    let of_the_client = log.iter().filter(|entry| entry.call.fd() == Some(talk.client_fd));
    of_the_client
        .filter_map(|entry| match entry.call {
            Call::Send { .. } => Some("send"),
            Call::SendMore { .. } => Some("more"),
            Call::Push { .. } => Some("push"),
            _ => None,
        })
        .collect()
}

#[test]
fn a_connection_that_writes_in_pieces_comes_to_send_them_as_one() {
    guarded(|| {
        let talk = Conversation::new("pieces");
        assert_eq!(turn(&talk, &[100, 10]), ["send", "send"]);
        assert_eq!(turn(&talk, &[100, 10]), ["send", "send"]);
        assert_eq!(turn(&talk, &[100, 10]), ["more", "send"]);
        talk.let_arrive();
        assert_eq!(turn(&talk, &[100, 10, 5]), ["more", "send", "send"]);
        assert_eq!(turn(&talk, &[9000, 10]), ["send", "send"], "a large piece goes by itself");
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn a_piece_that_is_not_followed_by_another_leaves_with_its_turn() {
    guarded(|| {
        let talk = Conversation::new("a piece alone");
        for _ in 0..3 {
            turn(&talk, &[100, 10]);
        }
        assert_eq!(turn(&talk, &[100]), ["more", "push"]);
        assert_eq!(turn(&talk, &[100]), ["send"], "nothing is expected after that");
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn writes_outside_of_the_loop_go_at_once() {
    guarded(|| {
        let talk = Conversation::new("outside");
        for _ in 0..3 {
            turn(&talk, &[100, 10]);
        }
        talk.stage.control.take_log();
        talk.client.write(7);
        talk.client.write(8);
        assert_eq!(calls(&talk), ["send", "send"]);
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn whatever_becomes_of_a_piece_in_the_middle_everything_arrives() {
    guarded(|| {
        for size in [0, 1, 50] {
            let talk = Conversation::new(&format!("the kernel takes {size} bytes of the first piece"));
            for _ in 0..2 {
                turn(&talk, &[100, 10]);
            }
            talk.stage.control.plan(FaultPlan::short_send(size).on(talk.client_fd));
            // Data that waits for the kernel is sent when the fd is writable, not at the end of the turn.
            assert_eq!(turn(&talk, &[100, 10])[..2], ["more", "push"]);
            talk.let_arrive();
            talk.end();
        }
    });
}

#[test]
fn a_push_that_fails_does_no_harm() {
    guarded(|| {
        let talk = Conversation::new("a push fails");
        for _ in 0..2 {
            turn(&talk, &[100, 10]);
        }
        talk.stage.control.plan(FaultPlan::fail(Op::Push, libc::EOPNOTSUPP).on(talk.client_fd));
        assert_eq!(turn(&talk, &[100]), ["more", "push"]);
        assert_eq!(turn(&talk, &[10]), ["send"]);
        talk.let_arrive();
        talk.end();
    });
}

#[test]
fn a_connection_that_is_lost_or_closed_in_its_turn_ends_as_any() {
    guarded(|| {
        for ending in ["close", "abort", "end of writing", "failure"] {
            let talk = Conversation::new(ending);
            for _ in 0..2 {
                turn(&talk, &[100, 10]);
            }
            talk.let_arrive();
            let client = talk.client.clone();
            let control = talk.stage.control.clone();
            let fd = talk.client_fd;
            talk.stage
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
            talk.until_lost();
            assert_eq!(talk.peer.received.borrow().len(), talk.client.sent.get(), "{ending}");
            talk.end();
        }
    });
}
