//! Data in both directions, and its flow control.

use crate::fixture::{Failure, Fixture};
use mainspring_engine::transport::WaterMarks;
use std::rc::Rc;

#[test]
fn data_arrives_as_it_was_written() {
    let fixture = Fixture::connected();
    fixture.write(&fixture.client, b"one");
    fixture.write(&fixture.client, &[7; 200_000]);
    fixture.run_until_idle();
    assert_eq!(fixture.server.received(), [b"one".as_slice(), &[7; 200_000]].concat());
}

#[test]
fn a_session_that_accepts_part_of_a_chunk_gets_the_rest() {
    let fixture = Fixture::connected();
    fixture.client.tls.session().max_write.set(3);
    fixture.write(&fixture.client, b"0123456789");
    fixture.run_until_idle();
    assert_eq!(fixture.server.received(), b"0123456789");
}

#[test]
fn a_write_from_inside_the_session_keeps_its_place() {
    let fixture = Fixture::connected();
    let inner = Rc::downgrade(&fixture.client);
    *fixture.client.tls.session().on_write.borrow_mut() = Some(Box::new(move |cx| {
        let end = inner.upgrade().unwrap();
        end.tls.write(cx, [b"second".to_vec()]).unwrap();
    }));
    fixture.write(&fixture.client, b"first ");
    fixture.run_until_idle();
    assert_eq!(fixture.server.received(), b"first second");
}

#[test]
fn writes_inside_data_received_are_sent_together() {
    let fixture = Fixture::connected();
    let server = Rc::downgrade(&fixture.server);
    fixture.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        for part in ["head ", "body"] {
            server.tls.write(cx, [part.into()]).unwrap();
            assert_eq!(server.wire.writes(), 0);
        }
    });
    fixture.write(&fixture.client, b"?");
    fixture.transfer(&fixture.client, &fixture.server);
    assert_eq!(fixture.server.wire.writes(), 1);
    fixture.run_until_idle();
    assert_eq!(fixture.client.received(), b"head body");
}

#[test]
fn large_writes_inside_data_received_are_sent_at_once() {
    let fixture = Fixture::connected();
    let server = Rc::downgrade(&fixture.server);
    fixture.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        server.tls.write(cx, [vec![1; 100_000]]).unwrap();
        assert_eq!(server.wire.writes(), 1);
        server.tls.write(cx, [b"x".to_vec()]).unwrap();
        assert_eq!(server.tls.write_buffer_size(cx).unwrap(), 0, "write_buffer_size sends it");
        assert_eq!(server.wire.writes(), 2);
    });
    fixture.write(&fixture.client, b"?");
    fixture.transfer(&fixture.client, &fixture.server);
}

#[test]
fn abort_inside_data_received_sends_earlier_writes() {
    let fixture = Fixture::connected();
    let server = Rc::downgrade(&fixture.server);
    fixture.server.on_data(move |cx| {
        let server = server.upgrade().unwrap();
        server.tls.write(cx, [b"goodbye".to_vec()]).unwrap();
        server.tls.abort(cx, None).unwrap();
    });
    fixture.write(&fixture.client, b"?");
    fixture.transfer(&fixture.client, &fixture.server);
    fixture.transfer(&fixture.server, &fixture.client);
    assert_eq!(fixture.client.received(), b"goodbye");
    assert_eq!(fixture.server.wire.forced(), Some(None));
}

#[test]
fn a_protocol_is_paused_above_the_high_water_mark_and_resumed_when_sent() {
    let fixture = Fixture::connected();
    let client = &fixture.client;
    client.tls.set_write_marks(fixture.cx(client), WaterMarks { high: 1000, low: 100 }).unwrap();
    client.tls.pause_writing();
    fixture.write(client, &[0; 500]);
    assert_eq!(client.log(), ["made"]);
    fixture.write(client, &[0; 600]);
    assert_eq!(client.log(), ["made", "pause"]);
    assert_eq!(client.wire.writes(), 0);
    client.tls.resume_writing(fixture.cx(client)).unwrap();
    assert_eq!(client.log(), ["made", "pause", "resume"]);
    assert_eq!(client.wire.writes(), 1);
}

#[test]
fn an_error_in_pause_writing_is_reported_and_the_connection_continues() {
    let fixture = Fixture::connected();
    let client = &fixture.client;
    client.tls.set_write_marks(fixture.cx(client), WaterMarks { high: 0, low: 0 }).unwrap();
    client.tls.pause_writing();
    *client.tls.sink().failure.borrow_mut() = Some(Failure("no".to_owned()));
    fixture.write(client, b"x");
    assert_eq!(fixture.reports(), ["protocol.pause_writing() failed: no"]);
    assert!(!client.wire.is_closed());
}

#[test]
fn a_pause_stops_delivery_and_pauses_the_lower_transport() {
    let fixture = Fixture::connected();
    let server = &fixture.server;
    server.tls.set_read_marks(fixture.cx(server), WaterMarks { high: 1000, low: 10 }).unwrap();
    server.tls.pause_reading();
    fixture.write(&fixture.client, &[1; 500]);
    fixture.run_until_idle();
    assert!(!server.wire.is_reading_paused());
    fixture.write(&fixture.client, &[2; 600]);
    fixture.run_until_idle();
    assert!(server.wire.is_reading_paused());
    assert!(server.received().is_empty());
    assert!(server.tls.read_buffer_size(fixture.cx(server)).unwrap() > 1000);
    server.tls.resume_reading(fixture.cx(server)).unwrap();
    assert!(server.received().is_empty(), "not before the next iteration");
    fixture.run_once();
    assert_eq!(server.received().len(), 1100);
    assert!(!server.wire.is_reading_paused());
}

#[test]
fn a_buffered_protocol_gets_one_buffer_per_iteration() {
    let fixture = Fixture::connected();
    fixture.server.tls.sink().buffer.set(4);
    fixture.write(&fixture.client, b"0123456789");
    fixture.transfer(&fixture.client, &fixture.server);
    for expected in ["0123", "01234567", "0123456789"] {
        assert_eq!(fixture.server.received(), expected.as_bytes());
        fixture.run_once();
    }
    assert_eq!(fixture.server.log(), ["made", "data 4", "data 4", "data 2"]);
}

#[test]
fn a_protocol_that_stops_being_buffered_gets_the_rest_at_once() {
    let fixture = Fixture::connected();
    fixture.server.tls.sink().buffer.set(4);
    fixture.write(&fixture.client, b"0123456789");
    fixture.transfer(&fixture.client, &fixture.server);
    fixture.server.tls.sink().buffer.set(0);
    fixture.run_once();
    assert_eq!(fixture.server.log(), ["made", "data 4", "data 6"]);
}

#[test]
fn an_error_in_data_received_loses_the_connection() {
    let fixture = Fixture::connected();
    *fixture.server.tls.sink().failure.borrow_mut() = Some(Failure("no".to_owned()));
    fixture.write(&fixture.client, b"x");
    fixture.transfer(&fixture.client, &fixture.server);
    assert_eq!(fixture.server.wire.forced(), Some(Some("no".to_owned())));
    assert_eq!(fixture.reports(), ["Fatal error on SSL protocol: no"]);
}
