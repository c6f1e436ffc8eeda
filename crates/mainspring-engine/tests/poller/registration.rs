//! Registering fds, changing their interest, and removing them, also after they were closed.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd};

use mainspring_engine::poller::{Interest, Readiness};

use crate::support::{KEY, OTHER_KEY, Open, Rig, closed, event, pair, readable, replace, silent};

pub fn an_event_has_the_key_of_the_registration(open: Open) {
    let mut rig = Rig::new(open());
    let fd = readable();
    rig.poller.update(fd.as_fd().as_raw_fd(), OTHER_KEY, Interest::NONE, Interest::READ).unwrap();
    assert_eq!(rig.events(), [event(OTHER_KEY, Readiness::INBOUND)]);
}

pub fn unread_data_is_reported_again(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    rig.register(&ours, Interest::READ);
    theirs.write_all(b"ab").unwrap();

    let mut buffer = [0];
    for _ in 0..2 {
        assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)]);
        assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)]);
        assert_eq!(rig.poller.recv(ours.as_fd(), &mut buffer).unwrap(), 1);
    }
    // A full buffer does not show that the socket is empty: the next `recv` may find nothing.
    rig.poller.recv(ours.as_fd(), &mut buffer).unwrap_err();
    assert_eq!(rig.events_now(), []);
    theirs.write_all(b"c").unwrap();
    assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)]);
    assert_eq!(rig.poller.recv(ours.as_fd(), &mut [0; 2]).unwrap(), 1);
    assert_eq!(rig.events_now(), [], "all data was received");
}

pub fn eof_is_reported_after_the_last_bytes(open: Open) {
    for is_received_late in [false, true] {
        let mut rig = Rig::new(open());
        let (ours, mut theirs) = pair();
        rig.register(&ours, Interest::READ);
        theirs.write_all(b"ab").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        let inbound = [event(KEY, Readiness::INBOUND)];
        assert_eq!(rig.events(), inbound);
        if is_received_late {
            assert_eq!(rig.events(), inbound);
        }
        assert_eq!(rig.poller.recv(ours.as_fd(), &mut [0; 10]).unwrap(), 2);
        assert_eq!(rig.events(), inbound);
        assert_eq!(rig.poller.recv(ours.as_fd(), &mut [0; 10]).unwrap(), 0);
        rig.change(&ours, Interest::READ, Interest::NONE);
        assert_eq!(rig.events_now(), []);
    }
}

pub fn unread_data_is_reported_after_an_interest_change(open: Open) {
    let (recv, send) = (Interest::READ, Interest::WRITE);
    let both = recv.with(send);
    for way in [&[recv, both, recv][..], &[recv, Interest::NONE, recv], &[both, recv], &[recv, send, recv]] {
        let mut rig = Rig::new(open());
        let (ours, mut theirs) = pair();
        rig.register(&ours, way[0]);
        theirs.write_all(b"ab").unwrap();
        rig.events();
        assert_eq!(rig.poller.recv(ours.as_fd(), &mut [0]).unwrap(), 1);
        for step in way.windows(2) {
            rig.change(&ours, step[0], step[1]);
        }
        for _ in 0..2 {
            assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)], "{way:?}");
        }
        assert_eq!(rig.poller.recv(ours.as_fd(), &mut [0; 2]).unwrap(), 1);
        assert_eq!(rig.events_now(), []);
    }
}

pub fn only_registered_directions_are_reported(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, mut theirs) = pair();
    theirs.write_all(b"a").unwrap();
    let (recv, send) = (Interest::READ, Interest::WRITE);
    let both = recv.with(send);

    rig.register(&ours, recv);
    assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)]);
    rig.change(&ours, recv, both);
    assert_eq!(rig.events_now(), [event(KEY, Readiness::BOTH)]);
    rig.change(&ours, both, send);
    assert_eq!(rig.events_now(), [event(KEY, Readiness::OUTBOUND)]);
    rig.change(&ours, send, Interest::NONE);
    assert_eq!(rig.events_now(), []);
    rig.change(&ours, Interest::NONE, Interest::READ);
    assert_eq!(rig.events_now(), [event(KEY, Readiness::INBOUND)]);
    rig.change(&ours, Interest::READ, Interest::WRITE);
    assert_eq!(rig.events_now(), [event(KEY, Readiness::OUTBOUND)]);
}

pub fn a_removed_fd_reports_nothing_even_when_its_peer_hangs_up(open: Open) {
    let mut rig = Rig::new(open());
    let (ours, theirs) = pair();
    rig.register(&ours, Interest::READ);
    drop(theirs);
    let hang_up = rig.events_now();
    assert!(hang_up.iter().any(|event| event.key == KEY && event.readiness.inbound));

    rig.change(&ours, Interest::READ, Interest::NONE);
    assert_eq!(rig.events_now(), []);
}

pub fn a_closed_fd_can_be_removed(open: Open) {
    let mut rig = Rig::new(open());

    let mut fd = readable();
    rig.register(&fd, Interest::READ);
    replace(&mut fd, &readable());
    rig.change(&fd, Interest::READ, Interest::NONE);

    let gone = closed(|fd| rig.register(fd, Interest::READ));
    rig.change(gone, Interest::READ, Interest::NONE);

    assert_eq!(rig.events_now(), []);
}

pub fn changing_a_lost_registration_restores_it(open: Open) {
    let mut rig = Rig::new(open());
    let mut fd = silent();
    rig.register(&fd, Interest::READ);
    replace(&mut fd, &readable());
    assert_eq!(rig.events_now(), []);

    rig.change(&fd, Interest::READ, Interest::READ.with(Interest::WRITE));
    assert_eq!(rig.events_now(), [event(KEY, Readiness::BOTH)]);
}

pub fn a_reused_fd_number_is_reported_under_its_new_key_only(open: Open) {
    let mut rig = Rig::new(open());
    let mut fd = readable();
    rig.register(&fd, Interest::READ);
    replace(&mut fd, &readable());
    rig.poller.update(fd.as_fd().as_raw_fd(), OTHER_KEY, Interest::NONE, Interest::READ).unwrap();
    assert_eq!(rig.events_now(), [event(OTHER_KEY, Readiness::INBOUND)]);
}

pub fn registering_twice_keeps_the_later_key(open: Open) {
    let mut rig = Rig::new(open());
    let fd = readable();
    rig.register(&fd, Interest::READ);
    rig.poller.update(fd.as_fd().as_raw_fd(), OTHER_KEY, Interest::NONE, Interest::READ).unwrap();
    assert_eq!(rig.events_now(), [event(OTHER_KEY, Readiness::INBOUND)]);
}

pub fn a_pipe_can_be_registered_until_its_writer_closes(open: Open) {
    let mut rig = Rig::new(open());
    let (reader, mut writer) = io::pipe().unwrap();
    rig.register(&reader, Interest::READ);
    assert_eq!(rig.events_now(), []);
    writer.write_all(b"a").unwrap();
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);

    rig.change(&reader, Interest::READ, Interest::NONE);
    let (empty, writer) = io::pipe().unwrap();
    rig.register(&empty, Interest::READ);
    drop(writer);
    let events = rig.events();
    assert!(events.iter().all(|event| event.key == KEY && event.readiness.inbound));
    assert_eq!(events.len(), 1);
}

pub fn a_regular_file_is_refused_with_permission_denied(open: Open) {
    let mut rig = Rig::new(open());
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let epoll_pwait2_refused =
        rig.poller.update(file.as_fd().as_raw_fd(), KEY, Interest::NONE, Interest::READ);
    assert_eq!(epoll_pwait2_refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}
