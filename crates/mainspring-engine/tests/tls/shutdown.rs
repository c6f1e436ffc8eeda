//! How a connection closes.

use crate::fixture::{Failure, Fixture};
use mainspring_engine::transport::WaterMarks;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn close_exchanges_close_notify_and_then_closes_the_lower_transport() {
    let fixture = Fixture::connected();
    fixture.write(&fixture.client, b"last");
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    assert!(fixture.client.tls.is_closed());
    assert!(!fixture.client.wire.is_closed(), "the peer has not answered");
    fixture.run_until_idle();
    for end in [&fixture.client, &fixture.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
        end.tls.connection_lost(fixture.cx(end), None).unwrap();
    }
    assert_eq!(fixture.client.log(), ["made", "eof", "lost None"]);
    assert_eq!(fixture.server.log(), ["made", "data 4", "eof", "lost None"]);
    assert_eq!(fixture.engine.timers_len(), 0);
}

#[test]
fn received_data_is_delivered_before_close_notify() {
    let fixture = Fixture::connected();
    fixture.server.tls.sink().buffer.set(3);
    fixture.write(&fixture.client, b"0123456789");
    fixture.transfer(&fixture.client, &fixture.server);
    fixture.server.tls.close(fixture.cx(&fixture.server)).unwrap();
    assert_eq!(fixture.server.received(), b"0123456789");
}

#[test]
fn close_sends_buffered_data_although_the_lower_transport_is_paused() {
    let fixture = Fixture::connected();
    fixture.client.tls.pause_writing();
    fixture.write(&fixture.client, b"waits");
    fixture.server.tls.close(fixture.cx(&fixture.server)).unwrap();
    fixture.transfer(&fixture.server, &fixture.client);
    assert!(fixture.client.wire.writes() > 0);
}

#[test]
fn a_shutdown_has_a_time_limit() {
    let fixture = Fixture::connected();
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.advance(Duration::from_secs(29));
    assert!(!fixture.client.wire.is_closed());
    fixture.advance(Duration::from_secs(2));
    assert_eq!(fixture.client.wire.forced(), Some(Some("ShutdownTimeout".to_owned())));
}

#[test]
fn the_time_limit_holds_until_the_connection_is_lost() {
    let fixture = Fixture::connected();
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert!(fixture.server.wire.is_closed() && fixture.server.wire.forced().is_none());
    // The lower transport sends nothing: the peer does not read.
    fixture.advance(Duration::from_secs(31));
    assert_eq!(fixture.server.wire.forced(), Some(Some("ShutdownTimeout".to_owned())));
}

#[test]
fn data_after_close_notify_closes_the_connection() {
    let fixture = Fixture::connected();
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.client.wire.take();
    fixture.write(&fixture.server, b"still here");
    fixture.transfer(&fixture.server, &fixture.client);
    assert!(fixture.client.received().is_empty());
    assert_eq!(fixture.client.wire.forced(), Some(Some("data after close_notify".to_owned())));
    assert_eq!(fixture.reports(), ["Fatal error on transport: data after close_notify"]);
}

#[test]
fn eof_closes_the_connection() {
    let fixture = Fixture::connected();
    assert!(!fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap());
    assert_eq!(fixture.client.log(), ["made", "eof"]);
    fixture.run_until_idle();
    assert!(fixture.client.wire.is_closed());
}

#[test]
fn eof_waits_for_a_paused_protocol() {
    let fixture = Fixture::connected();
    fixture.client.tls.pause_reading();
    fixture.write(&fixture.server, b"the rest");
    fixture.transfer(&fixture.server, &fixture.client);
    assert!(fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap(), "closed too early");
    fixture.client.tls.resume_reading(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert_eq!(fixture.client.log(), ["made", "data 8", "eof"]);
    assert!(fixture.client.wire.is_closed());
}

#[test]
fn a_pause_while_delivering_the_rest_is_respected() {
    let fixture = Fixture::connected();
    fixture.client.tls.sink().buffer.set(4);
    fixture.client.tls.pause_reading();
    fixture.write(&fixture.server, b"the rest");
    fixture.transfer(&fixture.server, &fixture.client);
    fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap();
    let client = Rc::downgrade(&fixture.client);
    fixture.client.on_data(move |_| client.upgrade().unwrap().tls.pause_reading());
    for expected in ["the ", "the rest"] {
        fixture.client.tls.resume_reading(fixture.cx(&fixture.client)).unwrap();
        fixture.run_until_idle();
        assert_eq!(fixture.client.received(), expected.as_bytes());
    }
    fixture.client.tls.resume_reading(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert_eq!(fixture.client.log(), ["made", "data 4", "data 4", "eof"]);
    assert!(fixture.client.wire.is_closed());
}

#[test]
fn abort_in_any_callback_closes_the_connection() {
    let fixture = Fixture::connected();
    let client = Rc::downgrade(&fixture.client);
    fixture.client.on_data(move |cx| {
        let client = client.upgrade().unwrap();
        client.tls.close(cx).unwrap();
        client.tls.abort(cx, Some(Failure("enough".to_owned()))).unwrap();
        client.tls.close(cx).unwrap();
    });
    fixture.write(&fixture.server, b"x");
    fixture.run_until_idle();
    assert_eq!(fixture.client.wire.forced(), Some(Some("enough".to_owned())));
    for end in [&fixture.client, &fixture.server] {
        end.tls.connection_lost(fixture.cx(end), None).unwrap();
        assert_eq!(end.log().last().map(String::as_str), Some("lost None"));
    }
    assert_eq!(fixture.engine.timers_len(), 0);
}

#[test]
fn loss_of_the_lower_transport_calls_connection_lost() {
    let fixture = Fixture::connected();
    let cx = fixture.cx(&fixture.client);
    fixture.client.tls.connection_lost(cx, Some(Failure("reset".to_owned()))).unwrap();
    assert!(fixture.client.tls.is_closing(cx).unwrap());
    assert_eq!(fixture.client.log(), ["made", "lost Some(\"reset\")"]);
}

#[test]
fn writes_after_close_are_counted_and_warn() {
    let fixture = Fixture::connected();
    fixture.client.tls.connection_lost(fixture.cx(&fixture.client), None).unwrap();
    (0..4).for_each(|_| fixture.write(&fixture.client, b"x"));
    assert!(fixture.reports().is_empty());
    fixture.write(&fixture.client, b"x");
    assert_eq!(fixture.reports(), ["lost: written"]);
}

#[test]
fn nothing_happens_after_close() {
    let fixture = Fixture::connected();
    let client = &fixture.client;
    let cx = fixture.cx(client);
    client.tls.connection_lost(cx, None).unwrap();
    client.tls.data_received(cx, b"D\x00\x01\xff").unwrap();
    client.tls.resume_writing(cx).unwrap();
    client.tls.set_write_marks(cx, WaterMarks { high: 0, low: 0 }).unwrap();
    client.tls.set_read_marks(cx, WaterMarks { high: 0, low: 0 }).unwrap();
    assert!(!client.tls.eof_received(cx).unwrap());
    client.tls.close(cx).unwrap();
    client.tls.abort(cx, None).unwrap();
    fixture.run_until_idle();
    assert_eq!(client.log(), ["made", "lost None"]);
    assert_eq!(client.wire.writes(), 0);
}
