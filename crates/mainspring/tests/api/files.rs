//! `fs::File`, directories, and the effects of cancelled file operations.

use crate::cancel_points::cancel_at_every_poll;
use crate::polls::given_up_after;
use crate::support::{assert_leaves_nothing, collect_reports, new_loop, run_on, yield_times};
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use mainspring::fs::{self, DirEntry, File, OpenOptions, ReadDir};
use mainspring::{Builder, EventLoop, ExecutorConfig};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::{ErrorKind, SeekFrom};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

/// A temporary directory, removed on drop.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mainspring-files-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }

    /// Creates a file with these contents and returns its path.
    fn file(&self, contents: &[u8]) -> PathBuf {
        let path = self.0.join("file");
        std::fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A loop whose executor has one thread.
fn one_thread_loop() -> EventLoop {
    let config = ExecutorConfig { max_threads: NonZeroUsize::MIN, ..Default::default() };
    Builder::new().executor(config).build().unwrap()
}

/// Starts `operation` on a file without a pending operation, and cancels it before it completes: the executor's only
/// thread is blocked until then.
async fn start_and_cancel<T>(operation: impl Future<Output = T>) {
    let (release, blocked) = mpsc::channel::<()>();
    let blocking = EventLoop::current().run_in_executor(move || blocked.recv()).unwrap();
    assert!(given_up_after(1, operation).await.is_none());
    drop((release, blocking));
}

/// Runs a test with a directory on a one-thread loop, and checks that it leaves nothing on the loop.
fn with_dir(test: impl AsyncFnOnce(&TempDir)) {
    let (event_loop, dir) = (one_thread_loop(), TempDir::new());
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, test(&dir));
    assert_leaves_nothing(&event_loop);
    reports.assert([]);
}

async fn open_read_write(path: &PathBuf) -> File {
    File::options().read(true).write(true).open(path).await.unwrap()
}

async fn read_rest(file: &mut File) -> Vec<u8> {
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).await.unwrap();
    rest
}

#[test]
fn large_writes_are_read_back() {
    with_dir(async |dir| {
        let path = dir.0.join("large");
        let data: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
        let mut file = File::create_new(&path).await.unwrap();
        file.write_all(&data).await.unwrap();
        assert_eq!(file.seek(SeekFrom::Start(0)).await.unwrap(), 0);
        assert!(read_rest(&mut file).await == data);
        assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::End(-3)).await.unwrap(), data.len() as u64 - 3);
        let error = file.read_exact(&mut [0; 4]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let mut buffer = vec![0; 4 << 20];
        file.seek(SeekFrom::Start(0)).await.unwrap();
        assert_eq!(file.read(&mut buffer).await.unwrap(), 2 << 20, "the size of a read is bounded");
        assert_eq!(file.write(&buffer).await.unwrap(), 2 << 20, "the size of a write is bounded");
        assert!(fs::read(&path).await.unwrap()[..2 << 20] == data[..2 << 20]);
    });
}

#[test]
fn reads_and_writes_share_one_position() {
    with_dir(async |dir| {
        let path = dir.file(b"abcdef");
        let mut file = open_read_write(&path).await;
        file.read_exact(&mut [0; 2]).await.unwrap();
        file.write_all(b"XY").await.unwrap();
        assert_eq!(read_rest(&mut file).await, b"ef");
        assert_eq!(file.seek(SeekFrom::Current(-4)).await.unwrap(), 2);
        assert_eq!(read_rest(&mut file).await, b"XYef");
        file.set_len(3).await.unwrap();
        file.sync_data().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"abX");
        assert_eq!(file.seek(SeekFrom::Current(-100)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.seek(SeekFrom::Start(1)).await.unwrap(), 1);
        assert_eq!(read_rest(&mut file).await, b"bX");
    });
}

#[test]
#[expect(
    clippy::await_holding_refcell_ref,
    reason = "one borrow at a time, dropped when the future is cancelled"
)]
fn the_bytes_of_a_cancelled_read_go_to_the_next_read() {
    with_dir(async |dir| {
        let path = dir.file(b"abcdef");
        let file = RefCell::new(File::open(&path).await.unwrap());
        let read = async || {
            let mut buffer = [0; 4];
            let mut file = file.borrow_mut();
            file.read(&mut buffer).await.map(|count| buffer[..count].to_vec())
        };
        assert_eq!(cancel_at_every_poll(read, async |_| {}).await.unwrap(), b"abcd");
        assert_eq!(cancel_at_every_poll(read, async |_| {}).await.unwrap(), b"ef");
        assert_eq!(cancel_at_every_poll(read, async |_| {}).await.unwrap(), b"");
    });
}

#[test]
fn the_bytes_of_a_cancelled_read_may_be_taken_in_parts() {
    with_dir(async |dir| {
        let mut file = File::open(dir.file(b"abcdef")).await.unwrap();
        start_and_cancel(file.read(&mut [0; 6])).await;
        let mut two = [0; 2];
        for part in [b"ab", b"cd", b"ef"] {
            assert_eq!((file.read(&mut two).await.unwrap(), &two), (2, part));
        }
        assert_eq!(file.read(&mut two).await.unwrap(), 0);
    });
}

