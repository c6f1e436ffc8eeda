//! Every callback performs every action.

use crate::fixture::{Action, Event, Fixture};
use crate::order::bind_near;
use mainspring_engine::transport::Transport as _;
use test_support::{TestBackend, isolated};

const ACTIONS: [Action; 6] =
    [Action::Close, Action::Abort, Action::Send, Action::Fail, Action::PauseReading, Action::DropAll];

fn every_action_in(when: &Event) {
    isolated(|| {
        for on in TestBackend::ALL {
            for action in ACTIONS {
                run(on, when.clone(), action);
            }
        }
    });
}

fn run(on: TestBackend, when: Event, action: Action) {
    let fixture = Fixture::new(on);
    let kind = std::mem::discriminant(&when);
    *fixture.protocol().when.borrow_mut() = Some((when, action));
    fixture.run_once();
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "-");
    let name = std::env::temp_dir().join(format!("mainspring-deeds-{}-{thread}", std::process::id()));
    let alive = |fixture: &Fixture| !fixture.transport.is_closing();
    if alive(&fixture) {
        bind_near(&fixture, &name);
        fixture.peer.send_to(b"data", &name).unwrap();
        (0..3).for_each(|_| fixture.run_once());
    }
    if alive(&fixture) {
        // Too long for any socket: the send fails at once, and the sender is notified.
        let sent = fixture.transport.send_to(
            fixture.cx(),
            &vec![0; 64 << 20],
            mainspring_engine::transport::Destination::Connected,
            || Some(Vec::new()),
        );
        assert_eq!(sent.is_err(), action == Action::Fail && kind == std::mem::discriminant(&Event::Error(0)));
    }
    if alive(&fixture) {
        fixture.set_marks(1, 0);
        fixture.fill();
        fixture.take_arrived();
        (0..5).for_each(|_| fixture.run_once());
    }
    fixture.transport.close(fixture.cx()).unwrap();
    while !fixture.transport.is_finished() {
        fixture.take_arrived();
        fixture.run_once();
    }
    fixture.run_until_lost();
    let reports = fixture.engine.host().reports.take();
    assert!(
        fixture.protocol().when.borrow().is_none(),
        "{action:?} was not performed: {:?}",
        fixture.protocol().log
    );
    let is_reported = action == Action::Fail && kind != std::mem::discriminant(&Event::Error(0));
    assert_eq!(reports.len(), usize::from(is_reported), "{action:?}: {reports:?}");
    let _ = std::fs::remove_file(name);
}

#[test]
fn connection_made_may_do_anything() {
    every_action_in(&Event::Made);
}

#[test]
fn datagram_received_may_do_anything() {
    every_action_in(&Event::Data(Vec::new()));
}

#[test]
fn error_received_may_do_anything() {
    every_action_in(&Event::Error(0));
}

#[test]
fn pause_writing_may_do_anything() {
    every_action_in(&Event::Pause);
}

#[test]
fn resume_writing_may_do_anything() {
    every_action_in(&Event::Resume);
}

#[test]
fn connection_lost_may_do_anything() {
    every_action_in(&Event::Lost(false));
}
