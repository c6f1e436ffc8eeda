//! The fake back end: planned faults, injected events, and the log.

use std::io::{self, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mainspring_engine::poller::{Interest, Key, Readiness};
use mainspring_engine::testing::{Call, FakeControl, FakePoller, FaultPlan, LogEntry, Op};

use crate::support::{KEY, Rig, event, pair, readable};

fn fake() -> (Rig, FakeControl) {
    let (backend, control) = FakePoller::open().unwrap();
    (Rig::new(backend), control)
}

/// Receives one byte. Errors are returned as their errno.
fn recv_byte(rig: &mut Rig, from: &impl AsFd) -> Result<u8, i32> {
    let mut byte = [0];
    match rig.poller.recv(from.as_fd(), &mut byte) {
        Ok(_) => Ok(byte[0]),
        Err(error) => Err(error.raw_os_error().unwrap()),
    }
}

fn recv_bytes(rig: &mut Rig, from: &impl AsFd, times: usize) -> Vec<Result<u8, i32>> {
    (0..times).map(|_| recv_byte(rig, from)).collect()
}

fn send(rig: &mut Rig, to: &impl AsFd, chunks: &[&[u8]]) -> io::Result<usize> {
    let chunks: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    rig.poller.send(to.as_fd(), &chunks)
}

#[test]
fn a_fault_fails_the_next_call_and_keeps_the_data() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"a").unwrap();
    control.fail_next(Op::Recv, libc::ECONNRESET);
    assert_eq!(control.pending_faults(), 1);
    assert_eq!(recv_bytes(&mut rig, &ours, 2), [Err(libc::ECONNRESET), Ok(b'a')]);
    assert_eq!(control.pending_faults(), 0);
}

#[test]
fn an_injected_would_block_follows_readiness() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    rig.register(&ours, Interest::READ);
    theirs.write_all(b"a").unwrap();
    control.fail_next(Op::Recv, libc::EAGAIN);
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
    assert_eq!(recv_byte(&mut rig, &ours), Err(libc::EAGAIN));
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
    assert_eq!(recv_byte(&mut rig, &ours), Ok(b'a'));
}

#[test]
fn a_fault_can_start_at_the_nth_call_and_repeat() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"abc").unwrap();
    control.plan(FaultPlan::fail(Op::Recv, libc::EINTR).after(2).times(2));
    let struck = Err(libc::EINTR);
    assert_eq!(recv_bytes(&mut rig, &ours, 5), [Ok(b'a'), Ok(b'b'), struck, struck, Ok(b'c')]);
}

#[test]
fn a_fault_for_every_call_lasts_until_it_is_cleared() {
    let (mut rig, control) = fake();
    let (ours, theirs) = pair();
    control.plan(FaultPlan::fail(Op::Send, libc::ENOBUFS).every_time());
    for _ in 0..10 {
        assert_eq!(send(&mut rig, &ours, &[b"a"]).unwrap_err().raw_os_error(), Some(libc::ENOBUFS));
    }
    assert_eq!(control.pending_faults(), 1);
    control.clear_faults();
    assert_eq!(send(&mut rig, &ours, &[b"a"]).unwrap(), 1);
    drop(theirs);
}

#[test]
fn a_fault_can_be_limited_to_one_fd() {
    let (mut rig, control) = fake();
    let (ours, theirs) = pair();
    control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET).on(theirs.as_raw_fd()));
    assert_eq!(recv_byte(&mut rig, &ours), Err(libc::EAGAIN));
    assert_eq!(recv_byte(&mut rig, &theirs), Err(libc::ECONNRESET));
    assert_eq!(recv_byte(&mut rig, &theirs), Err(libc::EAGAIN));
}

#[test]
fn two_faults_for_the_next_call_fail_two_calls_in_turn() {
    let (mut rig, control) = fake();
    let (ours, _theirs) = pair();
    control.fail_next(Op::Recv, libc::EINTR);
    control.fail_next(Op::Recv, libc::ECONNRESET);
    let outcomes = recv_bytes(&mut rig, &ours, 3);
    assert_eq!(outcomes, [Err(libc::EINTR), Err(libc::ECONNRESET), Err(libc::EAGAIN)]);
}

#[test]
fn a_short_send_sends_the_first_bytes_across_chunks() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    control.limit_next_send(4);
    assert_eq!(send(&mut rig, &ours, &[b"abc", b"def"]).unwrap(), 4);
    assert_eq!(send(&mut rig, &ours, &[b"ef"]).unwrap(), 2);
    let mut arrived = [0; 6];
    theirs.read_exact(&mut arrived).unwrap();
    assert_eq!(&arrived, b"abcdef");
}

