//! Half-close: one direction ends before the other, with a session that supports it.

use crate::fixture::{Fixture, LIMITS};
use mainspring_engine::tls::TlsOptions;

/// Two connected ends whose sessions can half-close and whose protocols keep the connection open.
fn half_close() -> Fixture {
    let fixture = Fixture::connected();
    for end in [&fixture.client, &fixture.server] {
        end.tls.session().can_half_close.set(true);
        end.tls.sink().keeps_open.set(true);
    }
    fixture
}

#[test]
fn eof_follows_the_data_and_the_other_direction_stays_open() {
    let fixture = half_close();
    fixture.write(&fixture.client, b"question");
    fixture.client.tls.write_eof(fixture.cx(&fixture.client)).unwrap();
    assert!(fixture.client.tls.check_write().is_err());
    fixture.run_until_idle();
    assert_eq!(fixture.server.log(), ["made", "data 8", "eof"]);
    assert!(!fixture.server.wire.is_closed() && !fixture.client.wire.is_closed());
    fixture.write(&fixture.server, b"answer");
    fixture.run_until_idle();
    assert_eq!(fixture.client.received(), b"answer");
    fixture.server.tls.write_eof(fixture.cx(&fixture.server)).unwrap();
    fixture.run_until_idle();
    for end in [&fixture.client, &fixture.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
        end.tls.connection_lost(fixture.cx(end), None).unwrap();
    }
    assert_eq!(fixture.engine.timers_len(), 0);
}

#[test]
fn a_protocol_that_does_not_keep_the_connection_open_closes_it() {
    let fixture = half_close();
    fixture.server.tls.sink().keeps_open.set(false);
    fixture.client.tls.write_eof(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    for end in [&fixture.client, &fixture.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
    }
}

#[test]
fn a_session_without_half_close_closes_the_connection() {
    let fixture = Fixture::connected();
    fixture.server.tls.sink().keeps_open.set(true);
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert!(fixture.server.wire.is_closed() && fixture.server.wire.forced().is_none());
}

#[test]
fn write_eof_waits_for_the_handshake() {
    let fixture = Fixture::with(TlsOptions { is_upgrade: true, ..LIMITS });
    for end in [&fixture.client, &fixture.server] {
        end.tls.session().can_half_close.set(true);
        end.tls.sink().keeps_open.set(true);
    }
    fixture.connect();
    fixture.write(&fixture.client, b"early");
    fixture.client.tls.write_eof(fixture.cx(&fixture.client)).unwrap();
    fixture.client.tls.write_eof(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert_eq!(fixture.server.log(), ["data 5", "eof"]);
}

#[test]
fn eof_without_close_notify_is_an_error() {
    let fixture = half_close();
    fixture.write(&fixture.server, b"some");
    fixture.transfer(&fixture.server, &fixture.client);
    fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap();
    assert_eq!(fixture.client.log(), ["made", "data 4"]);
    assert_eq!(fixture.client.wire.forced(), Some(Some("truncated".to_owned())));
    assert_eq!(fixture.reports(), ["Fatal error on SSL protocol: truncated"]);
}

#[test]
fn truncation_during_a_pause_follows_the_data() {
    let fixture = half_close();
    fixture.client.tls.pause_reading();
    fixture.write(&fixture.server, b"some");
    fixture.transfer(&fixture.server, &fixture.client);
    assert!(fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap(), "closed too early");
    assert_eq!(fixture.client.wire.forced(), None);
    fixture.client.tls.resume_reading(fixture.cx(&fixture.client)).unwrap();
    fixture.run_once();
    assert_eq!(fixture.client.log(), ["made", "data 4"]);
    assert_eq!(fixture.client.wire.forced(), Some(Some("truncated".to_owned())));
    assert_eq!(fixture.reports(), ["Fatal error on SSL protocol: truncated"]);
}

#[test]
fn eof_after_close_notify_leaves_the_connection_open_for_writing() {
    let fixture = half_close();
    fixture.client.tls.pause_reading();
    fixture.write(&fixture.server, b"some");
    fixture.server.tls.write_eof(fixture.cx(&fixture.server)).unwrap();
    fixture.transfer(&fixture.server, &fixture.client);
    assert!(fixture.client.tls.eof_received(fixture.cx(&fixture.client)).unwrap(), "closed too early");
    fixture.client.tls.resume_reading(fixture.cx(&fixture.client)).unwrap();
    fixture.run_once();
    assert_eq!(fixture.client.log(), ["made", "data 4", "eof"]);
    fixture.write(&fixture.client, b"answer");
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.run_until_idle();
    assert_eq!(fixture.server.received(), b"answer");
    assert!(fixture.client.wire.is_closed() && fixture.client.wire.forced().is_none());
}
