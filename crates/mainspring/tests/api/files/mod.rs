//! `fs::File` and directories; helpers for the submodules.

mod cancellation;

use crate::polls::given_up_after;
use crate::support::{assert_leaves_nothing, collect_reports, new_loop, run_on};
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use mainspring::fs::{self, File, OpenOptions, ReadDir};
use mainspring::{Builder, EventLoop, ExecutorConfig};
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
