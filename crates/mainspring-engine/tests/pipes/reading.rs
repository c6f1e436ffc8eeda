//! What a reader is told, and when.

use crate::face::{Bench, pipe};
use mainspring_engine::poller::Interest;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{PipeKind, ReadPipe, prepare_pipe};
use rustix::io::write;
use test_support::{On, guarded};

fn on_each(test: impl Fn(Bench)) {
    guarded(|| On::ALL.into_iter().for_each(|on| test(Bench::new(on))));
}

#[test]
fn data_then_the_end_then_the_loss_each_in_a_step_of_its_own() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.reader(read_end);
        assert_eq!(told.log.borrow().len(), 0, "nothing is told out of open()");
        bench.passes(2);
        write(&write_end, b"abc").unwrap();
        bench.until("the data comes", || told.count("data") == 1);
        drop(write_end);
        bench.until("the end is told", || told.count("eof") == 1);
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["made", "data", "eof", "lost"]);
        assert_eq!(*told.received.borrow(), b"abc");
        assert!(transport.pipe().is_finished() && transport.pipe().is_closing());
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_paused_reader_is_told_nothing_and_the_kernel_is_asked_nothing() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.reader(read_end);
        // Before reading has begun, too.
        assert_eq!(transport.with(ReadPipe::pause_reading), Some(true));
        assert_eq!(transport.with(ReadPipe::pause_reading), Some(false));
        bench.passes(3);
        assert_eq!((transport.pipe().interest(), transport.pipe().is_reading()), (Interest::NONE, false));
        write(&write_end, b"abc").unwrap();
        drop(write_end);
        bench.passes(3);
        assert_eq!(told.take_log(), ["made"]);
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(true));
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(false));
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["data", "eof", "lost"]);
        assert_eq!(transport.with(ReadPipe::resume_reading), Some(false));
        bench.assert_idle(&[]);
    });
}

#[test]
fn a_reader_that_is_closed_is_told_of_the_loss_once_and_of_no_end() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (transport, told) = bench.reader(read_end);
        bench.passes(2);
        write(&write_end, b"abc").unwrap();
        transport.with(ReadPipe::close);
        transport.with(ReadPipe::close);
        bench.until("the loss is told", || told.count("lost") == 1);
        drop(write_end);
        assert_eq!(told.take_log(), ["made", "lost"]);
        bench.assert_idle(&[]);
    });
}

#[test]
fn data_that_its_protocol_fails_on_is_reported_and_reading_goes_on() {
    on_each(|bench| {
        let (read_end, write_end) = pipe();
        let (_transport, told) = bench.reader(read_end);
        told.fails_in.set(Some("data"));
        write(&write_end, b"abc").unwrap();
        bench.until("the data comes", || told.count("data") == 1);
        told.fails_in.set(None);
        write(&write_end, b"def").unwrap();
        bench.until("more comes", || told.count("data") == 2);
        drop(write_end);
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(*told.received.borrow(), b"abcdef");
        bench.assert_idle(&["data failed"]);
    });
}

#[test]
fn callbacks_that_fail_keep_no_other_callback_from_being_called() {
    on_each(|bench| {
        for fails_in in ["made", "eof", "lost"] {
            let (read_end, write_end) = pipe();
            let (_transport, told) = bench.reader(read_end);
            told.fails_in.set(Some(fails_in));
            drop(write_end);
            bench.until("the loss is told", || told.count("lost") == 1);
            assert_eq!(told.take_log(), ["made", "eof", "lost"]);
            bench.assert_idle(&[&format!("{fails_in} failed")]);
        }
    });
}

#[test]
fn only_fifos_sockets_and_character_devices_are_pipes() {
    guarded(|| {
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
fn a_device_that_cannot_be_watched_ends_the_reader_with_the_kernels_word() {
    on_each(|bench| {
        // epoll knows no readiness of this one.
        let device = std::fs::File::open("/dev/null").unwrap();
        let (_transport, told) = bench.reader(device.into());
        bench.until("the loss is told", || told.count("lost") == 1);
        assert_eq!(told.take_log(), ["made", "lost PermissionDenied"]);
        bench.assert_idle(&["Fatal error: the pipe cannot be watched: PermissionDenied"]);
    });
}
