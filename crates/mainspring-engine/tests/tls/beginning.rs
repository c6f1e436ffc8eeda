//! How a connection begins, and does not.

use crate::face::{Failure, LIMITS, Stage};
use mainspring_engine::tls::TlsOptions;
use std::time::Duration;

#[test]
fn both_protocols_are_connected_when_the_handshake_is_done() {
    let stage = Stage::new();
    stage.begin();
    assert!(stage.client.log().is_empty());
    stage.settle();
    for end in [&stage.client, &stage.server] {
        assert_eq!(end.log(), ["made"]);
        assert_eq!(end.outcomes(), [None]);
    }
    assert_eq!(stage.engine.timers_len(), 0);
}

#[test]
fn data_that_comes_with_the_end_of_the_handshake_is_delivered_after_connection_made() {
    let stage = Stage::new();
    stage.begin();
    stage.carry(&stage.client, &stage.server);
    stage.write(&stage.server, b"first");
    stage.carry(&stage.server, &stage.client);
    assert_eq!(stage.client.log(), ["made", "data 5"]);
}

#[test]
fn an_upgraded_protocol_is_not_connected_anew_and_may_write_before_the_handshake_is_done() {
    let stage = Stage::with(TlsOptions { is_upgrade: true, ..LIMITS });
    stage.begin();
    stage.write(&stage.client, b"early");
    assert_eq!(stage.client.tls.write_buffer_size(stage.cx(&stage.client)).unwrap(), 5);
    stage.settle();
    assert_eq!(stage.server.received(), b"early");
    assert!(stage.client.log().is_empty());
}

#[test]
fn a_protocol_that_was_paused_before_the_upgrade_is_resumed_after_it() {
    let stage = Stage::with(TlsOptions { is_upgrade: true, is_writing_paused: true, ..LIMITS });
    stage.begin();
    assert_eq!(stage.client.wire.writes(), 0);
    for end in [&stage.client, &stage.server] {
        assert!(end.tls.is_writing_paused());
        end.tls.resume_writing(stage.cx(end)).unwrap();
        assert_eq!(end.log(), ["resume"]);
    }
    stage.settle();
    assert_eq!(stage.client.outcomes(), [None]);
}

#[test]
fn a_peer_that_speaks_something_else_fails_the_handshake_and_is_told() {
    let stage = Stage::new();
    stage.begin();
    stage.client.wire.take();
    stage.client.tls.data_received(stage.cx(&stage.client), b"D\x00\x00").unwrap();
    assert_eq!(stage.client.wire.forced(), Some(Some("bad handshake".to_owned())));
    assert!(stage.client.wire.take().starts_with(b"C"), "no alert");
    assert_eq!(stage.client.outcomes(), [Some("bad handshake".to_owned())]);
    assert_eq!(stage.reports(), ["handshake failed: bad handshake"]);
    let cx = stage.cx(&stage.client);
    stage.client.tls.connection_lost(cx, Some(Failure("bad handshake".to_owned()))).unwrap();
    assert!(stage.client.log().is_empty(), "told of an end without a beginning");
    assert_eq!(stage.engine.timers_len(), 1, "only the server still waits");
}

#[test]
fn the_end_of_the_stream_resets_the_handshake() {
    let stage = Stage::new();
    stage.begin();
    assert!(!stage.server.tls.eof_received(stage.cx(&stage.server)).unwrap());
    assert_eq!(stage.server.outcomes(), [Some("HandshakeReset".to_owned())]);
    assert_eq!(stage.reports(), ["handshake failed: HandshakeReset"]);
}

#[test]
fn a_handshake_has_a_time_limit() {
    let stage = Stage::new();
    stage.begin();
    stage.wait(Duration::from_secs(59));
    assert!(!stage.client.wire.is_closed());
    stage.wait(Duration::from_secs(2));
    for end in [&stage.client, &stage.server] {
        assert_eq!(end.wire.forced(), Some(Some("HandshakeTimeout".to_owned())));
    }
    assert_eq!(stage.reports(), ["Fatal error on transport: HandshakeTimeout"; 2]);
}

#[test]
fn a_protocol_that_knew_the_connection_hears_of_an_upgrade_that_failed() {
    let stage = Stage::with(TlsOptions { is_upgrade: true, ..LIMITS });
    stage.begin();
    let failure = Failure("reset".to_owned());
    stage.client.tls.connection_lost(stage.cx(&stage.client), Some(failure)).unwrap();
    assert_eq!(stage.client.log(), ["lost Some(\"reset\")"]);
    assert_eq!(stage.client.outcomes(), [Some("reset".to_owned())]);
}

#[test]
fn closing_before_the_beginning_is_remembered() {
    let stage = Stage::new();
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.begin();
    assert_eq!(stage.client.wire.forced(), Some(None));
    assert_eq!(stage.client.wire.writes(), 0);
    stage.client.tls.connection_lost(stage.cx(&stage.client), None).unwrap();
    assert_eq!(stage.client.outcomes(), [Some("HandshakeReset".to_owned())]);
    assert!(stage.client.log().is_empty());
}

#[test]
fn closing_during_the_handshake_is_an_abort() {
    let stage = Stage::new();
    stage.begin();
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    assert_eq!(stage.client.wire.forced(), Some(None));
}
