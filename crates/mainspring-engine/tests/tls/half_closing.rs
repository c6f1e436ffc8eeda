//! One direction ends and the other goes on, with a session that can do that.

use crate::face::{LIMITS, Stage};
use mainspring_engine::tls::TlsOptions;

/// Two ends that stand, whose sessions can half-close, and whose protocols keep the connection open.
fn half_closing() -> Stage {
    let stage = Stage::connected();
    for end in [&stage.client, &stage.server] {
        end.tls.session().can_half_close.set(true);
        end.tls.sink().keeps_open.set(true);
    }
    stage
}

#[test]
fn the_end_of_one_direction_is_told_after_its_data_and_the_other_goes_on() {
    let stage = half_closing();
    stage.write(&stage.client, b"question");
    stage.client.tls.write_eof(stage.cx(&stage.client)).unwrap();
    assert!(stage.client.tls.check_write().is_err());
    stage.settle();
    assert_eq!(stage.server.log(), ["made", "data 8", "eof"]);
    assert!(!stage.server.wire.is_closed() && !stage.client.wire.is_closed());
    stage.write(&stage.server, b"answer");
    stage.settle();
    assert_eq!(stage.client.received(), b"answer");
    stage.server.tls.write_eof(stage.cx(&stage.server)).unwrap();
    stage.settle();
    for end in [&stage.client, &stage.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
        end.tls.connection_lost(stage.cx(end), None).unwrap();
    }
    assert_eq!(stage.engine.timers_len(), 0);
}

#[test]
fn a_protocol_that_does_not_keep_it_open_closes_it() {
    let stage = half_closing();
    stage.server.tls.sink().keeps_open.set(false);
    stage.client.tls.write_eof(stage.cx(&stage.client)).unwrap();
    stage.settle();
    for end in [&stage.client, &stage.server] {
        assert!(end.wire.is_closed() && end.wire.forced().is_none());
    }
}

#[test]
fn a_session_that_cannot_closes_whatever_the_protocol_says() {
    let stage = Stage::connected();
    stage.server.tls.sink().keeps_open.set(true);
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert!(stage.server.wire.is_closed() && stage.server.wire.forced().is_none());
}

#[test]
fn the_end_of_writing_waits_for_the_handshake() {
    let stage = Stage::with(TlsOptions { is_upgrade: true, ..LIMITS });
    for end in [&stage.client, &stage.server] {
        end.tls.session().can_half_close.set(true);
        end.tls.sink().keeps_open.set(true);
    }
    stage.begin();
    stage.write(&stage.client, b"early");
    stage.client.tls.write_eof(stage.cx(&stage.client)).unwrap();
    stage.client.tls.write_eof(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert_eq!(stage.server.log(), ["data 5", "eof"]);
}

#[test]
fn the_end_of_the_stream_below_without_a_goodbye_is_a_failure() {
    let stage = half_closing();
    stage.write(&stage.server, b"some");
    stage.carry(&stage.server, &stage.client);
    stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap();
    assert_eq!(stage.client.log(), ["made", "data 4"]);
    assert_eq!(stage.client.wire.forced(), Some(Some("truncated".to_owned())));
    assert_eq!(stage.reports(), ["Fatal error on SSL protocol: truncated"]);
}

#[test]
fn a_stream_that_is_cut_during_a_pause_brings_its_data_first() {
    let stage = half_closing();
    stage.client.tls.pause_reading();
    stage.write(&stage.server, b"some");
    stage.carry(&stage.server, &stage.client);
    assert!(stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap(), "closed too early");
    assert_eq!(stage.client.wire.forced(), None);
    stage.client.tls.resume_reading(stage.cx(&stage.client)).unwrap();
    stage.pass();
    assert_eq!(stage.client.log(), ["made", "data 4"]);
    assert_eq!(stage.client.wire.forced(), Some(Some("truncated".to_owned())));
    assert_eq!(stage.reports(), ["Fatal error on SSL protocol: truncated"]);
}

#[test]
fn a_goodbye_before_the_end_of_the_stream_below_leaves_it_open_for_writing() {
    let stage = half_closing();
    stage.client.tls.pause_reading();
    stage.write(&stage.server, b"some");
    stage.server.tls.write_eof(stage.cx(&stage.server)).unwrap();
    stage.carry(&stage.server, &stage.client);
    assert!(stage.client.tls.eof_received(stage.cx(&stage.client)).unwrap(), "closed too early");
    stage.client.tls.resume_reading(stage.cx(&stage.client)).unwrap();
    stage.pass();
    assert_eq!(stage.client.log(), ["made", "data 4", "eof"]);
    stage.write(&stage.client, b"answer");
    stage.client.tls.close(stage.cx(&stage.client)).unwrap();
    stage.settle();
    assert_eq!(stage.server.received(), b"answer");
    assert!(stage.client.wire.is_closed() && stage.client.wire.forced().is_none());
}
