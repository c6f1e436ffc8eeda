//! How a connection starts, or fails to start.

use crate::fixture::{Failure, Fixture, LIMITS};
use mainspring_engine::tls::TlsOptions;
use std::time::Duration;

#[test]
fn both_protocols_are_connected_when_the_handshake_is_done() {
    let fixture = Fixture::new();
    fixture.connect();
    assert!(fixture.client.log().is_empty());
    fixture.run_until_idle();
    for end in [&fixture.client, &fixture.server] {
        assert_eq!(end.log(), ["made"]);
        assert_eq!(end.outcomes(), [None]);
    }
    assert_eq!(fixture.engine.timers_len(), 0);
}

#[test]
fn data_after_the_handshake_is_delivered_after_connection_made() {
    let fixture = Fixture::new();
    fixture.connect();
    fixture.transfer(&fixture.client, &fixture.server);
    fixture.write(&fixture.server, b"first");
    fixture.transfer(&fixture.server, &fixture.client);
    assert_eq!(fixture.client.log(), ["made", "data 5"]);
}

#[test]
fn an_upgraded_protocol_gets_no_connection_made_and_may_write_during_the_handshake() {
    let fixture = Fixture::with(TlsOptions { is_upgrade: true, ..LIMITS });
    fixture.connect();
    fixture.write(&fixture.client, b"early");
    assert_eq!(fixture.client.tls.write_buffer_size(fixture.cx(&fixture.client)).unwrap(), 5);
    fixture.run_until_idle();
    assert_eq!(fixture.server.received(), b"early");
    assert!(fixture.client.log().is_empty());
}

#[test]
fn a_protocol_paused_before_the_upgrade_is_resumed_after_it() {
    let fixture = Fixture::with(TlsOptions { is_upgrade: true, is_writing_paused: true, ..LIMITS });
    fixture.connect();
    assert_eq!(fixture.client.wire.writes(), 0);
    for end in [&fixture.client, &fixture.server] {
        assert!(end.tls.is_writing_paused());
        end.tls.resume_writing(fixture.cx(end)).unwrap();
        assert_eq!(end.log(), ["resume"]);
    }
    fixture.run_until_idle();
    assert_eq!(fixture.client.outcomes(), [None]);
}

#[test]
fn a_peer_without_tls_fails_the_handshake_and_gets_an_alert() {
    let fixture = Fixture::new();
    fixture.connect();
    fixture.client.wire.take();
    fixture.client.tls.data_received(fixture.cx(&fixture.client), b"D\x00\x00").unwrap();
    assert_eq!(fixture.client.wire.forced(), Some(Some("bad handshake".to_owned())));
    assert!(fixture.client.wire.take().starts_with(b"C"), "no alert");
    assert_eq!(fixture.client.outcomes(), [Some("bad handshake".to_owned())]);
    assert_eq!(fixture.reports(), ["handshake failed: bad handshake"]);
    let cx = fixture.cx(&fixture.client);
    fixture.client.tls.connection_lost(cx, Some(Failure("bad handshake".to_owned()))).unwrap();
    assert!(fixture.client.log().is_empty(), "connection_lost without connection_made");
    assert_eq!(fixture.engine.timers_len(), 1, "only the server's timer is left");
}

#[test]
fn eof_during_the_handshake_is_a_reset() {
    let fixture = Fixture::new();
    fixture.connect();
    assert!(!fixture.server.tls.eof_received(fixture.cx(&fixture.server)).unwrap());
    assert_eq!(fixture.server.outcomes(), [Some("HandshakeReset".to_owned())]);
    assert_eq!(fixture.reports(), ["handshake failed: HandshakeReset"]);
}

#[test]
fn a_handshake_has_a_time_limit() {
    let fixture = Fixture::new();
    fixture.connect();
    fixture.advance(Duration::from_secs(59));
    assert!(!fixture.client.wire.is_closed());
    fixture.advance(Duration::from_secs(2));
    for end in [&fixture.client, &fixture.server] {
        assert_eq!(end.wire.forced(), Some(Some("HandshakeTimeout".to_owned())));
    }
    assert_eq!(fixture.reports(), ["Fatal error on transport: HandshakeTimeout"; 2]);
}

#[test]
fn a_failed_upgrade_calls_connection_lost() {
    let fixture = Fixture::with(TlsOptions { is_upgrade: true, ..LIMITS });
    fixture.connect();
    let failure = Failure("reset".to_owned());
    fixture.client.tls.connection_lost(fixture.cx(&fixture.client), Some(failure)).unwrap();
    assert_eq!(fixture.client.log(), ["lost Some(\"reset\")"]);
    assert_eq!(fixture.client.outcomes(), [Some("reset".to_owned())]);
}

#[test]
fn close_before_connection_made_takes_effect_later() {
    let fixture = Fixture::new();
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    fixture.connect();
    assert_eq!(fixture.client.wire.forced(), Some(None));
    assert_eq!(fixture.client.wire.writes(), 0);
    fixture.client.tls.connection_lost(fixture.cx(&fixture.client), None).unwrap();
    assert_eq!(fixture.client.outcomes(), [Some("HandshakeReset".to_owned())]);
    assert!(fixture.client.log().is_empty());
}

#[test]
fn close_during_the_handshake_aborts() {
    let fixture = Fixture::new();
    fixture.connect();
    fixture.client.tls.close(fixture.cx(&fixture.client)).unwrap();
    assert_eq!(fixture.client.wire.forced(), Some(None));
}
