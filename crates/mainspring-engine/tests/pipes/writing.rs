//! What a writer sends, and what it hears of its reader.

use crate::face::{Bench, drain, pipe};
use mainspring_engine::poller::Interest;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{WaterMarks, WritePipe};
use test_support::pattern;
use test_support::{On, guarded};

/// More than any pipe holds.
const MUCH: usize = 300_000;

fn on_each(test: impl Fn(Bench)) {
    guarded(|| On::ALL.into_iter().for_each(|on| test(Bench::new(on))));
}

#[test]
fn what_a_pipe_takes_is_written_at_once_and_the_rest_in_order() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.write(b"");
        transport.write(&pattern(10)[..4]);
        transport.write(&pattern(10)[4..]);
        assert_eq!(drain(&read_end), pattern(10));
        bench.passes(2);
        assert_eq!(transport.pipe().interest(), Interest::READ, "only the reader's end is of interest");

        transport.write(pattern(MUCH));
        transport.write(&pattern(MUCH + 500)[MUCH..]);
        assert!(transport.pipe().write_buffer_size() > 500);
        let mut received = Vec::new();
        while received.len() < MUCH + 500 {
            received.extend(drain(&read_end));
            bench.pass();
        }
        assert!(received == pattern(MUCH + 500));
        assert_eq!(transport.pipe().interest(), Interest::READ);
        assert_eq!(told.take_log(), ["made", "pause", "resume"]);
        transport.with(WritePipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        bench.assert_idle(&[]);
    });
}

#[test]
fn closing_sends_what_waits_and_then_ends() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.write(pattern(MUCH));
        transport.with(WritePipe::close);
        transport.with(WritePipe::close);
        assert!(transport.pipe().is_closing());
        transport.write(b"too late");
        let mut received = Vec::new();
        bench.passes(2);
        assert_eq!(told.count("lost"), 0, "it still has something to say");
        while told.count("lost") == 0 {
            received.extend(drain(&read_end));
            bench.pass();
        }
        received.extend(drain(&read_end));
        assert!(received == pattern(MUCH));
        assert_eq!(told.take_log(), ["pause", "made", "resume", "lost"]);
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_reader_that_leaves_ends_the_writer_with_an_error_if_something_waited() {
    on_each(|bench| {
        for (waiting, end) in [(false, "lost"), (true, "lost BrokenPipe")] {
            let (read_end, write_end) = pipe();
            let (transport, told) = bench.writer(write_end);
            bench.passes(2);
            transport.write(pattern(if waiting { MUCH } else { 10 }));
            drop(read_end);
            bench.until("the loss is told", || told.count("lost") == 1);
            assert_eq!(told.take_log().last().unwrap(), end);
            assert_eq!(transport.pipe().write_buffer_size(), 0);
            bench.assert_idle(&[]);
        }
    });
}

#[test]
fn a_reader_that_leaves_is_seen_also_while_the_writer_closes() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.write(pattern(MUCH));
        transport.with(WritePipe::close);
        bench.passes(2);
        drop(read_end);
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["pause", "made", "lost BrokenPipe"]);
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_write_that_nobody_can_read_fails_at_once_and_later_ones_are_warned_of() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        drop(read_end);
        for _ in 0..6 {
            transport.write(b"abc");
        }
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["made", "lost BrokenPipe"]);
        bench.assert_idle(&["Fatal write error on pipe transport: BrokenPipe", "written too late"]);
    });
}

#[test]
fn writes_after_close_are_dropped_and_from_the_sixth_on_warned_of() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.with(WritePipe::close);
        for _ in 0..6 {
            transport.write(b"abc");
        }
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(drain(&read_end), b"");
        bench.assert_idle(&["written too late"]);
    });
}

#[test]
fn aborting_drops_what_waits_and_tells_the_loss_once() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.write(pattern(MUCH));
        for _ in 0..2 {
            transport.with(|pipe, cx| pipe.abort(cx, None));
        }
        assert_eq!(transport.pipe().write_buffer_size(), 0);
        drop(read_end);
        bench.until("the loss is told", || told.count("lost") == 1);
        bench.passes(3);
        assert_eq!(told.take_log(), ["pause", "made", "lost"]);
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_terminal_is_not_asked_about_its_reader() {
    on_each(|bench| {
        let device = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let (transport, told) = bench.writer(device.into());
        transport.write(pattern(MUCH));
        bench.passes(3);
        assert_eq!(transport.pipe().interest(), Interest::NONE);
        transport.with(WritePipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["made", "lost"]);
        bench.assert_idle(&[]);
    });
}

#[test]
fn marks_that_are_lowered_below_what_waits_pause_at_once() {
    on_each(|bench| {
        let (_read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        transport.with(|pipe, cx| pipe.set_water_marks(cx, WaterMarks { high: usize::MAX, low: 0 }));
        transport.write(pattern(MUCH));
        assert!(!transport.pipe().is_writing_paused());
        transport.with(|pipe, cx| pipe.set_water_marks(cx, WaterMarks { high: 10, low: 1 }));
        assert!(transport.pipe().is_writing_paused());
        assert_eq!(transport.pipe().water_marks(), WaterMarks { high: 10, low: 1 });
        assert_eq!(told.take_log(), ["pause"]);
        transport.with(|pipe, cx| pipe.abort(cx, None));
        bench.until("the loss is told", || told.count("lost") == 1);
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_transport_that_is_released_gives_its_descriptor_back_and_is_told_nothing() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.writer(write_end);
        bench.passes(2);
        let given_back = transport.with(|pipe, cx| Ok(pipe.release(cx))).unwrap().unwrap();
        rustix::io::write(&given_back, b"mine").unwrap();
        assert_eq!(drain(&read_end), b"mine");
        assert_eq!(told.take_log(), ["made"]);
        bench.assert_idle(&[]);
    });
}
