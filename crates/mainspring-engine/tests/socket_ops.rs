//! Operations on sockets that the program owns: partial transfers, cancellation, and fd numbers that are reused.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use mainspring_engine::socket_ops::{Operation, Pending, Ready, SendAll, SendFile};
use mainspring_engine::testing::{FakeControl, FakePoller, FaultPlan, Op, VirtualClock};
use mainspring_engine::{Direction, Engine, Host, Readiness};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use test_support::fd_numbers::pair_with_fd;
use test_support::isolated;

/// A host that runs closures and has no sources.
struct ClosureHost;

type Callback = Rc<dyn Fn()>;

impl Host for ClosureHost {
    type Call = Callback;
    type Handle = Callback;
    type Watch = Callback;
    type Source = ();
    type Owner = ();
    type Inbound = ();
    type Error = io::Error;

    fn run_call(&self, call: Callback) -> io::Result<()> {
        call();
        Ok(())
    }

    fn io_ready(&self, (): (), _: Readiness) -> Option<Callback> {
        None
    }

    fn scope_ended(&self, _: ()) -> io::Result<()> {
        unreachable!("at_scope_end is never called")
    }

    fn receive(&self, (): ()) -> Option<Callback> {
        None
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> io::Result<()> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> io::Error {
        error
    }
}

struct TestLoop {
    engine: Rc<Engine<ClosureHost>>,
    control: FakeControl,
}

/// A started operation and its outcome.
struct Started<O: Operation<ClosureHost>> {
    pending: Rc<Pending<O>>,
    outcome: Rc<RefCell<Option<io::Result<O::Output>>>>,
}

impl<O: Operation<ClosureHost>> Started<O> {
    fn is_done(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

impl TestLoop {
    fn new() -> Self {
        let (backend, control) = FakePoller::open().unwrap();
        let engine = Engine::new(ClosureHost, backend, Box::new(VirtualClock::default())).unwrap();
        TestLoop { engine: Rc::new(engine), control }
    }

    /// Runs one iteration without blocking.
    fn run_once(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    /// Starts an operation on `socket` that could not complete at once.
    fn start<O: Operation<ClosureHost> + 'static>(&self, socket: &UnixStream, operation: O) -> Started<O> {
        let pending = Rc::new(Pending::new(operation));
        let outcome = Rc::new(RefCell::new(None));
        let (engine, fd) = (Rc::downgrade(&self.engine), socket.try_clone().unwrap());
        let (waiting, result) = (Rc::clone(&pending), Rc::clone(&outcome));
        let watch: Callback = Rc::new(move || {
            let Some(engine) = engine.upgrade() else { return };
            if let Some(settled) = waiting.ready(&engine, fd.as_fd()) {
                assert!(result.borrow().is_none(), "settled twice");
                *result.borrow_mut() = Some(settled.outcome);
            }
        });
        drop(pending.wait(&self.engine, socket.as_fd(), watch).unwrap());
        Started { pending, outcome }
    }

    fn assert_idle(&self) {
        assert_eq!(self.engine.registered_len(), 0, "an fd is still registered");
    }
}

impl Drop for TestLoop {
    fn drop(&mut self) {
        drop(self.engine.close());
    }
}

fn pair() -> (UnixStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

/// Appends the available data to `into`.
fn read_available(socket: &mut UnixStream, into: &mut Vec<u8>) {
    let mut part = [0; 1 << 16];
    while let Ok(count @ 1..) = socket.read(&mut part) {
        into.extend_from_slice(&part[..count]);
    }
}

#[test]
fn a_message_is_sent_completely_and_in_order_for_every_send_size() {
    isolated(|| {
        for size in [1, 2, 7, 64, 999, usize::MAX] {
            let test_loop = TestLoop::new();
            let (near, mut far) = pair();
            test_loop.control.plan(FaultPlan::short_send(size).every_time());
            let message = pattern(5000);
            let sending = test_loop.start(&near, SendAll::new(message.clone(), 0));
            let mut received = Vec::new();
            while !sending.is_done() {
                test_loop.run_once();
                read_available(&mut far, &mut received);
            }
            assert!(received == message, "in pieces of {size}");
            assert!(matches!(*sending.outcome.borrow(), Some(Ok(()))));
            test_loop.assert_idle();
        }
    });
}

#[test]
fn sending_continues_where_the_first_attempt_ended() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, mut far) = pair();
        test_loop.control.limit_next_send(3);
        assert_eq!(test_loop.engine.try_send(near.as_fd(), b"abcdef").unwrap(), Some(3));
        let sending = test_loop.start(&near, SendAll::new(b"abcdef", 3));
        test_loop.run_once();
        assert!(sending.is_done());
        let mut received = Vec::new();
        read_available(&mut far, &mut received);
        assert_eq!(received, b"abcdef");
    });
}