#[test]
fn a_cancelled_read_does_not_move_the_position() {
    with_dir(async |dir| {
        let path = dir.file(b"abcdef");
        let mut file = open_read_write(&path).await;
        file.read_exact(&mut [0; 1]).await.unwrap();
        start_and_cancel(file.read(&mut [0; 3])).await;
        assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 2);
        start_and_cancel(file.read(&mut [0; 3])).await;
        file.write_all(b"XY").await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"abXYef");
        assert_eq!(read_rest(&mut file).await, b"ef");
        file.seek(SeekFrom::Start(4)).await.unwrap();
        start_and_cancel(file.read(&mut [0; 1])).await;
        let mut plain = file.into_std().await.unwrap();
        assert_eq!(std::io::Seek::stream_position(&mut plain).unwrap(), 4);
    });
}

#[test]
fn a_cancelled_write_is_completed_before_the_next_operation() {
    with_dir(async |dir| {
        let path = dir.file(b"");
        let mut file = open_read_write(&path).await;
        let mut expected = Vec::new();
        for round in 0..20_u8 {
            let piece = vec![round; 1000];
            file.flush().await.unwrap();
            start_and_cancel(file.write(&piece)).await;
            expected.extend(&piece);
            if round % 3 == 0 {
                let end = file.seek(SeekFrom::Current(0)).await.unwrap();
                assert_eq!(end, expected.len() as u64);
            }
        }
        file.sync_all().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), expected);
        start_and_cancel(file.write(b"tail")).await;
        file.set_len(10).await.unwrap();
        assert_eq!(fs::metadata(&path).await.unwrap().len(), 10);
    });
}

#[test]
fn a_cancelled_seek_moves_the_position() {
    with_dir(async |dir| {
        let mut file = File::open(dir.file(b"abcdef")).await.unwrap();
        start_and_cancel(file.seek(SeekFrom::Current(1))).await;
        assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 2);
        start_and_cancel(file.seek(SeekFrom::Start(4))).await;
        assert_eq!(read_rest(&mut file).await, b"ef");
    });
}

#[test]
fn the_next_operation_returns_the_error_of_a_cancelled_write() {
    with_dir(async |_| {
        let full = || OpenOptions::new().read(true).write(true).clone();
        let mut file = full().open("/dev/full").await.unwrap();
        assert_eq!(file.write(b"x").await.unwrap_err().kind(), ErrorKind::StorageFull);
        file.flush().await.unwrap();
        for next in 0..4 {
            start_and_cancel(file.write(b"x")).await;
            let result = match next {
                0 => file.flush().await,
                1 => file.write(b"y").await.map(drop),
                2 => file.read(&mut [0; 1]).await.map(drop),
                _ => file.seek(SeekFrom::Start(0)).await.map(drop),
            };
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull, "{next}");
            file.flush().await.unwrap();
        }
    });
}

#[test]
fn the_error_of_a_cancelled_write_is_reported_if_the_file_is_dropped() {
    let event_loop = one_thread_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let mut file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        start_and_cancel(file.write(b"x")).await;
        drop(file);
        while reports.entries().is_empty() {
            yield_times(1).await;
        }
    });
    let reports = reports.entries();
    assert!(reports.len() == 1 && reports[0].contains("before the error of its last change"), "{reports:?}");
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_cancelled_read_of_a_fifo_loses_no_data() {
    with_dir(async |dir| {
        let path = dir.0.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut fifo = open_read_write(&path).await;
        fifo.write_all(b"abc").await.unwrap();
        start_and_cancel(fifo.read(&mut [0; 10])).await;
        fifo.write_all(b"def").await.unwrap();
        let mut buffer = [0; 3];
        for expected in [b"abc", b"def"] {
            assert_eq!((fifo.read(&mut buffer).await.unwrap(), &buffer), (3, expected));
        }
        assert_eq!(fifo.seek(SeekFrom::Start(0)).await.unwrap_err().kind(), ErrorKind::NotSeekable);
    });
}

