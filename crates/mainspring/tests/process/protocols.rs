//! `subprocess_exec`, `subprocess_shell`, `SubprocessProtocol`.

use crate::support::{
    Log, assert_leaves_nothing, collect_reports, new_loop, on_every_backend, run_on, run_one_iteration,
};
use crate::{assert_is_reaped, endless, is_our_child};
use mainspring::process::{Command, Stdio, SubprocessProtocol, SubprocessTransport};
use mainspring::{EventLoop, Future};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Logs the callbacks, and signals the last one.
struct Recorder {
    log: Log<String>,
    received: RefCell<[Vec<u8>; 3]>,
    /// The transport, if the protocol keeps it.
    kept: RefCell<Option<SubprocessTransport>>,
    is_lost: Future<()>,
    panics_in: &'static str,
}

impl Recorder {
    fn new(event_loop: &EventLoop, panics_in: &'static str) -> Self {
        Recorder {
            log: Log::new(),
            received: RefCell::default(),
            kept: RefCell::default(),
            is_lost: event_loop.create_future(),
            panics_in,
        }
    }

    fn record(&self, what: &str) {
        self.log.add(what);
        assert!(self.panics_in != what && self.panics_in != "everything", "in {what}");
    }

    /// The callbacks, except data and the order of exit and pipes.
    fn sorted(&self) -> Vec<String> {
        let mut entries = self.log.entries();
        entries.sort();
        entries
    }
}

impl SubprocessProtocol for Recorder {
    fn connection_made(&self, transport: &SubprocessTransport) {
        *self.kept.borrow_mut() = Some(transport.clone());
        self.record("made");
    }

    fn pipe_data_received(&self, _: &SubprocessTransport, fd: i32, data: &[u8]) {
        self.received.borrow_mut()[fd as usize].extend(data);
        assert!(self.panics_in != "everything", "in data");
    }

    fn pipe_connection_lost(&self, _: &SubprocessTransport, fd: i32, error: Option<io::Error>) {
        let error = error.map(|error| format!(" {:?}", error.kind())).unwrap_or_default();
        self.record(&format!("pipe {fd} lost{error}"));
    }

    fn process_exited(&self, transport: &SubprocessTransport) {
        assert!(transport.get_returncode().is_some());
        self.record("exited");
    }

    fn connection_lost(&self, _: &SubprocessTransport, error: Option<io::Error>) {
        assert!(error.is_none());
        let _ = self.is_lost.set_result(());
        self.record("lost");
    }

    fn pause_writing(&self, _: &SubprocessTransport) {
        self.record("pause");
    }

    fn resume_writing(&self, _: &SubprocessTransport) {
        self.record("resume");
    }
}

fn strings<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(str::to_owned)
}

#[test]
fn a_protocol_gets_every_callback_in_order() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let started = event_loop.subprocess_shell("cat; echo error >&2; exit 3", || recorder);
        let (transport, recorder) = started.await.unwrap();
        assert_eq!(recorder.log.entries(), ["made"]);
        assert_eq!(transport.get_returncode(), None);
        let stdin = transport.get_pipe_transport(0).unwrap();
        stdin.write(b"to the process");
        stdin.write_eof();
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(recorder.log.entries().last().unwrap(), "lost");
        assert_eq!(
            recorder.sorted(),
            strings(["exited", "lost", "made", "pipe 0 lost", "pipe 1 lost", "pipe 2 lost"])
        );
        assert_eq!(*recorder.received.borrow(), [&b""[..], b"to the process", b"error\n"]);
        assert_eq!(transport.get_returncode(), Some(3));
        assert!(!is_our_child(transport.get_pid()));
    });
}

#[test]
fn the_loop_keeps_the_transport_alive() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let mut command = Command::new("echo");
        let started = event_loop.subprocess_exec(command.arg("kept by the loop"), || recorder);
        let (_, recorder) = started.await.unwrap();
        *recorder.kept.borrow_mut() = None;
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(recorder.received.borrow()[1], b"kept by the loop\n");
    });
}

#[test]
fn only_piped_streams_have_a_transport() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let mut command = Command::new("true");
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let (transport, recorder) = event_loop.subprocess_exec(&mut command, || recorder).await.unwrap();
        let piped = [-1, 0, 1, 2, 3].map(|fd| transport.get_pipe_transport(fd).is_some());
        assert_eq!(piped, [false, false, true, false, false]);
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(recorder.sorted(), strings(["exited", "lost", "made", "pipe 1 lost"]));
    });
}

