//! Faults of the system calls for processes.

use crate::support::{assert_leaves_nothing, collect_reports, run_on};
use crate::{assert_is_reaped, endless, is_our_child};
use mainspring::process::{Command, Stdio};
use mainspring_engine::poller::Readiness;

use mainspring::{Builder, EventLoop};
use mainspring_engine::testing::{FakeControl, FakePoller, FaultPlan, Op};
use std::collections::BTreeSet;
use std::fs;

fn faulty_loop() -> (EventLoop, FakeControl) {
    let (backend, control) = FakePoller::open().unwrap();
    (Builder::new().backend(backend).build().unwrap(), control)
}

/// The unreaped children of this process.
fn our_children() -> BTreeSet<u32> {
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    processes.filter_map(|name| name.parse().ok()).filter(|pid| is_our_child(*pid)).collect()
}

#[test]
fn a_process_that_cannot_be_registered_is_killed_and_reaped() {
    let (event_loop, control) = faulty_loop();
    run_on(&event_loop, async {
        control.fail_next(Op::Update, libc::ENOSPC);
        let marker = "123454321";
        let error = Command::new("sleep").arg(marker).spawn().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        for pid in our_children() {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if line.windows(marker.len()).any(|piece| piece == marker.as_bytes()) {
                assert_is_reaped(pid);
            }
        }
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn interruptions_and_short_transfers_change_nothing() {
    let (event_loop, control) = faulty_loop();
    let reports = collect_reports(&event_loop);
    let sent: Vec<u8> = (0..300_000).map(|place| place as u8).collect();
    for op in [Op::Read, Op::Write] {
        control.plan(FaultPlan::fail(op, libc::EAGAIN).times(2));
        control.plan(FaultPlan::fail(op, libc::EINTR).times(2));
        control.plan(FaultPlan::short(op, 1).times(5));
    }
    let output = run_on(&event_loop, async {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.communicate(Some(&sent)).await.unwrap().0.unwrap()
    });
    assert!(output == sent);
    assert_eq!(control.pending_faults(), 0);
    reports.assert([]);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_failed_pipe_fails_its_reader_but_not_the_process() {
    let (event_loop, control) = faulty_loop();
    run_on(&event_loop, async {
        control.plan(FaultPlan::fail(Op::Read, libc::EIO));
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        stdin.write_all(b"never read").await.unwrap();
        assert_eq!(stdout.read_to_end().await.unwrap_err().raw_os_error(), Some(libc::EIO));
        drop(stdin);
        assert!(child.wait().await.is_ok());
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_spurious_exit_event_is_ignored() {
    let (event_loop, control) = faulty_loop();
    run_on(&event_loop, async {
        control.take_log();
        let child = endless().spawn().unwrap();
        let fd = control.log().iter().filter_map(|entry| entry.call.fd()).next().unwrap();
        let key = control.key_of(fd).unwrap();
        for _ in 0..3 {
            control.inject(key, Readiness { inbound: true, outbound: false });
            mainspring::sleep(std::time::Duration::ZERO).await;
            assert_eq!(child.returncode(), None);
        }
        child.kill().await.unwrap();
        assert_eq!(child.returncode(), Some(-9));
    });
    assert_leaves_nothing(&event_loop);
}
