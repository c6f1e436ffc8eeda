//! `add_reader` and `add_writer`.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_one_iteration};
use mainspring::Error;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

#[test]
fn a_reader_is_called_while_there_is_data() {
    let event_loop = new_loop();
    let (local, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"abc").unwrap();
    let log = Log::new();
    let (mut reading, inside) = (local.try_clone().unwrap(), log.clone());
    event_loop
        .add_reader(&local, move || {
            let mut byte = [0];
            reading.read_exact(&mut byte).unwrap();
            inside.add(char::from(byte[0]));
        })
        .unwrap();
    for _ in 0..5 {
        run_one_iteration(&event_loop);
    }
    log.assert(['a', 'b', 'c']);
    assert!(event_loop.remove_reader(&local).unwrap());
    assert!(!event_loop.remove_reader(&local).unwrap());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn an_fd_may_have_a_reader_and_a_writer_and_the_reader_runs_first() {
    let event_loop = new_loop();
    let (local, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"!").unwrap();
    let log = Log::new();
    let (reads, writes) = (log.clone(), log.clone());
    event_loop.add_writer(&local, move || writes.add("write")).unwrap();
    event_loop.add_reader(&local, move || reads.add("read")).unwrap();
    run_one_iteration(&event_loop);
    log.assert(["read", "write"]);
    assert!(event_loop.remove_reader(&local).unwrap());
    run_one_iteration(&event_loop);
    log.assert(["read", "write", "write"]);
    assert!(event_loop.remove_writer(&local).unwrap());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_replaced_writer_is_dropped_and_not_called_again() {
    let event_loop = new_loop();
    let (local, _peer) = UnixStream::pair().unwrap();
    let log = Log::new();
    let held = Rc::new(());
    let (first, second, inside) = (log.clone(), log.clone(), Rc::clone(&held));
    event_loop
        .add_writer(&local, move || {
            let _inside = &inside;
            first.add("first");
        })
        .unwrap();
    run_one_iteration(&event_loop);
    event_loop.add_writer(&local, move || second.add("second")).unwrap();
    assert_eq!(Rc::strong_count(&held), 1);
    run_one_iteration(&event_loop);
    log.assert(["first", "second"]);
}

#[test]
fn a_ready_writer_removed_in_the_same_iteration_is_not_called() {
    let event_loop = new_loop();
    let (local, _peer) = UnixStream::pair().unwrap();
    let (other, _other_peer) = UnixStream::pair().unwrap();
    let log = Log::new();
    let fds = [local.as_raw_fd(), other.as_raw_fd()];
    for fd in fds {
        let (log, inner) = (log.clone(), event_loop.clone());
        event_loop
            .add_writer(&fd, move || {
                log.add("called");
                fds.iter().for_each(|fd| assert!(inner.remove_writer(fd).unwrap()));
            })
            .unwrap();
    }
    run_one_iteration(&event_loop);
    log.assert(["called"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_ready_writer_replaced_in_the_same_iteration_is_not_called() {
    let event_loop = new_loop();
    let (local, _peer) = UnixStream::pair().unwrap();
    let (other, _other_peer) = UnixStream::pair().unwrap();
    let log = Log::new();
    let fds = [local.as_raw_fd(), other.as_raw_fd()];
    for fd in fds {
        let (log, inner) = (log.clone(), event_loop.clone());
        event_loop
            .add_writer(&fd, move || {
                log.add("called");
                fds.iter().for_each(|fd| inner.add_writer(fd, || {}).unwrap());
            })
            .unwrap();
    }
    run_one_iteration(&event_loop);
    log.assert(["called"]);
}

#[test]
fn a_panicking_writer_is_reported_and_called_again() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let (local, _peer) = UnixStream::pair().unwrap();
    let mut calls = 0;
    event_loop
        .add_writer(&local, move || {
            calls += 1;
            panic!("call {calls}");
        })
        .unwrap();
    run_one_iteration(&event_loop);
    run_one_iteration(&event_loop);
    reports.assert(
        ["A callback panicked: panic: call 1", "A callback panicked: panic: call 2"].map(str::to_owned),
    );
}

#[test]
fn an_invalid_fd_is_an_error() {
    let event_loop = new_loop();
    assert!(matches!(event_loop.add_reader(&-1, || {}), Err(Error::Io(_))));
    assert_leaves_nothing(&event_loop);
}
