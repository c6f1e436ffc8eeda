//! `send_signal`, `terminate`, `kill`.

use crate::support::on_every_backend;
use crate::{endless, wait_for_zombie};
use mainspring::process::{Command, Stdio};
use mainspring::signal::SignalKind;
use std::os::unix::process::ExitStatusExt;

#[test]
fn terminate_sends_sigterm_and_kill_sends_sigkill() {
    on_every_backend(|_| async {
        let child = endless().spawn().unwrap();
        child.terminate().unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(libc::SIGTERM));

        let child = endless().spawn().unwrap();
        child.kill().await.unwrap();
        assert_eq!(child.returncode(), Some(-libc::SIGKILL));
    });
}

#[test]
fn a_process_may_handle_its_signal() {
    on_every_backend(|_| async {
        let mut child = Command::shell("trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        assert_eq!(stdout.read_line().await.unwrap(), b"ready\n");
        child.send_signal(SignalKind::user_defined1()).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
    });
}

#[test]
fn signals_after_exit_do_nothing() {
    on_every_backend(|_| async {
        let child = Command::new("true").spawn().unwrap();
        wait_for_zombie(&child);
        // First a zombie, then no process.
        child.terminate().unwrap();
        assert!(child.wait().await.unwrap().success());
        child.terminate().unwrap();
        child.send_signal(libc::SIGHUP).unwrap();
        child.start_kill().unwrap();
        child.kill().await.unwrap();
        assert_eq!(child.returncode(), Some(0));
    });
}

#[test]
fn an_invalid_signal_number_is_refused() {
    on_every_backend(|_| async {
        let child = endless().kill_on_drop(true).spawn().unwrap();
        for signum in [0, -9, 32, 1000] {
            let refused = child.send_signal(signum).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        }
        child.kill().await.unwrap();
    });
}