#[test]
fn read_at_and_write_at_do_not_move_the_position() {
    with_dir(async |dir| {
        let path = dir.file(b"abcdef");
        let mut file = open_read_write(&path).await;
        let mut buffer = [0; 3];
        assert_eq!(file.read_at(&mut buffer, 4).await.unwrap(), 2);
        assert_eq!(&buffer[..2], b"ef");
        assert_eq!(file.write_at(b"XY", 1).await.unwrap(), 2);
        start_and_cancel(file.read_at(&mut [0; 3], 0)).await;
        start_and_cancel(file.metadata()).await;
        assert_eq!(read_rest(&mut file).await, b"aXYdef");
        let error = File::open(&path).await.unwrap().write_at(b"x", 0).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn the_io_traits_write_behind_and_flush_waits() {
    with_dir(async |dir| {
        let path = dir.file(b"");
        let mut file = open_read_write(&path).await;
        let data = vec![7; 5_000_000];
        let mut written = 0;
        while written < data.len() {
            written += poll_fn(|cx| Pin::new(&mut file).poll_write(cx, &data[written..])).await.unwrap();
        }
        poll_fn(|cx| Pin::new(&mut file).poll_flush(cx)).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == data);
        let start = SeekFrom::Start(0);
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_seek(cx, start)).await.unwrap(), 0);
        // After the first seek has completed, the same offset is another seek.
        file.read_exact(&mut [0; 10]).await.unwrap();
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_seek(cx, start)).await.unwrap(), 0);
        let mut buffer = [0; 10];
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_read(cx, &mut buffer)).await.unwrap(), 10);
        poll_fn(|cx| Pin::new(&mut file).poll_close(cx)).await.unwrap();

        let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        assert_eq!(poll_fn(|cx| Pin::new(&mut full).poll_write(cx, b"x")).await.unwrap(), 1);
        let result = poll_fn(|cx| Pin::new(&mut full).poll_close(cx)).await.unwrap_err();
        assert_eq!(result.kind(), ErrorKind::StorageFull);
    });
}

#[test]
fn a_cancelled_change_still_happens() {
    with_dir(async |dir| {
        let path = dir.file(b"abcdef");
        let mut file = open_read_write(&path).await;
        start_and_cancel(file.set_len(3)).await;
        assert_eq!(read_rest(&mut file).await, b"abc", "before the next operation");
        start_and_cancel(file.write_at(b"X", 1)).await;
        let mut permissions = file.metadata().await.unwrap().permissions();
        assert_eq!(fs::read(&path).await.unwrap(), b"aXc");
        permissions.set_readonly(true);
        start_and_cancel(file.set_permissions(permissions)).await;
        assert!(file.metadata().await.unwrap().permissions().readonly());
        start_and_cancel(file.into_std()).await;
        let other = dir.0.join("other");
        start_and_cancel(fs::rename(&path, &other)).await;
        assert!(!fs::try_exists(&path).await.unwrap());
        start_and_cancel(fs::remove_file(&other)).await;
        assert!(!fs::try_exists(&other).await.unwrap());
        start_and_cancel(fs::write(&path, b"whole")).await;
        assert_eq!(fs::read(&path).await.unwrap(), b"whole");
        start_and_cancel(File::create_new(&other)).await;
        assert_eq!(File::create_new(&other).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
#[expect(
    clippy::await_holding_refcell_ref,
    reason = "one borrow at a time, dropped when the future is cancelled"
)]
fn read_dir_yields_each_entry_once_despite_cancellation() {
    with_dir(async |dir| {
        let expected: BTreeSet<_> = (0..100).map(|number| format!("entry-{number}").into()).collect();
        for name in &expected {
            std::fs::write(dir.0.join::<&std::ffi::OsString>(name), b"").unwrap();
        }
        let entries = RefCell::new(fs::read_dir(&dir.0).await.unwrap());
        let next = async || {
            let mut entries = entries.borrow_mut();
            entries.next_entry().await.unwrap().map(|entry: DirEntry| entry.file_name())
        };
        let mut found = Vec::new();
        while let Some(name) = cancel_at_every_poll(next, async |_| {}).await {
            found.push(name);
        }
        assert_eq!(found.len(), 100);
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(next().await, None);
    });
}

#[test]
fn errors_are_those_of_std() {
    with_dir(async |dir| {
        let missing = dir.0.join("missing");
        assert_eq!(File::open(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&missing).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::create_dir(&dir.0).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let path = dir.file(&[0xff]);
        assert_eq!(fs::read_to_string(&path).await.unwrap_err().kind(), ErrorKind::InvalidData);
        let mut text = String::from("unchanged");
        let mut file = File::open(&path).await.unwrap();
        assert_eq!(file.read_to_string(&mut text).await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text, "unchanged");
        assert_eq!(file.write(b"x").await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut directory = File::open(&dir.0).await.unwrap();
        assert_eq!(directory.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::IsADirectory);
    });
}

#[test]
fn a_file_can_move_to_another_loop_and_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let dir = TempDir::new();
    let path = dir.file(b"abcdef");
    let first = one_thread_loop();
    let mut file = run_on(&first, File::open(&path)).unwrap();
    run_on(&first, async { file.read_exact(&mut [0; 3]).await }).unwrap();
    run_on(&first, async { start_and_cancel(file.read(&mut [0; 3])).await });
    drop(first);
    let mut file = is_send(file);
    let rest = std::thread::spawn(move || run_on(&new_loop(), async { read_rest(&mut file).await }));
    assert_eq!(rest.join().unwrap(), b"def");
    let entries: ReadDir = run_on(&new_loop(), fs::read_dir(&dir.0)).unwrap();
    is_send(entries);
}

#[test]
fn reading_without_a_loop_is_an_error() {
    let mut future = Box::pin(fs::read("Cargo.toml"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut cx), std::task::Poll::Ready(Err(_))));
}
