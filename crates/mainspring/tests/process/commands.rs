//! How a process is started.

use crate::support::on_every_backend;
use mainspring::process::{Command, Stdio};
use std::io;

/// The output of the process without the final newline.
async fn output_of(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn arguments_environment_and_directory_are_passed_on() {
    on_every_backend(|_| async {
        let script = "echo \"$0 $1 $2|$ONE $TWO $HOME|$(pwd)\"";
        let mut command = Command::shell(script);
        command
            .args(["name", "first"])
            .arg("second arg")
            .env("ONE", "1")
            .envs([("TWO", "2")])
            .env_remove("HOME")
            .current_dir("/usr");
        assert_eq!(output_of(&mut command).await, "name first second arg|1 2 |/usr");
        command.env_clear().env("ONE", "only");
        assert_eq!(output_of(&mut command).await, "name first second arg|only  |/usr");
        assert_eq!(output_of(Command::new("sh").arg0("other").args(["-c", "echo $0"])).await, "other");
    });
}

#[test]
fn a_command_can_be_spawned_repeatedly() {
    on_every_backend(|_| async {
        let mut command = Command::new("echo");
        command.arg("again");
        for _ in 0..3 {
            assert_eq!(output_of(&mut command).await, "again");
        }
        command.arg("and more");
        assert_eq!(output_of(&mut command).await, "again and more");
    });
}

#[test]
fn default_pipes_of_one_start_do_not_affect_the_next() {
    on_every_backend(|event_loop: mainspring::EventLoop| async move {
        let mut command = Command::new("true");
        assert!(command.output().await.unwrap().status.success());
        let child = command.spawn().unwrap();
        assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
        child.wait().await.unwrap();
        struct Quiet;
        impl mainspring::process::SubprocessProtocol for Quiet {}
        let (transport, _) = event_loop.subprocess_exec(&mut command, || Quiet).await.unwrap();
        assert!((0..3).all(|fd| transport.get_pipe_transport(fd).is_some()));
        transport.close();
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        assert!(child.stdin.is_some() && child.stdout.is_none());
        child.wait().await.unwrap();
        drop(child);
        while event_loop.metrics().descriptors > 0 {
            mainspring::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_std_command_can_be_converted() {
    on_every_backend(|_| async {
        let mut std = std::process::Command::new("echo");
        std.arg("std's");
        let mut command = Command::from(std);
        assert_eq!(command.as_std().get_program(), "echo");
        command.as_std_mut().arg("own");
        assert_eq!(output_of(&mut command).await, "std's own");

        let mut std = std::process::Command::new("true");
        std.stdin(Stdio::piped());
        let child = Command::from(std).spawn().unwrap();
        assert!(child.stdin.is_some());
        child.wait().await.unwrap();
    });
}

#[test]
fn process_group_session_and_umask_are_set() {
    on_every_backend(|_| async {
        // Fields 5 and 6 of the status file: process group and session. The shell is the process itself.
        let script = "read pid name state parent group session rest < /proc/$$/stat; \
                      echo $((group == pid)) $((session == pid)) $(umask)";
        let said = output_of(Command::shell(script).process_group(0).umask(0o077)).await;
        assert_eq!(said, "1 0 0077");
        let said = output_of(Command::shell(script).start_new_session().umask(0o022)).await;
        assert_eq!(said, "1 1 0022");
    });
}

#[test]
fn uid_gid_and_groups_are_set() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    on_every_backend(|_| async {
        let ids = "echo $(id -u) $(id -g) $(id -G)";
        assert_eq!(output_of(Command::shell(ids).uid(12345).gid(23456)).await, "12345 23456 23456");
        let mut command = Command::shell(ids);
        // In any order.
        command.uid(12345).groups(&[7, 8]).gid(23456);
        for _ in 0..2 {
            assert_eq!(output_of(&mut command).await, "12345 23456 23456 7 8");
        }
        command.groups(&[9]).uid(12346);
        assert_eq!(output_of(&mut command).await, "12346 23456 23456 9");
        assert_eq!(output_of(Command::shell("id -u").groups(&[])).await, "0");
    });
}

#[test]
fn a_pre_exec_error_is_returned_by_spawn() {
    on_every_backend(|_| async {
        let mut command = Command::new("true");
        // SAFETY: the closure only constructs an error from a number and does not allocate.
        unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::EXDEV))) };
        for _ in 0..2 {
            assert_eq!(command.spawn().unwrap_err().raw_os_error(), Some(libc::EXDEV));
        }
    });
}

#[test]
fn pipe_ends_are_non_blocking_here_and_blocking_in_the_child() {
    on_every_backend(|_| async {
        // Bit 04000 is O_NONBLOCK; the shell checks its own fds.
        let script = "for fd in 0 1 2; do grep flags: /proc/self/fdinfo/$fd; done";
        let mut command = Command::shell(script);
        command.stdin(Stdio::piped());
        for line in output_of(&mut command).await.lines() {
            let flags = line.split_whitespace().last().unwrap();
            let flags = u32::from_str_radix(flags, 8).unwrap();
            assert_eq!(flags & libc::O_NONBLOCK as u32, 0, "{line}");
        }
    });
}
