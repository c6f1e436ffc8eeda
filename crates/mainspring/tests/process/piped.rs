//! The pipes of a child: streams, `output`, `communicate`.

use crate::support::{on_every_backend, virtual_loop};
use mainspring::process::{Command, Stdio};
use std::fs::File;
use std::io::{Read, Seek, Write};

/// More than all pipes and buffers hold.
const LARGE: usize = 3 * 1024 * 1024;

fn large_data() -> Vec<u8> {
    (0..LARGE).map(|place| (place * 7 / 5) as u8).collect()
}

fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

#[test]
fn stdin_and_stdout_can_be_large_at_the_same_time() {
    on_every_backend(|_| async {
        let mut child = cat().spawn().unwrap();
        let (output, error) = child.communicate(Some(&large_data())).await.unwrap();
        assert!(output.unwrap() == large_data(), "the output differs from the input");
        assert_eq!(error, None);
        assert_eq!(child.returncode(), Some(0));
    });
}

#[test]
fn all_three_pipes_can_be_large_at_the_same_time() {
    on_every_backend(|_| async {
        // Reads nothing before it has written all of its error output.
        let mut child = Command::shell("head -c 2000000 /dev/zero >&2; cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, error) = child.communicate(Some(&large_data())).await.unwrap();
        assert_eq!((output.unwrap().len(), error.unwrap().len()), (LARGE, 2_000_000));
    });
}

#[test]
fn a_child_that_ignores_its_input_is_no_error() {
    on_every_backend(|_| async {
        let mut child = Command::new("true").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (output, _) = child.communicate(Some(&large_data())).await.unwrap();
        assert_eq!(output.as_deref(), Some(&[][..]));
        assert_eq!(child.returncode(), Some(0));
    });
}

#[test]
fn a_cancelled_communicate_closes_the_pipes_and_wait_still_works() {
    on_every_backend(|_| async {
        let mut child = cat().spawn().unwrap();
        // The output is read, but the input is too large to be written at once, so it never completes.
        let given_up =
            mainspring::select(child.communicate(Some(&large_data())), mainspring::yield_now()).await;
        assert!(matches!(given_up, mainspring::Either::Second(())));
        assert!(child.stdin.is_none() && child.stdout.is_none());
        // Nothing reads its output; dropping the pipe ends its input.
        child.wait().await.unwrap();
    });
}

#[test]
fn communicate_without_pipes_waits() {
    on_every_backend(|_| async {
        let mut child = Command::shell("exit 3").spawn().unwrap();
        assert_eq!(child.communicate(Some(b"nobody reads it")).await.unwrap(), (None, None));
        assert_eq!(child.returncode(), Some(3));
        assert_eq!(child.communicate(None).await.unwrap(), (None, None));
    });
}

#[test]
fn output_collects_both_streams_and_stdin_is_empty() {
    on_every_backend(|_| async {
        let output = Command::shell("cat; echo out; echo err >&2; exit 2").output().await.unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    });
}

#[test]
fn output_keeps_an_explicit_stdio_setting() {
    on_every_backend(|_| async {
        let output = Command::shell("echo out; echo err >&2").stdout(Stdio::null()).output().await.unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b""[..], &b"err\n"[..]));
    });
}

#[test]
fn a_file_may_be_a_standard_stream() {
    on_every_backend(|_| async {
        let mut input = tempfile();
        input.write_all(b"from a file").unwrap();
        input.rewind().unwrap();
        let mut output = tempfile();
        let status = Command::new("cat").stdin(input).stdout(output.try_clone().unwrap()).status().await;
        assert!(status.unwrap().success());
        output.rewind().unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "from a file");
    });
}

/// An unnamed file.
fn tempfile() -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    File::from(rustix::fs::memfd_create("mainspring-test", flags).unwrap())
}

#[test]
fn lines_can_be_exchanged_with_a_child() {
    on_every_backend(|_| async {
        let mut child = cat().spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for line in ["one\n", "two\n", "three\n"] {
            stdin.write_all(line.as_bytes()).await.unwrap();
            assert_eq!(stdout.read_line().await.unwrap(), line.as_bytes());
        }
        stdin.close();
        assert_eq!(stdout.read_to_end().await.unwrap(), b"");
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn writing_to_an_exited_child_is_an_error() {
    on_every_backend(|_| async {
        let mut child = cat().spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        child.kill().await.unwrap();
        assert_eq!(stdout.read_to_end().await.unwrap(), b"");
        let lost = async {
            loop {
                stdin.write_all(&[0; 1000]).await?;
            }
        };
        let error: std::io::Result<()> = lost.await;
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        assert!(matches!(error.unwrap_err().kind(), BrokenPipe | ConnectionReset));
    });
}

#[test]
fn output_of_a_grandchild_is_read_after_the_child_exits() {
    on_every_backend(|_| async {
        // A background job has no input, so it gets the child's input as another fd.
        let mut child = Command::shell("exec 3<&0; (read line <&3; echo \"late: $line\") & exit 0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(child.wait().await.unwrap().success());
        let (output, _) = child.communicate(Some(b"hello\n")).await.unwrap();
        assert_eq!(output.as_deref(), Some(&b"late: hello\n"[..]));
    });
}

#[test]
fn a_loop_with_a_virtual_clock_waits_for_processes() {
    let (event_loop, _clock) = virtual_loop();
    let output = event_loop.run_until_complete(async { Command::new("echo").arg("hi").output().await });
    assert_eq!(output.unwrap().unwrap().stdout, b"hi\n");
}