#[test]
fn a_short_recv_returns_the_first_bytes_and_keeps_the_rest() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"abcdef").unwrap();
    control.limit_next_recv(4);
    let mut buffer = [0; 16];
    assert_eq!(rig.poller.recv(ours.as_fd(), &mut buffer).unwrap(), 4);
    assert_eq!(rig.poller.recv(ours.as_fd(), &mut buffer[4..]).unwrap(), 2);
    assert_eq!(&buffer[..6], b"abcdef");
}

#[test]
fn a_limit_of_zero_is_would_block_and_not_eof() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"a").unwrap();
    control.limit_next_recv(0);
    control.limit_next_send(0);
    assert_eq!(recv_byte(&mut rig, &ours), Err(libc::EAGAIN));
    assert_eq!(send(&mut rig, &ours, &[b"a"]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_failed_accept_leaves_the_connection_in_the_queue() {
    let (mut rig, control) = fake();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    control.fail_next(Op::Accept, libc::EMFILE);
    rig.register(&listener, Interest::READ);
    rig.events();
    let epoll_pwait2_refused = rig.poller.accept(listener.as_fd()).unwrap_err();
    assert_eq!(epoll_pwait2_refused.raw_os_error(), Some(libc::EMFILE));
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
    rig.poller.accept(listener.as_fd()).unwrap();
}

#[test]
fn a_failed_update_changes_nothing() {
    let (mut rig, control) = fake();
    let fd = readable();
    control.fail_next(Op::Update, libc::ENOSPC);
    let epoll_pwait2_refused = rig.poller.update(fd.as_fd().as_raw_fd(), KEY, Interest::NONE, Interest::READ);
    assert_eq!(epoll_pwait2_refused.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(control.key_of(fd.as_raw_fd()), None);
    assert_eq!(rig.events_now(), []);
}

#[test]
fn a_failed_wait_keeps_its_events_for_the_next() {
    let (mut rig, control) = fake();
    control.inject(KEY, Readiness::OUTBOUND);
    control.fail_next(Op::Park, libc::EINTR);
    let epoll_pwait2_refused = rig.parker.park(None, usize::MAX, &mut Vec::new()).unwrap_err();
    assert_eq!(epoll_pwait2_refused.kind(), io::ErrorKind::Interrupted);
    assert_eq!(rig.events(), [event(KEY, Readiness::OUTBOUND)]);
}

#[test]
fn injected_events_precede_real_ones_and_need_no_registration() {
    let (mut rig, control) = fake();
    let fd = readable();
    rig.register(&fd, Interest::READ);
    let stale = Key { generation: KEY.generation - 1, ..KEY };
    control.inject(stale, Readiness::BOTH);
    control.inject(KEY, Readiness::OUTBOUND);
    assert_eq!(rig.events(), [event(stale, Readiness::BOTH), event(KEY, Readiness::OUTBOUND)]);
    assert_eq!(rig.events(), [event(KEY, Readiness::INBOUND)]);
}

#[test]
fn key_of_returns_the_key_of_a_registered_fd() {
    let (mut rig, control) = fake();
    let fd = readable();
    assert_eq!(control.key_of(fd.as_raw_fd()), None);
    rig.register(&fd, Interest::READ);
    assert_eq!(control.key_of(fd.as_raw_fd()), Some(KEY));
    rig.change(&fd, Interest::READ, Interest::NONE);
    assert_eq!(control.key_of(fd.as_raw_fd()), None);
}

#[test]
fn the_log_records_every_call_with_its_result() {
    let (mut rig, control) = fake();
    let (ours, mut theirs) = pair();
    let fd = ours.as_raw_fd();
    theirs.write_all(b"abc").unwrap();
    control.fail_next(Op::Accept, libc::EMFILE);

    rig.register(&ours, Interest::READ);
    rig.events_now();
    recv_byte(&mut rig, &ours).unwrap();
    send(&mut rig, &ours, &[b"one", b"three"]).unwrap();
    rig.poller.accept(ours.as_fd()).unwrap_err();

    let entry = |call, result| LogEntry { call, result };
    let expected = [
        entry(Call::Update { fd, key: KEY, old: Interest::NONE, new: Interest::READ }, Ok(0)),
        entry(Call::Park { timeout: Some(Duration::ZERO) }, Ok(1)),
        entry(Call::Recv { fd, room: 1 }, Ok(1)),
        entry(Call::Send { fd, chunks: vec![3, 5] }, Ok(8)),
        entry(Call::Accept { fd }, Err(libc::EMFILE)),
    ];
    assert_eq!(control.log(), expected);
    assert_eq!(control.take_log(), expected);
    assert_eq!(control.log(), []);
}
