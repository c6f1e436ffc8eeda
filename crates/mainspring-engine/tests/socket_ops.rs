//! Operations on sockets that the program owns: what they do in pieces, what is left when they are given up, and that
//! they keep their hands off a descriptor number that means something else by now.
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
use test_support::fd_numbers::pair_with;
use test_support::guarded;

/// A face that calls closures and knows no sources.
struct Plain;

type Callback = Rc<dyn Fn()>;

impl Host for Plain {
    type Call = Callback;
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
        unreachable!("nobody asks for it")
    }

    fn receive(&self, (): ()) -> Callback {
        Rc::new(|| ())
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

struct Stage {
    engine: Rc<Engine<Plain>>,
    control: FakeControl,
}

/// An operation under way, and what came of it.
struct Started<O: Operation<Plain>> {
    pending: Rc<Pending<O>>,
    outcome: Rc<RefCell<Option<io::Result<O::Output>>>>,
}

impl<O: Operation<Plain>> Started<O> {
    fn is_over(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

impl Stage {
    fn new() -> Self {
        let (backend, control) = FakePoller::open().unwrap();
        let engine = Engine::new(Plain, backend, Box::new(VirtualClock::default())).unwrap();
        Stage { engine: Rc::new(engine), control }
    }

    /// One pass that does not wait.
    fn pass(&self) {
        self.engine.stop();
        self.engine.run_forever().unwrap();
    }

    /// Leaves an operation on `socket` with the loop.
    fn start<O: Operation<Plain> + 'static>(&self, socket: &UnixStream, operation: O) -> Started<O> {
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
        assert_eq!(self.engine.registered_len(), 0, "something is still watched");
    }
}

impl Drop for Stage {
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

/// What has arrived.
fn take(socket: &mut UnixStream, into: &mut Vec<u8>) {
    let mut part = [0; 1 << 16];
    while let Ok(count @ 1..) = socket.read(&mut part) {
        into.extend_from_slice(&part[..count]);
    }
}

#[test]
fn a_message_goes_out_whole_and_in_order_in_pieces_of_every_size() {
    guarded(|| {
        for size in [1, 2, 7, 64, 999, usize::MAX] {
            let stage = Stage::new();
            let (near, mut far) = pair();
            stage.control.plan(FaultPlan::short_send(size).every_time());
            let message = pattern(5000);
            let sending = stage.start(&near, SendAll::new(message.clone(), 0));
            let mut received = Vec::new();
            while !sending.is_over() {
                stage.pass();
                take(&mut far, &mut received);
            }
            assert!(received == message, "in pieces of {size}");
            assert!(matches!(*sending.outcome.borrow(), Some(Ok(()))));
            stage.assert_idle();
        }
    });
}

#[test]
fn a_message_goes_on_where_the_first_attempt_ended() {
    guarded(|| {
        let stage = Stage::new();
        let (near, mut far) = pair();
        stage.control.limit_next_send(3);
        assert_eq!(stage.engine.try_send(near.as_fd(), b"abcdef").unwrap(), Some(3));
        let sending = stage.start(&near, SendAll::new(b"abcdef", 3));
        stage.pass();
        assert!(sending.is_over());
        let mut received = Vec::new();
        take(&mut far, &mut received);
        assert_eq!(received, b"abcdef");
    });
}

#[test]
fn answers_that_mean_later_are_no_answers() {
    guarded(|| {
        let stage = Stage::new();
        let (near, mut far) = pair();
        far.write_all(b"x").unwrap();
        let mut buffer = [0; 8];
        for errno in [libc::EINTR, libc::EAGAIN] {
            stage.control.fail_next(Op::Recv, errno);
            stage.control.fail_next(Op::Send, errno);
            assert_eq!(stage.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), None);
            assert_eq!(stage.engine.try_send(near.as_fd(), b"y").unwrap(), None);
        }
        assert_eq!(stage.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), Some(1));
        let sending = stage.start(&near, SendAll::new(b"y", 0));
        stage.control.fail_next(Op::Send, libc::EAGAIN);
        stage.pass();
        assert!(!sending.is_over(), "nothing was sent, and it is not over");
        stage.pass();
        assert!(sending.is_over());
    });
}

#[test]
fn a_failure_ends_the_operation_and_its_watch() {
    guarded(|| {
        let stage = Stage::new();
        let (near, far) = pair();
        drop(far);
        let sending = stage.start(&near, SendAll::new(b"to nobody", 0));
        stage.pass();
        let outcome = sending.outcome.borrow();
        let error = outcome.as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        stage.assert_idle();
    });
}

#[test]
fn what_is_given_up_takes_nothing_from_the_kernel_and_leaves_nothing_with_the_loop() {
    guarded(|| {
        // Given up before the event, between the event and its call, and after the call.
        for passes_before in 0..3 {
            let stage = Stage::new();
            let (near, mut far) = pair();
            let waiting = stage.start(&near, Ready(Direction::Inbound));
            far.write_all(b"precious").unwrap();
            for _ in 0..passes_before {
                stage.pass();
            }
            assert_eq!(waiting.is_over(), passes_before > 0);
            drop(waiting.pending.leave(&stage.engine));
            stage.assert_idle();
            stage.pass();
            let mut buffer = [0; 64];
            assert_eq!(stage.engine.try_recv(near.as_fd(), &mut buffer).unwrap(), Some(8));
        }
    });
}

#[test]
fn an_operation_that_was_left_is_not_carried_on_by_an_event_that_came_before() {
    guarded(|| {
        let stage = Stage::new();
        let (near, mut far) = pair();
        let (other, mut other_far) = pair();
        let sending = stage.start(&near, SendAll::new(b"not any more", 0));
        // Served first in the same pass, it gives the other one up.
        let (engine, pending) = (Rc::downgrade(&stage.engine), Rc::clone(&sending.pending));
        let give_up: Callback = Rc::new(move || {
            if let Some(engine) = engine.upgrade() {
                drop(pending.leave(&engine));
            }
        });
        stage.engine.watch(other.as_raw_fd(), Direction::Inbound, give_up).unwrap();
        other_far.write_all(b"!").unwrap();
        for fd in [other.as_raw_fd(), near.as_raw_fd()] {
            stage.control.inject(stage.control.key_of(fd).unwrap(), Readiness::BOTH);
        }
        stage.pass();
        assert!(!sending.is_over());
        let mut received = Vec::new();
        take(&mut far, &mut received);
        assert_eq!(received, b"");
    });
}

#[test]
fn leaving_takes_back_ones_own_watch_and_nobody_elses() {
    guarded(|| {
        let stage = Stage::new();
        let (near, mut far) = pair();
        let former = stage.start(&near, Ready(Direction::Inbound));
        let calls = Rc::new(Cell::new(0));
        let counting = Rc::clone(&calls);
        let reader: Callback = Rc::new(move || counting.set(counting.get() + 1));
        let replaced = stage.engine.watch(near.as_raw_fd(), Direction::Inbound, reader).unwrap();
        assert!(replaced.is_some(), "one reader at a time");
        assert!(former.pending.leave(&stage.engine).is_none());
        far.write_all(b"!").unwrap();
        stage.pass();
        assert_eq!(calls.get(), 1, "the new reader is still there");
        assert!(!former.is_over());
        assert!(stage.engine.unwatch(near.as_raw_fd(), Direction::Inbound).unwrap().is_some());
    });
}

#[test]
fn the_next_owner_of_a_descriptor_number_is_left_alone() {
    guarded(|| {
        for direction in [Direction::Inbound, Direction::Outbound] {
            let stage = Stage::new();
            let (near, far) = pair();
            let number = near.as_raw_fd();
            let pending = Pending::new(Ready(Direction::Inbound));
            pending.wait(&stage.engine, near.as_fd(), Rc::new(|| ())).unwrap();
            drop((near, far));
            let (newcomer, mut its_far) = pair_with(number);
            let waiting = stage.start(&newcomer, Ready(direction));
            drop(pending.leave(&stage.engine));
            assert_eq!(stage.engine.registered_len(), 1, "the newcomer waits");
            its_far.write_all(b"!").unwrap();
            stage.pass();
            assert!(waiting.is_over(), "the newcomer hears of it, {direction:?}");
            stage.assert_idle();
        }
    });
}

#[test]
fn a_refused_registration_leaves_nothing() {
    guarded(|| {
        let stage = Stage::new();
        let (near, _far) = pair();
        let pending = Pending::new(Ready(Direction::Inbound));
        stage.control.fail_next(Op::Update, libc::ENOSPC);
        assert!(pending.wait(&stage.engine, near.as_fd(), Rc::new(|| ())).is_err());
        assert!(!pending.is_waiting());
        stage.assert_idle();
    });
}

/// A file without a name.
fn file(content: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("mainspring-socket-ops-{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(content).unwrap();
    file
}

#[test]
fn a_part_of_a_file_is_sent_and_the_position_put_behind_it() {
    guarded(|| {
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
            let stage = Stage::new();
            let (near, mut far) = pair();
            let mut source = file(&content);
            let operation = SendFile::new(source.try_clone().unwrap().into(), offset, count);
            let sending = stage.start(&near, operation);
            let mut received = Vec::new();
            while !sending.is_over() {
                stage.pass();
                take(&mut far, &mut received);
            }
            let end = count.map_or(length, |count| length.min(offset + count));
            assert!(received == content[offset as usize..end as usize], "from {offset}, {count:?}");
            assert_eq!(*sending.outcome.borrow().as_ref().unwrap().as_ref().unwrap(), end - offset);
            sending.pending.with_operation(|sending| sending.update_position()).unwrap();
            assert_eq!(source.stream_position().unwrap(), end);
            stage.assert_idle();
        }
    });
}

#[test]
fn a_file_that_is_given_up_says_how_far_it_got() {
    guarded(|| {
        let stage = Stage::new();
        let (near, mut far) = pair();
        let content = pattern(4 << 20);
        let sending = stage.start(&near, SendFile::new(file(&content).into(), 0, None));
        stage.pass();
        drop(sending.pending.leave(&stage.engine));
        let sent = sending.pending.with_operation(SendFile::sent);
        assert!(sent > 0 && !sending.is_over());
        let mut received = Vec::new();
        take(&mut far, &mut received);
        assert!(received == content[..sent as usize]);
        stage.assert_idle();
    });
}