#[test]
fn would_block_and_interrupted_are_retried() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        let mut buffer = [0; 8];
        for errno in [libc::EINTR, libc::EAGAIN] {
            test_loop.control.fail_next(Op::Recv, errno);
            test_loop.control.fail_next(Op::Send, errno);
            assert_eq!(test_loop.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), None);
            assert_eq!(test_loop.engine.try_send(near.as_fd(), b"y").unwrap(), None);
        }
        assert_eq!(test_loop.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), Some(1));
        let sending = test_loop.start(&near, SendAll::new(b"y", 0));
        test_loop.control.fail_next(Op::Send, libc::EAGAIN);
        test_loop.run_once();
        assert!(!sending.is_done(), "nothing was sent, so the operation is not done");
        test_loop.run_once();
        assert!(sending.is_done());
    });
}

#[test]
fn an_error_ends_the_operation_and_removes_its_registration() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, far) = pair();
        drop(far);
        let sending = test_loop.start(&near, SendAll::new(b"to nobody", 0));
        test_loop.run_once();
        let outcome = sending.outcome.borrow();
        let error = outcome.as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        test_loop.assert_idle();
    });
}

#[test]
fn a_cancelled_operation_consumes_nothing_and_leaves_nothing_registered() {
    isolated(|| {
        // Cancelled before the event, between the event and its call, and after the call.
        for iterations_before in 0..3 {
            let test_loop = TestLoop::new();
            let (near, mut far) = pair();
            let waiting = test_loop.start(&near, Ready(Direction::Inbound));
            far.write_all(b"precious").unwrap();
            for _ in 0..iterations_before {
                test_loop.run_once();
            }
            assert_eq!(waiting.is_done(), iterations_before > 0);
            drop(waiting.pending.leave(&test_loop.engine));
            test_loop.assert_idle();
            test_loop.run_once();
            let mut buffer = [0; 64];
            assert_eq!(test_loop.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), Some(8));
        }
    });
}

#[test]
fn an_earlier_event_does_not_continue_a_cancelled_operation() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, mut far) = pair();
        let (other, mut other_far) = pair();
        let sending = test_loop.start(&near, SendAll::new(b"not any more", 0));
        // The callback of the first event, in the same iteration, cancels the other operation.
        let (engine, pending) = (Rc::downgrade(&test_loop.engine), Rc::clone(&sending.pending));
        let give_up: Callback = Rc::new(move || {
            if let Some(engine) = engine.upgrade() {
                drop(pending.leave(&engine));
            }
        });
        test_loop.engine.watch(other.as_raw_fd(), Direction::Inbound, give_up).unwrap();
        other_far.write_all(b"!").unwrap();
        for fd in [other.as_raw_fd(), near.as_raw_fd()] {
            test_loop.control.inject(test_loop.control.key_of(fd).unwrap(), Readiness::BOTH);
        }
        test_loop.run_once();
        assert!(!sending.is_done());
        let mut received = Vec::new();
        read_available(&mut far, &mut received);
        assert_eq!(received, b"");
    });
}

