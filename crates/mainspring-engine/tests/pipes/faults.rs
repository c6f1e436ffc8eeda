//! Every result that the kernel may return for a pipe.

use crate::host::{TestLoop, drain, pipe};
use mainspring_engine::poller::Readiness;
use mainspring_engine::testing::{FaultPlan, Op};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::WritePipe;
use test_support::pattern;
use test_support::{TestBackend, isolated};

fn count(test_loop: &TestLoop, op: Op) -> usize {
    test_loop.control.take_log().iter().filter(|entry| entry.call.op() == op).count()
}

#[test]
fn interrupted_and_short_reads_and_writes_lose_nothing() {
    isolated(|| {
        for size in [0, 1, 7, 1000] {
            let test_loop = TestLoop::new(TestBackend::Fake);
            let (read_end, write_end) = pipe();
            let (_reader, recorder) = test_loop.reader(read_end);
            let (writer, _) = test_loop.writer(write_end);
            for op in [Op::Read, Op::Write] {
                test_loop.control.plan(FaultPlan::fail(op, libc::EINTR));
                test_loop.control.plan(FaultPlan::fail(op, libc::EAGAIN));
                test_loop.control.plan(FaultPlan::short(op, size).times(20));
            }
            let mut sent = 0;
            for length in 1..60 {
                writer.write(&pattern(sent + length)[sent..]);
                sent += length;
            }
            test_loop.until("all has arrived", || recorder.received.borrow().len() == sent);
            assert!(*recorder.received.borrow() == pattern(sent), "pieces of {size}");
            test_loop.control.clear_faults();
            writer.with(WritePipe::close);
            test_loop.until("eof_received is called", || recorder.count("lost") == 1);
            test_loop.assert_idle(&[]);
        }
    });
}

#[test]
fn a_failed_read_loses_the_reader_once_with_the_error() {
    isolated(|| {
        for (errno, kind) in [(libc::ECONNRESET, "ConnectionReset"), (libc::EPIPE, "BrokenPipe")] {
            let test_loop = TestLoop::new(TestBackend::Fake);
            let (read_end, write_end) = pipe();
            let (_reader, recorder) = test_loop.reader(read_end);
            test_loop.control.fail_next(Op::Read, errno);
            rustix::io::write(&write_end, b"abc").unwrap();
            test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
            assert_eq!(recorder.take_log(), ["made", &format!("lost {kind}")]);
            test_loop.assert_idle(&[&format!("Fatal read error on pipe transport: {kind}")]);
        }
    });
}

#[test]
fn a_failed_write_loses_the_writer_at_once_or_while_buffered() {
    isolated(|| {
        for queued in [false, true] {
            let test_loop = TestLoop::new(TestBackend::Fake);
            let (read_end, write_end) = pipe();
            let (writer, recorder) = test_loop.writer(write_end);
            if queued {
                test_loop.control.plan(FaultPlan::short(Op::Write, 3));
            }
            test_loop.control.fail_next(Op::Write, libc::ETIMEDOUT);
            writer.write(b"abcdef");
            test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
            assert_eq!(drain(&read_end), if queued { &b"abc"[..] } else { b"" });
            assert_eq!(recorder.take_log(), ["made", "lost TimedOut"]);
            test_loop.assert_idle(&["Fatal write error on pipe transport: TimedOut"]);
        }
    });
}

#[test]
fn a_pipe_that_cannot_be_registered_is_lost_once() {
    isolated(|| {
        let refused = "Fatal error: the pipe cannot be watched: OutOfMemory";
        let test_loop = TestLoop::new(TestBackend::Fake);
        let (read_end, _write_end) = pipe();
        let (_reader, recorder) = test_loop.reader(read_end);
        test_loop.control.fail_next(Op::Update, libc::ENOMEM);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        test_loop.assert_idle(&[refused]);

        // When the transport starts, and when it first has to wait.
        for iterations in [0, 2] {
            let (_read_end, write_end) = pipe();
            let (writer, recorder) = test_loop.writer(write_end);
            test_loop.run_iterations(iterations);
            test_loop.control.fail_next(Op::Update, libc::ENOMEM);
            writer.write(pattern(300_000));
            test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
            assert_eq!(test_loop.control.pending_faults(), 0);
            test_loop.assert_idle(&[refused]);
        }
    });
}

#[test]
fn a_spurious_event_costs_one_system_call() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake);
        let (read_end, write_end) = pipe();
        let (reader, recorder) = test_loop.reader(read_end);
        let key = |fd| test_loop.control.key_of(fd);
        test_loop.until("it reads", || key(reader.pipe().fd()).is_some());
        for readiness in [Readiness::INBOUND, Readiness::OUTBOUND, Readiness::BOTH] {
            test_loop.control.take_log();
            test_loop.control.inject(key(reader.pipe().fd()).unwrap(), readiness);
            test_loop.run_iterations(2);
            assert_eq!(count(&test_loop, Op::Read), usize::from(readiness.inbound));
        }
        assert_eq!(recorder.take_log(), ["made"]);

        let (writer, recorder) = test_loop.writer(write_end);
        test_loop.run_iterations(2);
        test_loop.control.take_log();
        test_loop.control.inject(key(writer.pipe().fd()).unwrap(), Readiness::OUTBOUND);
        test_loop.run_iterations(2);
        assert_eq!((count(&test_loop, Op::Write), recorder.take_log()), (0, vec!["made".to_owned()]));
        writer.with(WritePipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        drop(reader);
        test_loop.run_iterations(3);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn releasing_a_stale_fd_does_not_unregister_its_new_owner() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll);
        let (read_end, write_end) = pipe();
        let (stale, stale_told) = test_loop.reader(read_end);
        test_loop.run_iterations(2);
        // The number is reused for the read end of another pipe.
        let number = stale.pipe().fd();
        let (fresh_read, fresh_write) = pipe();
        // SAFETY: the number belongs to `stale`, which is only closed from here on.
        let mut owned = unsafe { std::os::fd::FromRawFd::from_raw_fd(number) };
        let kept: std::os::fd::OwnedFd = {
            rustix::io::dup2(&fresh_read, &mut owned).unwrap();
            owned
        };
        drop((fresh_read, write_end));
        let (fresh, recorder) = test_loop.reader(kept);
        test_loop.run_iterations(2);
        // Released without closing its fd number, which now belongs to the other transport.
        let given_back = stale.with(|pipe, cx| Ok(pipe.release(cx))).unwrap();
        std::mem::forget(given_back);
        rustix::io::write(&fresh_write, b"abc").unwrap();
        test_loop.until("the data arrives", || recorder.count("data") == 1);
        assert_eq!(stale_told.take_log(), ["made"]);
        fresh.with(mainspring_engine::transport::ReadPipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        test_loop.assert_idle(&[]);
    });
}
