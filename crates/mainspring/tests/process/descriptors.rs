//! Streams on any fd: `reader`, `writer`, and the standard streams.

use crate::support::{assert_leaves_nothing, new_loop, on_every_backend, run_on};
use mainspring::pipe::{reader, stderr, stdin, stdout, writer};
use mainspring::process::{Command, Stdio};
use mainspring::{Builder, EventLoop, ExecutorConfig};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroUsize;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

const LARGE: usize = 1_000_000;

fn large_data() -> Vec<u8> {
    (0..LARGE).map(|place| (place * 3 / 2) as u8).collect()
}

/// An unnamed regular file.
fn regular_file() -> File {
    File::from(rustix::fs::memfd_create("mainspring-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap())
}

fn contents(mut file: &File) -> Vec<u8> {
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    all
}

fn is_blocking(file: &impl std::os::fd::AsFd) -> bool {
    !rustix::fs::fcntl_getfl(file).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
}

#[test]
fn a_pipe_has_a_stream_at_each_end() {
    on_every_backend(|_| async {
        let (read, write) = io::pipe().unwrap();
        let (reader, writer) = (reader(read).unwrap(), writer(write).unwrap());
        let sending = mainspring::spawn(async move { writer.write_all(&large_data()).await });
        assert!(reader.read_to_end().await.unwrap() == large_data());
        sending.await.unwrap().unwrap();
    });
}

#[test]
fn a_regular_file_is_written_and_read() {
    on_every_backend(|_| async {
        let file = regular_file();
        let sink = writer(file.try_clone().unwrap()).unwrap();
        for piece in large_data().chunks(10_007) {
            sink.write_all(piece).await.unwrap();
        }
        sink.close();
        sink.wait_closed().await.unwrap();
        assert!(contents(&file) == large_data());
        (&file).rewind().unwrap();
        assert!(reader(file).unwrap().read_to_end().await.unwrap() == large_data());
    });
}

#[test]
fn a_writer_of_a_file_is_paused_and_resumed() {
    on_every_backend(|_| async {
        let file = regular_file();
        let sink = writer(file.try_clone().unwrap()).unwrap();
        sink.transport().set_write_buffer_limits(Some(10), None).unwrap();
        for _ in 0..100 {
            sink.write(&[7; 50]);
        }
        assert!(sink.transport().get_write_buffer_size() > 10);
        sink.drain().await.unwrap();
        assert!(sink.transport().get_write_buffer_size() <= 10);
        sink.close();
        sink.wait_closed().await.unwrap();
        assert_eq!(contents(&file).len(), 5_000);
    });
}

/// Runs the loop long enough for a reader that ignores its limit to read too much.
async fn wait_until_the_executor_is_idle(event_loop: &EventLoop) {
    for _ in 0..64 {
        event_loop.run_in_executor(|| ()).unwrap().await.unwrap();
    }
}

#[test]
fn a_slow_reader_of_a_file_stops_reading_ahead() {
    on_every_backend(|_| async {
        let mut file = regular_file();
        file.write_all(&large_data()).unwrap();
        file.rewind().unwrap();
        let source = reader(file.try_clone().unwrap()).unwrap();
        let mut first = [0; 1];
        source.read_exact(&mut first).await.unwrap();
        wait_until_the_executor_is_idle(&EventLoop::current()).await;
        // Twice asyncio's limit and one chunk, but not everything.
        assert!((&file).stream_position().unwrap() < LARGE as u64 / 2);
        assert!(source.read_to_end().await.unwrap() == large_data()[1..]);
    });
}

#[test]
fn closing_the_loop_flushes_writes_to_a_file() {
    for queued in [1, 2, 50] {
        let file = regular_file();
        let one_thread = ExecutorConfig { max_threads: NonZeroUsize::MIN, ..ExecutorConfig::default() };
        let event_loop = Builder::new().executor(one_thread).build().unwrap();
        let sink = run_on(&event_loop, async {
            let sink = writer(file.try_clone().unwrap()).unwrap();
            for _ in 0..queued {
                sink.write(b"piece ");
            }
            sink
        });
        event_loop.close().unwrap();
        assert_eq!(contents(&file), b"piece ".repeat(queued));
        drop(sink);
    }
}

#[test]
fn the_end_of_run_flushes_writes_to_a_file() {
    let file = regular_file();
    mainspring::run(async { writer(file.try_clone().unwrap()).unwrap().write(b"all of it") }).unwrap();
    assert_eq!(contents(&file), b"all of it");
}

#[test]
fn a_loop_is_not_idle_during_a_file_write() {
    let file = regular_file();
    let event_loop = new_loop();
    let copy = file.try_clone().unwrap();
    let writing = event_loop.spawn(async move { writer(copy).unwrap().write(&large_data()) }).unwrap();
    assert_eq!(event_loop.run_until_idle().unwrap(), 0);
    assert!(writing.is_finished());
    assert!(contents(&file) == large_data());
}

#[test]
fn a_failed_file_write_fails_the_writer() {
    on_every_backend(|_| async {
        // Opened read-only.
        let sink = writer(File::open("/proc/self/exe").unwrap()).unwrap();
        sink.write(b"?");
        assert_eq!(sink.wait_closed().await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(sink.write_all(b"?").await.is_err());
        let source = reader(File::open("/proc/self").unwrap()).unwrap();
        assert_eq!(source.read_to_end().await.unwrap_err().raw_os_error(), Some(libc::EISDIR));
    });
}

#[test]
fn devices_that_epoll_refuses_still_work() {
    on_every_backend(|_| async {
        assert_eq!(reader(File::open("/dev/null").unwrap()).unwrap().read_to_end().await.unwrap(), b"");
        let zeros = reader(File::open("/dev/zero").unwrap()).unwrap();
        let mut some = [1; 1000];
        zeros.read_exact(&mut some).await.unwrap();
        assert_eq!(some, [0; 1000]);
        let nowhere = writer(File::create("/dev/null").unwrap()).unwrap();
        nowhere.write_all(&large_data()).await.unwrap();
        nowhere.close();
        nowhere.wait_closed().await.unwrap();
    });
}

#[test]
fn a_reader_of_a_file_may_be_dropped_at_any_time() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        for polls in 0..3 {
            let source = reader(File::open("/dev/zero").unwrap()).unwrap();
            for _ in 0..polls {
                source.read(&mut [0; 10]).await.unwrap();
            }
        }
        wait_until_the_executor_is_idle(&EventLoop::current()).await;
    });
    assert_leaves_nothing(&event_loop);
}