#[test]
fn cancelling_removes_only_its_own_registration() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, mut far) = pair();
        let former = test_loop.start(&near, Ready(Direction::Inbound));
        let calls = Rc::new(Cell::new(0));
        let counting = Rc::clone(&calls);
        let reader: Callback = Rc::new(move || counting.set(counting.get() + 1));
        let replaced = test_loop.engine.watch(near.as_raw_fd(), Direction::Inbound, reader).unwrap();
        assert!(replaced.is_some(), "the new reader replaces the old one");
        assert!(former.pending.leave(&test_loop.engine).is_none());
        far.write_all(b"!").unwrap();
        test_loop.run_once();
        assert_eq!(calls.get(), 1, "the new reader is still registered");
        assert!(!former.is_done());
        assert!(test_loop.engine.unwatch(near.as_raw_fd(), Direction::Inbound).unwrap().is_some());
    });
}

#[test]
fn cancelling_does_not_affect_the_next_owner_of_the_fd_number() {
    isolated(|| {
        for direction in [Direction::Inbound, Direction::Outbound] {
            let test_loop = TestLoop::new();
            let (near, far) = pair();
            let number = near.as_raw_fd();
            let pending = Pending::new(Ready(Direction::Inbound));
            pending.wait(&test_loop.engine, near.as_fd(), Rc::new(|| ())).unwrap();
            drop((near, far));
            let (newcomer, mut its_far) = pair_with_fd(number);
            let waiting = test_loop.start(&newcomer, Ready(direction));
            drop(pending.leave(&test_loop.engine));
            assert_eq!(test_loop.engine.registered_len(), 1, "the new owner is registered");
            its_far.write_all(b"!").unwrap();
            test_loop.run_once();
            assert!(waiting.is_done(), "the new owner gets its event, {direction:?}");
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_refused_registration_leaves_nothing() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, _far) = pair();
        let pending = Pending::new(Ready(Direction::Inbound));
        test_loop.control.fail_next(Op::Update, libc::ENOSPC);
        assert!(pending.wait(&test_loop.engine, near.as_fd(), Rc::new(|| ())).is_err());
        assert!(!pending.is_waiting());
        test_loop.assert_idle();
    });
}

/// An unnamed file.
fn file(content: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("mainspring-socket-ops-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(content).unwrap();
    file
}

#[test]
fn part_of_a_file_is_sent_and_the_file_position_follows() {
    isolated(|| {
        let content = pattern(1 << 20);
        let length = content.len() as u64;
        let cases = [
            (0, None),
            (5, None),
            (0, Some(10)),
            (7, Some(1 << 19)),
            (length - 3, Some(100)),
            (length, None),
        ];
        for (offset, count) in cases {
            let test_loop = TestLoop::new();
            let (near, mut far) = pair();
            let mut source = file(&content);
            let operation = SendFile::new(source.try_clone().unwrap().into(), offset, count);
            let sending = test_loop.start(&near, operation);
            let mut received = Vec::new();
            while !sending.is_done() {
                test_loop.run_once();
                read_available(&mut far, &mut received);
            }
            let end = count.map_or(length, |count| length.min(offset + count));
            assert!(received == content[offset as usize..end as usize], "from {offset}, {count:?}");
            assert_eq!(*sending.outcome.borrow().as_ref().unwrap().as_ref().unwrap(), end - offset);
            sending.pending.with_operation(|sending| sending.update_position()).unwrap();
            assert_eq!(source.stream_position().unwrap(), end);
            test_loop.assert_idle();
        }
    });
}

#[test]
fn a_cancelled_sendfile_reports_its_progress() {
    isolated(|| {
        let test_loop = TestLoop::new();
        let (near, mut far) = pair();
        let content = pattern(4 << 20);
        let sending = test_loop.start(&near, SendFile::new(file(&content).into(), 0, None));
        test_loop.run_once();
        drop(sending.pending.leave(&test_loop.engine));
        let sent = sending.pending.with_operation(SendFile::sent);
        assert!(sent > 0 && !sending.is_done());
        let mut received = Vec::new();
        read_available(&mut far, &mut received);
        assert!(received == content[..sent as usize]);
        test_loop.assert_idle();
    });
}
