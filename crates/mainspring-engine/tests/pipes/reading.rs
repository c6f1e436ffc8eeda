//! The callbacks of a reader, and their order.

use crate::host::{TestLoop, pipe};
use mainspring_engine::poller::Interest;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{PipeKind, ReadPipe, prepare_pipe};
use rustix::io::write;
use test_support::{TestBackend, isolated};

fn on_each(test: impl Fn(TestLoop)) {
    isolated(|| TestBackend::ALL.into_iter().for_each(|on| test(TestLoop::new(on))));
}

#[test]
fn data_eof_and_loss_come_in_separate_calls() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.reader(read_end);
        assert_eq!(recorder.log.borrow().len(), 0, "open() calls no callback");
        test_loop.run_iterations(2);
        write(&write_end, b"abc").unwrap();
        test_loop.until("the data arrives", || recorder.count("data") == 1);
        drop(write_end);
        test_loop.until("eof_received is called", || recorder.count("eof") == 1);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["made", "data", "eof", "lost"]);
        assert_eq!(*recorder.received.borrow(), b"abc");
        assert!(transport.pipe().is_finished() && transport.pipe().is_closing());
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_paused_reader_gets_no_callback_and_registers_no_interest() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.reader(read_end);
        // Also before reading has started.
        assert_eq!(transport.with(ReadPipe::pause_reading), Some(true));
        assert_eq!(transport.with(ReadPipe::pause_reading), Some(false));
        test_loop.run_iterations(3);
        assert_eq!((transport.pipe().interest(), transport.pipe().is_reading()), (Interest::NONE, false));
        write(&write_end, b"abc").unwrap();
        drop(write_end);
        test_loop.run_iterations(3);
        assert_eq!(recorder.take_log(), ["made"]);
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(true));
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(false));
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["data", "eof", "lost"]);
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(false));
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn a_closed_reader_is_lost_once_without_eof() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (transport, recorder) = test_loop.reader(read_end);
        test_loop.run_iterations(2);
        write(&write_end, b"abc").unwrap();
        transport.with(ReadPipe::close);
        transport.with(ReadPipe::close);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        drop(write_end);
        assert_eq!(recorder.take_log(), ["made", "lost"]);
        test_loop.assert_idle(&[]);
    });
}

#[test]
fn an_error_in_data_received_is_reported_and_reading_continues() {
    on_each(|test_loop| {
        let (read_end, write_end) = pipe();
        let (_transport, recorder) = test_loop.reader(read_end);
        recorder.fails_in.set(Some("data"));
        write(&write_end, b"abc").unwrap();
        test_loop.until("the data arrives", || recorder.count("data") == 1);
        recorder.fails_in.set(None);
        write(&write_end, b"def").unwrap();
        test_loop.until("more data arrives", || recorder.count("data") == 2);
        drop(write_end);
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(*recorder.received.borrow(), b"abcdef");
        test_loop.assert_idle(&["data failed"]);
    });
}

#[test]
fn a_failing_callback_does_not_prevent_other_callbacks() {
    on_each(|test_loop| {
        for fails_in in ["made", "eof", "lost"] {
            let (read_end, write_end) = pipe();
            let (_transport, recorder) = test_loop.reader(read_end);
            recorder.fails_in.set(Some(fails_in));
            drop(write_end);
            test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
            assert_eq!(recorder.take_log(), ["made", "eof", "lost"]);
            test_loop.assert_idle(&[&format!("{fails_in} failed")]);
        }
    });
}

#[test]
fn only_fifos_sockets_and_character_devices_are_accepted() {
    isolated(|| {
        let (read_end, _write_end) = pipe();
        assert_eq!(prepare_pipe(&read_end).unwrap(), Some(PipeKind::Fifo));
        assert!(rustix::fs::fcntl_getfl(&read_end).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(prepare_pipe(&socket).unwrap(), Some(PipeKind::Socket));
        let device = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(prepare_pipe(&device).unwrap(), Some(PipeKind::CharacterDevice));
        let file = std::fs::File::open("/etc/passwd");
        assert_eq!(prepare_pipe(file.unwrap()).unwrap(), None);
    });
}

#[test]
fn a_device_that_cannot_be_registered_loses_the_reader_with_the_kernels_error() {
    on_each(|test_loop| {
        // epoll refuses this device.
        let device = std::fs::File::open("/dev/null").unwrap();
        let (_transport, recorder) = test_loop.reader(device.into());
        test_loop.until("connection_lost is called", || recorder.count("lost") == 1);
        assert_eq!(recorder.take_log(), ["made", "lost PermissionDenied"]);
        test_loop.assert_idle(&["Fatal error: the pipe cannot be watched: PermissionDenied"]);
    });
}