#[test]
fn terminals_and_sockets_are_read_and_written() {
    on_every_backend(|_| async {
        let (mut master, mut terminal) = (-1, -1);
        let (no_name, no_settings, no_size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: both pointers are to integers; the other arguments may be null.
        let opened = unsafe { libc::openpty(&mut master, &mut terminal, no_name, no_settings, no_size) };
        assert_eq!(opened, 0);
        // SAFETY: the call has just opened both fds and nothing else owns them.
        let (master, terminal) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(terminal)) };
        let keyboard = writer(master.try_clone().unwrap()).unwrap();
        let program = reader(terminal).unwrap();
        keyboard.write_all(b"typed\n").await.unwrap();
        assert_eq!(program.read_line().await.unwrap(), b"typed\n");
        let (one, other) = UnixStream::pair().unwrap();
        writer(one).unwrap().write_all(b"by socket").await.unwrap();
        assert_eq!(reader(other).unwrap().read_to_end().await.unwrap(), b"by socket");
    });
}

/// Runs [`echo_program`] with these standard streams and returns its output if it is piped.
async fn echo(stdin: impl Into<Stdio>, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Vec<u8> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::echo_program", "--nocapture", "--quiet"])
        .env("MAINSPRING_ECHO", "1")
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .output()
        .await
        .unwrap();
    assert!(output.status.success());
    output.stdout
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|piece| piece == part)
}

/// Not a test: the program that [`echo`] runs. Copies stdin to stdout and reports on stderr.
#[test]
fn echo_program() {
    if std::env::var_os("MAINSPRING_ECHO").is_none() {
        return;
    }
    mainspring::run(async {
        let (stdin, stdout, stderr) = (stdin().unwrap(), stdout().unwrap(), stderr().unwrap());
        let input = stdin.read_to_end().await.unwrap();
        stdout.write_all(&input).await.unwrap();
        stderr.write_all(b"echoed").await.unwrap();
        stdout.close();
        stdout.wait_closed().await.unwrap();
    })
    .unwrap();
}

#[test]
fn the_standard_streams_may_be_pipes_and_do_not_become_non_blocking() {
    on_every_backend(|event_loop: EventLoop| async move {
        let (input, mut keyboard) = io::pipe().unwrap();
        let (mut errors, error) = io::pipe().unwrap();
        let (shared_input, shared_error) = (input.try_clone().unwrap(), error.try_clone().unwrap());
        let feeding = event_loop.run_in_executor(move || keyboard.write_all(&large_data())).unwrap();
        let output = echo(input, Stdio::piped(), error).await;
        feeding.await.unwrap().unwrap();
        assert!(contains(&output, &large_data()));
        assert!(is_blocking(&shared_input) && is_blocking(&shared_error));
        drop(shared_error);
        let mut said = String::new();
        errors.read_to_string(&mut said).unwrap();
        assert!(said.contains("echoed"));
    });
}

#[test]
fn the_standard_streams_may_be_files() {
    on_every_backend(|_| async {
        let (mut input, output, error) = (regular_file(), regular_file(), regular_file());
        input.write_all(&large_data()).unwrap();
        input.rewind().unwrap();
        echo(input, output.try_clone().unwrap(), error.try_clone().unwrap()).await;
        assert!(contains(&contents(&output), &large_data()));
        assert!(contains(&contents(&error), b"echoed"));
    });
}

#[test]
fn the_standard_streams_may_be_sockets_and_do_not_become_non_blocking() {
    on_every_backend(|_| async {
        let (near, far) = UnixStream::pair().unwrap();
        (&near).write_all(b"by socket").unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let shared = far.try_clone().unwrap();
        let far_too = OwnedFd::from(far.try_clone().unwrap());
        echo(OwnedFd::from(far), far_too, Stdio::null()).await;
        assert!(is_blocking(&shared));
        drop(shared);
        let mut said = Vec::new();
        (&near).read_to_end(&mut said).unwrap();
        assert!(contains(&said, b"by socket"));
    });
}
