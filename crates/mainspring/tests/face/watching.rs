//! `add_reader`, `add_writer`, `add_signal_handler`.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_one_pass};
use mainspring::Error;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

#[test]
fn a_reader_is_called_as_long_as_there_is_something_to_read() {
    let event_loop = new_loop();
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"abc").unwrap();
    let log = Log::new();
    let (mut reading, inside) = (here.try_clone().unwrap(), log.clone());
    event_loop
        .add_reader(&here, move || {
            let mut byte = [0];
            reading.read_exact(&mut byte).unwrap();
            inside.add(char::from(byte[0]));
        })
        .unwrap();
    for _ in 0..5 {
        run_one_pass(&event_loop);
    }
    log.assert(['a', 'b', 'c']);
    assert!(event_loop.remove_reader(&here).unwrap());
    assert!(!event_loop.remove_reader(&here).unwrap());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_descriptor_may_have_a_reader_and_a_writer_and_the_reader_is_first() {
    let event_loop = new_loop();
    let (here, mut there) = UnixStream::pair().unwrap();
    there.write_all(b"!").unwrap();
    let log = Log::new();
    let (reads, writes) = (log.clone(), log.clone());
    event_loop.add_writer(&here, move || writes.add("write")).unwrap();
    event_loop.add_reader(&here, move || reads.add("read")).unwrap();
    run_one_pass(&event_loop);
    log.assert(["read", "write"]);
    assert!(event_loop.remove_reader(&here).unwrap());
    run_one_pass(&event_loop);
    log.assert(["read", "write", "write"]);
    assert!(event_loop.remove_writer(&here).unwrap());
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_writer_that_is_replaced_is_dropped_and_not_called_again() {
    let event_loop = new_loop();
    let (here, _there) = UnixStream::pair().unwrap();
    let log = Log::new();
    let held = Rc::new(());
    let (first, second, inside) = (log.clone(), log.clone(), Rc::clone(&held));
    event_loop
        .add_writer(&here, move || {
            let _inside = &inside;
            first.add("first");
        })
        .unwrap();
    run_one_pass(&event_loop);
    event_loop.add_writer(&here, move || second.add("second")).unwrap();
    assert_eq!(Rc::strong_count(&held), 1);
    run_one_pass(&event_loop);
    log.assert(["first", "second"]);
}

#[test]
fn a_reader_that_was_announced_and_is_removed_in_the_same_pass_is_not_called() {
    let event_loop = new_loop();
    let (here, _there) = UnixStream::pair().unwrap();
    let (also, _there) = UnixStream::pair().unwrap();
    let log = Log::new();
    let fds = [here.as_raw_fd(), also.as_raw_fd()];
    for fd in fds {
        let (log, inner) = (log.clone(), event_loop.clone());
        event_loop
            .add_writer(&fd, move || {
                log.add("called");
                fds.iter().for_each(|fd| assert!(inner.remove_writer(fd).unwrap()));
            })
            .unwrap();
    }
    run_one_pass(&event_loop);
    log.assert(["called"]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_writer_that_was_announced_and_is_replaced_in_the_same_pass_is_not_called() {
    let event_loop = new_loop();
    let (here, _there) = UnixStream::pair().unwrap();
    let (also, _there) = UnixStream::pair().unwrap();
    let log = Log::new();
    let fds = [here.as_raw_fd(), also.as_raw_fd()];
    for fd in fds {
        let (log, inner) = (log.clone(), event_loop.clone());
        event_loop
            .add_writer(&fd, move || {
                log.add("called");
                fds.iter().for_each(|fd| inner.add_writer(fd, || {}).unwrap());
            })
            .unwrap();
    }
    run_one_pass(&event_loop);
    log.assert(["called"]);
}

#[test]
fn a_writer_that_panics_is_reported_and_called_again() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let (here, _there) = UnixStream::pair().unwrap();
    let mut calls = 0;
    event_loop
        .add_writer(&here, move || {
            calls += 1;
            panic!("call {calls}");
        })
        .unwrap();
    run_one_pass(&event_loop);
    run_one_pass(&event_loop);
    reports.assert(
        ["A callback panicked: panic: call 1", "A callback panicked: panic: call 2"].map(str::to_owned),
    );
}

#[test]
fn a_number_that_is_no_descriptor_is_an_error() {
    let event_loop = new_loop();
    assert!(matches!(event_loop.add_reader(&-1, || {}), Err(Error::Io(_))));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_signal_is_delivered_as_a_call_of_the_loop() {
    let event_loop = new_loop();
    let log = Log::new();
    let (first, second) = (log.clone(), log.clone());
    event_loop.add_signal_handler(libc::SIGUSR1, move || first.add("replaced")).unwrap();
    let stopper = event_loop.clone();
    event_loop
        .add_signal_handler(libc::SIGUSR1, move || {
            second.add("handled");
            stopper.stop();
        })
        .unwrap();
    for _ in 0..2 {
        raise(libc::SIGUSR1);
        event_loop.run_forever().unwrap();
    }
    log.assert(["handled", "handled"]);
    assert!(event_loop.remove_signal_handler(libc::SIGUSR1));
    assert!(!event_loop.remove_signal_handler(libc::SIGUSR1));
}

#[test]
fn a_signal_that_cannot_be_caught_is_an_error() {
    let event_loop = new_loop();
    for signum in [libc::SIGKILL, 0, -1] {
        assert!(matches!(event_loop.add_signal_handler(signum, || {}), Err(Error::Io(_))));
    }
}

fn raise(signum: i32) {
    // SAFETY: `raise` is always allowed; the signal has a handler.
    assert_eq!(unsafe { libc::raise(signum) }, 0);
}
