//! Every callback doing everything.

use crate::order::bind_near;
use crate::stage::{Deed, Stage, Told};
use mainspring_engine::transport::Transport as _;
use test_support::{On, guarded};

const DEEDS: [Deed; 6] =
    [Deed::Close, Deed::Abort, Deed::Send, Deed::Fail, Deed::PauseReading, Deed::DropAll];

fn every_deed_in(when: &Told) {
    guarded(|| {
        for on in On::ALL {
            for deed in DEEDS {
                play(on, when.clone(), deed);
            }
        }
    });
}

fn play(on: On, when: Told, deed: Deed) {
    let stage = Stage::new(on);
    let kind = std::mem::discriminant(&when);
    *stage.protocol().when.borrow_mut() = Some((when, deed));
    stage.pass();
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
    let name = std::env::temp_dir().join(format!("mainspring-deeds-{}-{thread}", std::process::id()));
    let alive = |stage: &Stage| !stage.transport.is_closing();
    if alive(&stage) {
        bind_near(&stage, &name);
        stage.peer.send_to(b"data", &name).unwrap();
        (0..3).for_each(|_| stage.pass());
    }
    if alive(&stage) {
        // Too long for any socket: told at once, to whoever sends.
        let sent = stage.transport.send_to(
            stage.cx(),
            &vec![0; 64 << 20],
            mainspring_engine::transport::Destination::Connected,
            || Some(Vec::new()),
        );
        assert_eq!(sent.is_err(), deed == Deed::Fail && kind == std::mem::discriminant(&Told::Error(0)));
    }
    if alive(&stage) {
        stage.set_marks(1, 0);
        stage.fill();
        stage.arrived();
        (0..5).for_each(|_| stage.pass());
    }
    stage.transport.close(stage.cx()).unwrap();
    while !stage.transport.is_finished() {
        stage.arrived();
        stage.pass();
    }
    stage.until_lost();
    let reports = stage.engine.host().reports.take();
    assert!(stage.protocol().when.borrow().is_none(), "{deed:?} was not done: {:?}", stage.protocol().log);
    let is_reported = deed == Deed::Fail && kind != std::mem::discriminant(&Told::Error(0));
    assert_eq!(reports.len(), usize::from(is_reported), "{deed:?}: {reports:?}");
    let _ = std::fs::remove_file(name);
}

#[test]
fn connection_made_may_do_anything() {
    every_deed_in(&Told::Made);
}

#[test]
fn datagram_received_may_do_anything() {
    every_deed_in(&Told::Data(Vec::new()));
}

#[test]
fn error_received_may_do_anything() {
    every_deed_in(&Told::Error(0));
}

#[test]
fn pause_writing_may_do_anything() {
    every_deed_in(&Told::Pause);
}

#[test]
fn resume_writing_may_do_anything() {
    every_deed_in(&Told::Resume);
}

#[test]
fn connection_lost_may_do_anything() {
    every_deed_in(&Told::Lost(false));
}
