//! Everything the kernel may answer to a pipe.

use crate::face::{Bench, drain, pipe};
use mainspring_engine::poller::Readiness;
use mainspring_engine::testing::{FaultPlan, Op};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::WritePipe;
use test_support::pattern;
use test_support::{On, guarded};

fn count(bench: &Bench, op: Op) -> usize {
    bench.control.take_log().iter().filter(|entry| entry.call.op() == op).count()
}

#[test]
fn interrupted_and_short_reads_and_writes_lose_nothing() {
    guarded(|| {
        for size in [0, 1, 7, 1000] {
            let bench = Bench::new(On::Fake);
            let (read_end, write_end) = pipe();
            let (_reader, told) = bench.reader(read_end);
            let (writer, _) = bench.writer(write_end);
            for op in [Op::Read, Op::Write] {
                bench.control.plan(FaultPlan::fail(op, libc::EINTR));
                bench.control.plan(FaultPlan::fail(op, libc::EAGAIN));
                bench.control.plan(FaultPlan::short(op, size).times(20));
            }
            let mut sent = 0;
            for length in 1..60 {
                writer.write(&pattern(sent + length)[sent..]);
                sent += length;
            }
            bench.until("all has arrived", || told.received.borrow().len() == sent);
            assert!(*told.received.borrow() == pattern(sent), "pieces of {size}");
            bench.control.clear_faults();
            writer.with(WritePipe::close);
            bench.until("the end is told", || told.count("lost") == 1);
            bench.assert_idle(&[]);
        }
    });
}

#[test]
fn a_failed_read_ends_the_reader_once_with_the_error() {
    guarded(|| {
        for (errno, kind) in [(libc::ECONNRESET, "ConnectionReset"), (libc::EPIPE, "BrokenPipe")] {
            let bench = Bench::new(On::Fake);
            let (read_end, write_end) = pipe();
            let (_reader, told) = bench.reader(read_end);
            bench.control.fail_next(Op::Read, errno);
            rustix::io::write(&write_end, b"abc").unwrap();
            bench.until("the loss is told", || told.count("lost") == 1);
            assert_eq!(told.take_log(), ["made", &format!("lost {kind}")]);
            bench.assert_idle(&[&format!("Fatal read error on pipe transport: {kind}")]);
        }
    });
}

#[test]
fn a_failed_write_ends_the_writer_at_once_or_in_the_middle_of_the_queue() {
    guarded(|| {
        for queued in [false, true] {
            let bench = Bench::new(On::Fake);
            let (read_end, write_end) = pipe();
            let (writer, told) = bench.writer(write_end);
            if queued {
                bench.control.plan(FaultPlan::short(Op::Write, 3));
            }
            bench.control.fail_next(Op::Write, libc::ETIMEDOUT);
            writer.write(b"abcdef");
            bench.until("the loss is told", || told.count("lost") == 1);
            assert_eq!(drain(&read_end), if queued { &b"abc"[..] } else { b"" });
            assert_eq!(told.take_log(), ["made", "lost TimedOut"]);
            bench.assert_idle(&["Fatal write error on pipe transport: TimedOut"]);
        }
    });
}

#[test]
fn a_pipe_that_the_kernel_refuses_to_watch_is_lost_once() {
    guarded(|| {
        let refused = "Fatal error: the pipe cannot be watched: OutOfMemory";
        let bench = Bench::new(On::Fake);
        let (read_end, _write_end) = pipe();
        let (_reader, told) = bench.reader(read_end);
        bench.control.fail_next(Op::Update, libc::ENOMEM);
        bench.until("the loss is told", || told.count("lost") == 1);
        bench.assert_idle(&[refused]);

        // When it begins, and when it first has to wait.
        for passes in [0, 2] {
            let (_read_end, write_end) = pipe();
            let (writer, told) = bench.writer(write_end);
            bench.passes(passes);
            bench.control.fail_next(Op::Update, libc::ENOMEM);
            writer.write(pattern(300_000));
            bench.until("the loss is told", || told.count("lost") == 1);
            assert_eq!(bench.control.pending_faults(), 0);
            bench.assert_idle(&[refused]);
        }
    });
}

#[test]
fn events_that_are_not_true_cost_a_call_and_nothing_else() {
    guarded(|| {
        let bench = Bench::new(On::Fake);
        let (read_end, write_end) = pipe();
        let (reader, told) = bench.reader(read_end);
        let key = |fd| bench.control.key_of(fd);
        bench.until("it reads", || key(reader.pipe().fd()).is_some());
        for readiness in [Readiness::INBOUND, Readiness::OUTBOUND, Readiness::BOTH] {
            bench.control.take_log();
            bench.control.inject(key(reader.pipe().fd()).unwrap(), readiness);
            bench.passes(2);
            assert_eq!(count(&bench, Op::Read), usize::from(readiness.inbound));
        }
        assert_eq!(told.take_log(), ["made"]);

        let (writer, told) = bench.writer(write_end);
        bench.passes(2);
        bench.control.take_log();
        bench.control.inject(key(writer.pipe().fd()).unwrap(), Readiness::OUTBOUND);
        bench.passes(2);
        assert_eq!((count(&bench, Op::Write), told.take_log()), (0, vec!["made".to_owned()]));
        writer.with(WritePipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        drop(reader);
        bench.passes(3);
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_descriptor_that_was_closed_behind_the_loop_takes_nobody_else_out_of_the_kernels_set() {
    guarded(|| {
        let bench = Bench::new(On::Epoll);
        let (read_end, write_end) = pipe();
        let (stale, stale_told) = bench.reader(read_end);
        bench.passes(2);
        // Its number is given to the read end of another pipe.
        let number = stale.pipe().fd();
        let (fresh_read, fresh_write) = pipe();
        // SAFETY: the number belongs to `stale`, which is not used for anything but its end from here on.
        let mut owned = unsafe { std::os::fd::FromRawFd::from_raw_fd(number) };
        let kept: std::os::fd::OwnedFd = {
            rustix::io::dup2(&fresh_read, &mut owned).unwrap();
            owned
        };
        drop((fresh_read, write_end));
        let (fresh, told) = bench.reader(kept);
        bench.passes(2);
        // Ends without the descriptor, which is the other one's now.
        let given_back = stale.with(|pipe, cx| Ok(pipe.release(cx))).unwrap();
        std::mem::forget(given_back);
        rustix::io::write(&fresh_write, b"abc").unwrap();
        bench.until("the data comes", || told.count("data") == 1);
        assert_eq!(stale_told.take_log(), ["made"]);
        fresh.with(mainspring_engine::transport::ReadPipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        bench.assert_idle(&[]);
    });
}