#[test]
fn a_process_without_pipes_is_lost_after_it_exits() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let mut command = Command::new("true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let (_, recorder) = event_loop.subprocess_exec(&mut command, || recorder).await.unwrap();
        recorder.is_lost.clone().await.unwrap();
        recorder.log.assert(strings(["made", "exited", "lost"]));
    });
}

#[test]
fn close_kills_the_process_and_closes_its_pipes() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let mut command = endless();
        command.stdin(Stdio::piped());
        let (transport, recorder) = event_loop.subprocess_exec(&mut command, || recorder).await.unwrap();
        assert!(!transport.is_closing());
        transport.close();
        transport.close();
        assert!(transport.is_closing());
        recorder.is_lost.clone().await.unwrap();
        assert_eq!(transport.get_returncode(), Some(-9));
        assert_eq!(recorder.log.entries().len(), 6);
        transport.close();
        transport.kill().unwrap();
        transport.terminate().unwrap();
    });
}

#[test]
fn a_cancelled_start_kills_the_process() {
    for polls in [0, 1] {
        let event_loop = new_loop();
        let recorder = Recorder::new(&event_loop, "");
        let (log, is_lost) = (recorder.log.clone(), recorder.is_lost.clone());
        let mut started = Box::pin(event_loop.subprocess_exec(&mut endless(), || recorder));
        run_on(&event_loop, async move {
            for _ in 0..polls {
                std::future::poll_fn(|cx| {
                    assert!(started.as_mut().poll(cx).is_pending());
                    std::task::Poll::Ready(())
                })
                .await;
            }
            drop(started);
            is_lost.await.unwrap();
        });
        assert_eq!(log.entries().last().unwrap(), "lost");
        assert_leaves_nothing(&event_loop);
    }
}

#[test]
fn a_failed_start_calls_no_protocol_method() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let log = recorder.log.clone();
        let mut command = Command::new("/there/is/no/such/program");
        let error = event_loop.subprocess_exec(&mut command, || recorder).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        log.assert([]);
    });
}

#[test]
fn a_protocol_that_panics_in_every_callback_still_gets_every_callback() {
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let recorder = Recorder::new(&event_loop, "everything");
    let (log, is_lost) = (recorder.log.clone(), recorder.is_lost.clone());
    let mut command = Command::shell("echo out");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    run_on(&event_loop, async {
        event_loop.subprocess_exec(&mut command, || recorder).await.unwrap();
        is_lost.await.unwrap();
    });
    let mut entries = log.entries();
    entries.sort();
    assert_eq!(entries, strings(["exited", "lost", "made", "pipe 1 lost"]));
    let reports = reports.entries();
    assert_eq!(reports.len(), 5, "{reports:?}");
    assert!(reports.iter().all(|text| text.starts_with("A callback of a subprocess protocol panicked")));
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_slow_reader_pauses_the_writer() {
    on_every_backend(|event_loop: EventLoop| async move {
        let recorder = Recorder::new(&event_loop, "");
        let mut command = Command::shell("cat > /dev/null");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (transport, recorder) = event_loop.subprocess_exec(&mut command, || recorder).await.unwrap();
        let stdin = transport.get_pipe_transport(0).unwrap();
        stdin.write(&vec![0; 1 << 20]);
        stdin.close();
        recorder.is_lost.clone().await.unwrap();
        let paused: Vec<_> = recorder
            .log
            .entries()
            .into_iter()
            .filter(|entry| ["pause", "resume"].contains(&&**entry))
            .collect();
        assert_eq!(paused, ["pause", "resume"]);
    });
}

#[test]
fn closing_the_loop_drops_protocol_and_process() {
    for kill_on_drop in [true, false] {
        let event_loop = new_loop();
        let recorder = Recorder::new(&event_loop, "");
        let mut command = endless();
        command.stdin(Stdio::piped()).kill_on_drop(kill_on_drop);
        let started = event_loop.subprocess_exec(&mut command, || recorder);
        let (transport, recorder) = run_on(&event_loop, started).unwrap();
        run_one_iteration(&event_loop);
        let pid = transport.get_pid();
        // The protocol owns the transport, which makes a cycle.
        drop(transport);
        let weak = Rc::downgrade(&recorder);
        drop(recorder);
        event_loop.close().unwrap();
        assert_eq!(weak.strong_count(), 0);
        if !kill_on_drop {
            assert!(is_our_child(pid));
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        assert_is_reaped(pid);
    }
}
