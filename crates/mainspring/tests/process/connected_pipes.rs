//! `connect_read_pipe` and `connect_write_pipe`.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, on_every_backend, run_on};
use mainspring::{EventLoop, Future, Protocol, Transport};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::pin;

struct Recorder {
    log: Log<String>,
    received: RefCell<Vec<u8>>,
    is_lost: Future<()>,
}

impl Recorder {
    fn new(event_loop: &EventLoop) -> Self {
        Recorder { log: Log::new(), received: RefCell::default(), is_lost: event_loop.create_future() }
    }
}

impl Protocol for Recorder {
    fn connection_made(&self, _: &Transport) {
        self.log.add("made");
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.received.borrow_mut().extend(data);
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.log.add("eof");
        false
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        let error = error.map(|error| format!(": {:?}", error.kind())).unwrap_or_default();
        self.log.add(format!("lost{error}"));
        self.is_lost.set_result(()).unwrap();
    }

    fn pause_writing(&self, _: &Transport) {
        self.log.add("pause");
    }

    fn resume_writing(&self, _: &Transport) {
        self.log.add("resume");
    }
}

fn strings<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(str::to_owned)
}

#[test]
fn a_pipe_is_read_to_its_end() {
    on_every_backend(|event_loop: EventLoop| async move {
        let (reader, mut writer) = io::pipe().unwrap();
        let (transport, recorder) =
            event_loop.connect_read_pipe(reader, || Recorder::new(&event_loop)).await.unwrap();
        recorder.log.assert(strings(["made"]));
        assert!(transport.is_reading());
        assert!(!transport.can_write_eof());
        writer.write_all(b"some bytes").unwrap();
        drop(writer);
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(*recorder.received.borrow(), b"some bytes");
        recorder.log.assert(strings(["made", "eof", "lost"]));
        assert!(transport.is_closing());
    });
}

#[test]
fn a_paused_pipe_is_not_read() {
    on_every_backend(|event_loop: EventLoop| async move {
        let (reader, mut writer) = io::pipe().unwrap();
        let (transport, recorder) =
            event_loop.connect_read_pipe(reader, || Recorder::new(&event_loop)).await.unwrap();
        transport.pause_reading();
        writer.write_all(b"later").unwrap();
        drop(writer);
        for _ in 0..10 {
            mainspring::sleep(std::time::Duration::ZERO).await;
        }
        assert_eq!(*recorder.received.borrow(), b"");
        transport.resume_reading();
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(*recorder.received.borrow(), b"later");
    });
}

#[test]
fn a_write_pipe_pauses_its_protocol_and_closes_after_the_last_byte() {
    on_every_backend(|event_loop: EventLoop| async move {
        let (mut reader, writer) = io::pipe().unwrap();
        let (transport, recorder) =
            event_loop.connect_write_pipe(writer, || Recorder::new(&event_loop)).await.unwrap();
        assert!(transport.can_write_eof());
        assert!(!transport.is_reading());
        let large: Vec<u8> = (0..1_000_000).map(|place| place as u8).collect();
        transport.writelines(&[&large, b"and ", b"more"]);
        transport.write_eof();
        assert!(transport.get_write_buffer_size() > 0);
        let read = event_loop.run_in_executor(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let all = read.unwrap().await.unwrap().unwrap();
        assert_eq!(all.len(), large.len() + 8);
        assert!(all.starts_with(&large) && all.ends_with(b"and more"));
        recorder.is_lost.clone().await.unwrap();
        recorder.log.assert(strings(["made", "pause", "resume", "lost"]));
    });
}

#[test]
fn closing_the_read_end_closes_the_writer() {
    on_every_backend(|event_loop: EventLoop| async move {
        for (queued, expected) in [(0, "lost"), (1_000_000, "lost: BrokenPipe")] {
            let (reader, writer) = io::pipe().unwrap();
            let (transport, recorder) =
                event_loop.connect_write_pipe(writer, || Recorder::new(&event_loop)).await.unwrap();
            transport.write(&vec![0; queued]);
            drop(reader);
            recorder.is_lost.clone().await.unwrap();
            assert_eq!(recorder.log.entries().last().unwrap(), expected);
        }
    });
}

#[test]
fn writing_to_a_read_pipe_is_reported() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let (reader, writer) = io::pipe().unwrap();
    let fd = reader.as_raw_fd();
    run_on(&event_loop, async {
        let (transport, recorder) =
            event_loop.connect_read_pipe(reader, || Recorder::new(&event_loop)).await.unwrap();
        transport.write(b"?");
        transport.close();
        recorder.is_lost.clone().await.unwrap();
    });
    reports.assert([format!(
        "A transport failed: file descriptor {fd} is the read end of a pipe and cannot be written"
    )]);
    drop(writer);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_cancelled_connect_closes_the_pipe() {
    let event_loop = new_loop();
    let (mut reader, writer) = io::pipe().unwrap();
    run_on(&event_loop, async {
        let mut connecting = pin!(event_loop.connect_write_pipe(writer, || Recorder::new(&event_loop)));
        std::future::poll_fn(|cx| {
            assert!(connecting.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    });
    assert_leaves_nothing(&event_loop);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

#[test]
fn non_pipes_and_closed_loops_are_refused() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        let file = || OwnedFd::from(File::open("/proc/self/exe").unwrap());
        let read = event_loop.connect_read_pipe(file(), || Recorder::new(&event_loop)).await;
        let written = event_loop.connect_write_pipe(file(), || Recorder::new(&event_loop)).await;
        for refused in [read.map(drop), written.map(drop)] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    });
    event_loop.close().unwrap();
    let (reader, _writer) = io::pipe().unwrap();
    let refused = run_on(&new_loop(), event_loop.connect_read_pipe(reader, || Recorder::new(&event_loop)));
    assert!(refused.is_err());
}
