//! Writing, and the deferred that the reader is closed.

use crate::host::{TestLoop, drain, pipe};
use mainspring_engine::poller::Interest;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{WaterMarks, WritePipe};
use test_support::pattern;
use test_support::{TestBackend, isolated};

/// More than any pipe holds.
const LARGE: usize = 300_000;

fn on_each(test: impl Fn(TestLoop)) {
    isolated(|| TestBackend::ALL.into_iter().for_each(|on| test(TestLoop::new(on))));
}

#[test]
fn data_is_written_at_once_as_far_as_possible_and_the_rest_in_order() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.write(b"");
        transport.write(&pattern(10)[..4]);
        transport.write(&pattern(10)[4..]);
        assert_eq!(drain(&read_end), pattern(10));
        test_loop.run_iterations(2);
        assert_eq!(transport.pipe().interest(), Interest::READ, "only the closing of the reader is watched");

        transport.write(pattern(LARGE));
        transport.write(&pattern(LARGE + 500)[LARGE..]);
        assert!(transport.pipe().write_buffer_size() > 500);
        let mut received = Vec::new();
        while received.len() < LARGE + 500 {
            received.extend(drain(&read_end));
            test_loop.run_once();
        }
        assert!(received == pattern(LARGE + 500));
        assert_eq!(transport.pipe().interest(), Interest::READ);
        assert_eq!(recorder.take_log(), ["made", "pause", "resume"]);
        transport.with(WritePipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn close_sends_buffered_data_first() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.write(pattern(LARGE));
        transport.with(WritePipe::close);
        transport.with(WritePipe::close);
        assert!(transport.pipe().is_closing());
        transport.write(b"too late");
        let mut received = Vec::new();
        test_loop.run_iterations(2);
        assert_eq!(recorder.count("lost"), 0, "data is still buffered");
        while recorder.count("lost") == 0 {
            received.extend(drain(&read_end));
            test_loop.run_once();
        }
        received.extend(drain(&read_end));
        assert!(received == pattern(LARGE));
        assert_eq!(recorder.take_log(), ["pause", "made", "resume", "lost"]);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_closed_reader_loses_the_writer_with_an_error_if_data_is_buffered() {
    on_each(|test_loop| {
        for (waiting, end) in [(false, "lost"), (true, "lost BrokenPipe")] {
            let (read_end, write_end) = pipe();
            let (transport, recorder) = test_loop.writer(write_end);
            test_loop.run_iterations(2);
            transport.write(pattern(if waiting { LARGE } else { 10 }));
            drop(read_end);
            test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
            assert_eq!(recorder.take_log().last().unwrap(), end);
            assert_eq!(transport.pipe().write_buffer_size(), 0);
            test_loop.assert_idle(&[]);
        }
    });
}

#[test]
fn a_closed_reader_is_noticed_while_the_writer_closes() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.write(pattern(LARGE));
        transport.with(WritePipe::close);
        test_loop.run_iterations(2);
        drop(read_end);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["pause", "made", "lost BrokenPipe"]);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_write_without_a_reader_fails_at_once_and_later_writes_warn() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        drop(read_end);
        for _ in 0..6 {
            transport.write(b"abc");
        }
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["made", "lost BrokenPipe"]);
        test_loop.assert_idle(&["Fatal write error on pipe transport: BrokenPipe", "write after loss"]);
    });
}

#[test]
fn writes_after_close_are_dropped_and_the_sixth_warns() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.with(WritePipe::close);
        for _ in 0..6 {
            transport.write(b"abc");
        }
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(drain(&read_end), b"");
        test_loop.assert_idle(&["write after loss"]);
    });
}

#[test]
fn abort_drops_buffered_data_and_loses_the_writer_once() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.write(pattern(LARGE));
        for _ in 0..2 {
            transport.with(|pipe, cx| pipe.abort(cx, None));
        }
        assert_eq!(transport.pipe().write_buffer_size(), 0);
        drop(read_end);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        test_loop.run_iterations(3);
        assert_eq!(recorder.take_log(), ["pause", "made", "lost"]);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_terminal_is_not_watched_for_a_closed_reader() {
    on_each(|test_loop| {
        let device = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let (transport, recorder) = test_loop.writer(device.into());
        transport.write(pattern(LARGE));
        test_loop.run_iterations(3);
        assert_eq!(transport.pipe().interest(), Interest::NONE);
        transport.with(WritePipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["made", "lost"]);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn lowering_the_water_marks_below_the_buffer_size_pauses_at_once() {
    on_each(|test_loop| {
        let (_read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        transport.with(|pipe, cx| pipe.set_water_marks(cx, WaterMarks { high: usize::MAX, low: 0 }));
        transport.write(pattern(LARGE));
        assert!(!transport.pipe().is_writing_paused());
        transport.with(|pipe, cx| pipe.set_water_marks(cx, WaterMarks { high: 10, low: 1 }));
        assert!(transport.pipe().is_writing_paused());
        assert_eq!(transport.pipe().water_marks(), WaterMarks { high: 10, low: 1 });
        assert_eq!(recorder.take_log(), ["pause"]);
        transport.with(|pipe, cx| pipe.abort(cx, None));
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn release_returns_the_fd_without_callbacks() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.writer(write_end);
        test_loop.run_iterations(2);
        let given_back = transport.with(|pipe, cx| Ok(pipe.release(cx))).unwrap().unwrap();
        rustix::io::write(&given_back, b"mine").unwrap();
        assert_eq!(drain(&read_end), b"mine");
        assert_eq!(recorder.take_log(), ["made"]);
        test_loop.assert_idle(&[]);
    });
}
