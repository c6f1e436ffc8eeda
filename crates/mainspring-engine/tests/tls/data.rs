//! Data in both directions, and its flow control.

use crate::face::{Failure, Stage};
use mainspring_engine::transport::WaterMarks;
use std::rc::Rc;

#[test]
fn data_arrives_as_it_was_written() {
    let stage = Stage::connected();
    stage.write(&stage.client, b"one");
    stage.write(&stage.client, &[7; 200_000]);
    stage.settle();
    assert_eq!(stage.server.received(), [b"one".as_slice(), &[7; 200_000]].concat());
}

#[test]
fn a_session_that_takes_a_chunk_in_bites_gets_all_of_it() {
    let stage = Stage::connected();
    stage.client.tls.session().bite.set(3);
    stage.write(&stage.client, b"0123456789");
    stage.settle();
    assert_eq!(stage.server.received(), b"0123456789");
}

#[test]
fn a_write_out_of_the_session_itself_keeps_its_place() {
    let stage = Stage::connected();
    let inner = Rc::downgrade(&stage.client);
    *stage.client.tls.session().on_write.borrow_mut() = Some(Box::new(move |cx| {
        let end = inner.upgrade().unwrap();
        end.tls.write(cx, [b"second".to_vec()]).unwrap();
    }));
    stage.write(&stage.client, b"first ");
    stage.settle();
    assert_eq!(stage.server.received(), b"first second");
}

#[test]
fn what_is_written_while_data_is_taken_leaves_in_one_piece() {
    let stage = Stage::connected();
    let server = Rc::downgrade(&stage.server);
    stage.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        for part in ["head ", "body"] {
            server.tls.write(cx, [part.into()]).unwrap();
            assert_eq!(server.wire.writes(), 0);
        }
    });
    stage.write(&stage.client, b"?");
    stage.carry(&stage.client, &stage.server);
    assert_eq!(stage.server.wire.writes(), 1);
    stage.settle();
    assert_eq!(stage.client.received(), b"head body");
}

#[test]
fn much_that_is_written_while_data_is_taken_does_not_wait() {
    let stage = Stage::connected();
    let server = Rc::downgrade(&stage.server);
    stage.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        server.tls.write(cx, [vec![1; 100_000]]).unwrap();
        assert_eq!(server.wire.writes(), 1);
        server.tls.write(cx, [b"x".to_vec()]).unwrap();
        assert_eq!(server.tls.write_buffer_size(cx).unwrap(), 0, "asking sends it");
        assert_eq!(server.wire.writes(), 2);
    });
    stage.write(&stage.client, b"?");
    stage.carry(&stage.client, &stage.server);
}

#[test]
fn an_abort_while_data_is_taken_sends_what_was_written_before_it() {
    let stage = Stage::connected();
    let server = Rc::downgrade(&stage.server);
    stage.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        server.tls.write(cx, [b"goodbye".to_vec()]).unwrap();
        server.tls.abort(cx, None).unwrap();
    });
    stage.write(&stage.client, b"?");
    stage.carry(&stage.client, &stage.server);
    stage.carry(&stage.server, &stage.client);
    assert_eq!(stage.client.received(), b"goodbye");
    assert_eq!(stage.server.wire.forced(), Some(None));
}

#[test]
fn a_protocol_is_paused_when_too_much_waits_and_resumed_when_it_has_left() {
    let stage = Stage::connected();
    let client = &stage.client;
    client.tls.set_write_marks(stage.cx(client), WaterMarks { high: 1000, low: 100 }).unwrap();
    client.tls.pause_writing();
    stage.write(client, &[0; 500]);
    assert_eq!(client.log(), ["made"]);
    stage.write(client, &[0; 600]);
    assert_eq!(client.log(), ["made", "pause"]);
    assert_eq!(client.wire.writes(), 0);
    client.tls.resume_writing(stage.cx(client)).unwrap();
    assert_eq!(client.log(), ["made", "pause", "resume"]);
    assert_eq!(client.wire.writes(), 1);
}

#[test]
fn a_protocol_that_fails_to_pause_is_reported_and_goes_on() {
    let stage = Stage::connected();
    let client = &stage.client;
    client.tls.set_write_marks(stage.cx(client), WaterMarks { high: 0, low: 0 }).unwrap();
    client.tls.pause_writing();
    *client.tls.sink().failure.borrow_mut() = Some(Failure("no".to_owned()));
    stage.write(client, b"x");
    assert_eq!(stage.reports(), ["protocol.pause_writing() failed: no"]);
    assert!(!client.wire.is_closed());
}

#[test]
fn nothing_is_delivered_during_a_pause_and_the_transport_below_is_held_up() {
    let stage = Stage::connected();
    let server = &stage.server;
    server.tls.set_read_marks(stage.cx(server), WaterMarks { high: 1000, low: 10 }).unwrap();
    server.tls.pause_reading();
    stage.write(&stage.client, &[1; 500]);
    stage.settle();
    assert!(!server.wire.is_reading_paused());
    stage.write(&stage.client, &[2; 600]);
    stage.settle();
    assert!(server.wire.is_reading_paused());
    assert!(server.received().is_empty());
    assert!(server.tls.read_buffer_size(stage.cx(server)).unwrap() > 1000);
    server.tls.resume_reading(stage.cx(server)).unwrap();
    assert!(server.received().is_empty(), "not before the next pass");
    stage.pass();
    assert_eq!(server.received().len(), 1100);
    assert!(!server.wire.is_reading_paused());
}

#[test]
fn a_protocol_with_a_buffer_gets_one_buffer_in_a_pass() {
    let stage = Stage::connected();
    stage.server.tls.sink().buffer.set(4);
    stage.write(&stage.client, b"0123456789");
    stage.carry(&stage.client, &stage.server);
    for expected in ["0123", "01234567", "0123456789"] {
        assert_eq!(stage.server.received(), expected.as_bytes());
        stage.pass();
    }
    assert_eq!(stage.server.log(), ["made", "data 4", "data 4", "data 2"]);
}

#[test]
fn a_protocol_that_gives_up_its_buffer_gets_the_rest_at_once() {
    let stage = Stage::connected();
    stage.server.tls.sink().buffer.set(4);
    stage.write(&stage.client, b"0123456789");
    stage.carry(&stage.client, &stage.server);
    stage.server.tls.sink().buffer.set(0);
    stage.pass();
    assert_eq!(stage.server.log(), ["made", "data 4", "data 6"]);
}

#[test]
fn a_protocol_that_fails_to_take_data_loses_its_connection() {
    let stage = Stage::connected();
    *stage.server.tls.sink().failure.borrow_mut() = Some(Failure("no".to_owned()));
    stage.write(&stage.client, b"x");
    stage.carry(&stage.client, &stage.server);
    assert_eq!(stage.server.wire.forced(), Some(Some("no".to_owned())));
    assert_eq!(stage.reports(), ["Fatal error on SSL protocol: no"]);
}
