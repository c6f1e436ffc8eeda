//! How a connection ends.

use crate::face::{Failure, Stage};
use mainspring_engine::transport::WaterMarks;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn closing_in_order_says_goodbye_both_ways_and_then_closes_below() {
    let stage = Stage::connected();
    stage.write(&stage.client, b"last");
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    assert!(stage.client.tls.is_closed());
    assert!(!stage.client.wire.is_closed(), "the peer has not answered");
    stage.settle();
    for end in [&stage.client, &stage.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
        end.tls.connection_lost(stage.cx(end), None).unwrap();
    }
    assert_eq!(stage.client.log(), ["made", "eof", "lost None"]);
    assert_eq!(stage.server.log(), ["made", "data 4", "eof", "lost None"]);
    assert_eq!(stage.engine.timers_len(), 0);
}

#[test]
fn what_has_arrived_is_delivered_before_the_goodbye() {
    let stage = Stage::connected();
    stage.server.tls.sink().buffer.set(3);
    stage.write(&stage.client, b"0123456789");
    stage.carry(&stage.client, &stage.server);
    stage.server.tls.close(stage.cx(&stage.server)).unwrap();
    assert_eq!(stage.server.received(), b"0123456789");
}

#[test]
fn what_waits_is_handed_over_although_the_transport_below_asked_for_a_pause() {
    let stage = Stage::connected();
    stage.client.tls.pause_writing();
    stage.write(&stage.client, b"waits");
    stage.server.tls.close(stage.cx(&stage.server)).unwrap();
    stage.carry(&stage.server, &stage.client);
    assert!(stage.client.wire.writes() > 0);
}

#[test]
fn a_shutdown_has_a_time_limit() {
    let stage = Stage::connected();
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.wait(Duration::from_secs(29));
    assert!(!stage.client.wire.is_closed());
    stage.wait(Duration::from_secs(2));
    assert_eq!(stage.client.wire.forced(), Some(Some("ShutdownTimeout".to_owned())));
}

#[test]
fn the_limit_holds_until_the_connection_is_lost() {
    let stage = Stage::connected();
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert!(stage.server.wire.is_closed() && stage.server.wire.forced().is_none());
    // Below, nothing leaves: a peer that does not read.
    stage.wait(Duration::from_secs(31));
    assert_eq!(stage.server.wire.forced(), Some(Some("ShutdownTimeout".to_owned())));
}

#[test]
fn data_after_the_goodbye_ends_the_connection() {
    let stage = Stage::connected();
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.client.wire.take();
    stage.write(&stage.server, b"still here");
    stage.carry(&stage.server, &stage.client);
    assert!(stage.client.received().is_empty());
    assert_eq!(stage.client.wire.forced(), Some(Some("data after goodbye".to_owned())));
    assert_eq!(stage.reports(), ["Fatal error on transport: data after goodbye"]);
}

#[test]
fn the_end_of_the_stream_is_an_end() {
    let stage = Stage::connected();
    assert!(!stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap());
    assert_eq!(stage.client.log(), ["made", "eof"]);
    stage.settle();
    assert!(stage.client.wire.is_closed());
}

#[test]
fn the_end_of_the_stream_waits_for_a_protocol_that_paused() {
    let stage = Stage::connected();
    stage.client.tls.pause_reading();
    stage.write(&stage.server, b"the rest");
    stage.carry(&stage.server, &stage.client);
    assert!(stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap(), "closed too early");
    stage.client.tls.resume_reading(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert_eq!(stage.client.log(), ["made", "data 8", "eof"]);
    assert!(stage.client.wire.is_closed());
}

#[test]
fn a_pause_in_the_middle_of_the_rest_is_respected() {
    let stage = Stage::connected();
    stage.client.tls.sink().buffer.set(4);
    stage.client.tls.pause_reading();
    stage.write(&stage.server, b"the rest");
    stage.carry(&stage.server, &stage.client);
    stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap();
    let client = Rc::downgrade(&stage.client);
    stage.client.on_data(move |_| client.upgrade().unwrap().tls.pause_reading());
    for expected in ["the ", "the rest"] {
        stage.client.tls.resume_reading(stage.cx(&stage.client)).unwrap();
        stage.settle();
        assert_eq!(stage.client.received(), expected.as_bytes());
    }
    stage.client.tls.resume_reading(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert_eq!(stage.client.log(), ["made", "data 4", "data 4", "eof"]);
    assert!(stage.client.wire.is_closed());
}

#[test]
fn an_abort_out_of_any_callback_ends_it() {
    let stage = Stage::connected();
    let client = Rc::downgrade(&stage.client);
    stage.client.on_data(move |cx| {
        let client = client.upgrade().unwrap();
        client.tls.close(cx).unwrap();
        client.tls.abort(cx, Some(Failure("enough".to_owned()))).unwrap();
        client.tls.close(cx).unwrap();
    });
    stage.write(&stage.server, b"x");
    stage.settle();
    assert_eq!(stage.client.wire.forced(), Some(Some("enough".to_owned())));
    for end in [&stage.client, &stage.server] {
        end.tls.connection_lost(stage.cx(end), None).unwrap();
        assert_eq!(end.log().last().map(String::as_str), Some("lost None"));
    }
    assert_eq!(stage.engine.timers_len(), 0);
}

#[test]
fn a_transport_below_that_dies_is_told() {
    let stage = Stage::connected();
    let cx = stage.cx(&stage.client);
    stage.client.tls.connection_lost(cx, Some(Failure("reset".to_owned()))).unwrap();
    assert!(stage.client.tls.is_closing(cx).unwrap());
    assert_eq!(stage.client.log(), ["made", "lost Some(\"reset\")"]);
}

#[test]
fn writes_after_the_end_are_counted_and_warned_about() {
    let stage = Stage::connected();
    stage.client.tls.connection_lost(stage.cx(&stage.client), None).unwrap();
    (0..4).for_each(|_| stage.write(&stage.client, b"x"));
    assert!(stage.reports().is_empty());
    stage.write(&stage.client, b"x");
    assert_eq!(stage.reports(), ["lost: written"]);
}

#[test]
fn nothing_is_sent_or_asked_after_the_end() {
    let stage = Stage::connected();
    let client = &stage.client;
    let cx = stage.cx(client);
    client.tls.connection_lost(cx, None).unwrap();
    client.tls.data_received(cx, b"D\x00\x01\xff").unwrap();
    client.tls.resume_writing(cx).unwrap();
    client.tls.set_write_marks(cx, WaterMarks { high: 0, low: 0 }).unwrap();
    client.tls.set_read_marks(cx, WaterMarks { high: 0, low: 0 }).unwrap();
    assert!(!client.tls.eof_received(cx).unwrap());
    client.tls.close(cx).unwrap();
    client.tls.abort(cx, None).unwrap();
    stage.settle();
    assert_eq!(client.log(), ["made", "lost None"]);
    assert_eq!(client.wire.writes(), 0);
}
