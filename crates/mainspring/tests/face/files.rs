//! Files, and what giving up leaves of them.

use crate::adversity::{given_up_at_every_poll, turns};
use crate::polls::given_up_after;
use crate::support::{assert_leaves_nothing, collect_reports, new_loop, run_on};
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

/// A directory nobody else has; removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mainspring-files-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }

    /// The path of a file in it that has these contents.
    fn file(&self, contents: &[u8]) -> PathBuf {
        let path = self.0.join("file");
        std::fs::write(&path, contents).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A loop whose executor has one thread.
fn narrow_loop() -> EventLoop {
    let config = ExecutorConfig { max_threads: NonZeroUsize::MIN, ..Default::default() };
    Builder::new().executor(config).build().unwrap()
}

/// Begins `operation`, on a file on which none runs, and gives it up before it has an answer: the only thread is held up
/// until then.
async fn give_up<T>(operation: impl Future<Output = T>) {
    let (release, held) = mpsc::channel::<()>();
    let holding = EventLoop::current().run_in_executor(move || held.recv()).unwrap();
    assert!(given_up_after(1, operation).await.is_none());
    drop((release, holding));
}

/// Runs a test with a directory, on a loop with one thread, on which nothing may be left.
fn with_place(test: impl AsyncFnOnce(&Place)) {
    let (event_loop, place) = (narrow_loop(), Place::new());
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, test(&place));
    assert_leaves_nothing(&event_loop);
    reports.assert([]);
}

async fn both_ways(path: &PathBuf) -> File {
    File::options().read(true).write(true).open(path).await.unwrap()
}

async fn rest_of(file: &mut File) -> Vec<u8> {
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).await.unwrap();
    rest
}

#[test]
fn what_is_written_is_read_again_however_large() {
    with_place(async |place| {
        let path = place.0.join("large");
        let data: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
        let mut file = File::create_new(&path).await.unwrap();
        file.write_all(&data).await.unwrap();
        assert_eq!(file.seek(SeekFrom::Start(0)).await.unwrap(), 0);
        assert!(rest_of(&mut file).await == data);
        assert_eq!(file.read(&mut [0; 10]).await.unwrap(), 0);
        assert_eq!(file.seek(SeekFrom::End(-3)).await.unwrap(), data.len() as u64 - 3);
        let error = file.read_exact(&mut [0; 4]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        let mut buffer = vec![0; 4 << 20];
        file.seek(SeekFrom::Start(0)).await.unwrap();
        assert_eq!(file.read(&mut buffer).await.unwrap(), 2 << 20, "a read is bounded");
        assert_eq!(file.write(&buffer).await.unwrap(), 2 << 20, "and so is a write");
        assert!(fs::read(&path).await.unwrap()[..2 << 20] == data[..2 << 20]);
    });
}

#[test]
fn reading_and_writing_share_a_position() {
    with_place(async |place| {
        let path = place.file(b"abcdef");
        let mut file = both_ways(&path).await;
        file.read_exact(&mut [0; 2]).await.unwrap();
        file.write_all(b"XY").await.unwrap();
        assert_eq!(rest_of(&mut file).await, b"ef");
        assert_eq!(file.seek(SeekFrom::Current(-4)).await.unwrap(), 2);
        assert_eq!(rest_of(&mut file).await, b"XYef");
        file.set_len(3).await.unwrap();
        file.sync_data().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"abX");
        assert_eq!(file.seek(SeekFrom::Current(-100)).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.seek(SeekFrom::Start(1)).await.unwrap(), 1);
        assert_eq!(rest_of(&mut file).await, b"bX");
    });
}

#[test]
#[expect(clippy::await_holding_refcell_ref, reason = "one at a time, and dropped with what is given up")]
fn a_read_that_is_given_up_at_any_moment_gives_its_bytes_to_the_next() {
    with_place(async |place| {
        let path = place.file(b"abcdef");
        let file = RefCell::new(File::open(&path).await.unwrap());
        let read = async || {
            let mut buffer = [0; 4];
            let mut file = file.borrow_mut();
            file.read(&mut buffer).await.map(|count| buffer[..count].to_vec())
        };
        assert_eq!(given_up_at_every_poll(read, async |_| {}).await.unwrap(), b"abcd");
        assert_eq!(given_up_at_every_poll(read, async |_| {}).await.unwrap(), b"ef");
        assert_eq!(given_up_at_every_poll(read, async |_| {}).await.unwrap(), b"");
    });
}

#[test]
fn what_a_read_that_was_given_up_has_read_is_given_in_parts() {
    with_place(async |place| {
        let mut file = File::open(place.file(b"abcdef")).await.unwrap();
        give_up(file.read(&mut [0; 6])).await;
        let mut two = [0; 2];
        for part in [b"ab", b"cd", b"ef"] {
            assert_eq!((file.read(&mut two).await.unwrap(), &two), (2, part));
        }
        assert_eq!(file.read(&mut two).await.unwrap(), 0);
    });
}

#[test]
fn after_a_read_that_was_given_up_the_position_is_where_the_reader_thinks() {
    with_place(async |place| {
        let path = place.file(b"abcdef");
        let mut file = both_ways(&path).await;
        file.read_exact(&mut [0; 1]).await.unwrap();
        give_up(file.read(&mut [0; 3])).await;
        assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 2);
        give_up(file.read(&mut [0; 3])).await;
        file.write_all(b"XY").await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), b"abXYef");
        assert_eq!(rest_of(&mut file).await, b"ef");
        file.seek(SeekFrom::Start(4)).await.unwrap();
        give_up(file.read(&mut [0; 1])).await;
        let mut plain = file.into_std().await.unwrap();
        assert_eq!(std::io::Seek::stream_position(&mut plain).unwrap(), 4);
    });
}

#[test]
fn a_write_that_is_given_up_is_written_before_what_comes_next() {
    with_place(async |place| {
        let path = place.file(b"");
        let mut file = both_ways(&path).await;
        let mut expected = Vec::new();
        for round in 0..20_u8 {
            let piece = vec![round; 1000];
            file.flush().await.unwrap();
            give_up(file.write(&piece)).await;
            expected.extend(&piece);
            if round % 3 == 0 {
                let end = file.seek(SeekFrom::Current(0)).await.unwrap();
                assert_eq!(end, expected.len() as u64);
            }
        }
        file.sync_all().await.unwrap();
        assert_eq!(fs::read(&path).await.unwrap(), expected);
        give_up(file.write(b"tail")).await;
        file.set_len(10).await.unwrap();
        assert_eq!(fs::metadata(&path).await.unwrap().len(), 10);
    });
}

#[test]
fn a_seek_that_is_given_up_has_moved_the_position() {
    with_place(async |place| {
        let mut file = File::open(place.file(b"abcdef")).await.unwrap();
        give_up(file.seek(SeekFrom::Current(1))).await;
        assert_eq!(file.seek(SeekFrom::Current(1)).await.unwrap(), 2);
        give_up(file.seek(SeekFrom::Start(4))).await;
        assert_eq!(rest_of(&mut file).await, b"ef");
    });
}

#[test]
fn the_failure_of_a_write_that_was_given_up_is_told_to_the_next_operation() {
    with_place(async |_| {
        let full = || OpenOptions::new().read(true).write(true).clone();
        let mut file = full().open("/dev/full").await.unwrap();
        assert_eq!(file.write(b"x").await.unwrap_err().kind(), ErrorKind::StorageFull);
        file.flush().await.unwrap();
        for next in 0..4 {
            give_up(file.write(b"x")).await;
            let told = match next {
                0 => file.flush().await,
                1 => file.write(b"y").await.map(drop),
                2 => file.read(&mut [0; 1]).await.map(drop),
                _ => file.seek(SeekFrom::Start(0)).await.map(drop),
            };
            assert_eq!(told.unwrap_err().kind(), ErrorKind::StorageFull, "{next}");
            file.flush().await.unwrap();
        }
    });
}

#[test]
fn the_failure_of_a_write_that_nobody_asks_for_is_reported() {
    let event_loop = narrow_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, async {
        let mut file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        give_up(file.write(b"x")).await;
        drop(file);
        while reports.entries().is_empty() {
            turns(1).await;
        }
    });
    let reports = reports.entries();
    assert!(reports.len() == 1 && reports[0].contains("before the error of its last change"), "{reports:?}");
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_file_without_positions_loses_nothing_either() {
    with_place(async |place| {
        let path = place.0.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut fifo = both_ways(&path).await;
        fifo.write_all(b"abc").await.unwrap();
        give_up(fifo.read(&mut [0; 10])).await;
        fifo.write_all(b"def").await.unwrap();
        let mut buffer = [0; 3];
        for expected in [b"abc", b"def"] {
            assert_eq!((fifo.read(&mut buffer).await.unwrap(), &buffer), (3, expected));
        }
        assert_eq!(fifo.seek(SeekFrom::Start(0)).await.unwrap_err().kind(), ErrorKind::NotSeekable);
    });
}

#[test]
fn reads_and_writes_at_an_offset_leave_the_position() {
    with_place(async |place| {
        let path = place.file(b"abcdef");
        let mut file = both_ways(&path).await;
        let mut buffer = [0; 3];
        assert_eq!(file.read_at(&mut buffer, 4).await.unwrap(), 2);
        assert_eq!(&buffer[..2], b"ef");
        assert_eq!(file.write_at(b"XY", 1).await.unwrap(), 2);
        give_up(file.read_at(&mut [0; 3], 0)).await;
        give_up(file.metadata()).await;
        assert_eq!(rest_of(&mut file).await, b"aXYdef");
        let error = File::open(&path).await.unwrap().write_at(b"x", 0).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn the_traits_write_behind_and_flush_waits() {
    with_place(async |place| {
        let path = place.file(b"");
        let mut file = both_ways(&path).await;
        let data = vec![7; 5_000_000];
        let mut written = 0;
        while written < data.len() {
            written += poll_fn(|cx| Pin::new(&mut file).poll_write(cx, &data[written..])).await.unwrap();
        }
        poll_fn(|cx| Pin::new(&mut file).poll_flush(cx)).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == data);
        let start = SeekFrom::Start(0);
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_seek(cx, start)).await.unwrap(), 0);
        // The same place again is another seek once the first has answered.
        file.read_exact(&mut [0; 10]).await.unwrap();
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_seek(cx, start)).await.unwrap(), 0);
        let mut buffer = [0; 10];
        assert_eq!(poll_fn(|cx| Pin::new(&mut file).poll_read(cx, &mut buffer)).await.unwrap(), 10);
        poll_fn(|cx| Pin::new(&mut file).poll_close(cx)).await.unwrap();

        let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
        assert_eq!(poll_fn(|cx| Pin::new(&mut full).poll_write(cx, b"x")).await.unwrap(), 1);
        let told = poll_fn(|cx| Pin::new(&mut full).poll_close(cx)).await.unwrap_err();
        assert_eq!(told.kind(), ErrorKind::StorageFull);
    });
}

#[test]
fn what_is_changed_by_an_operation_that_is_given_up_is_changed_all_the_same() {
    with_place(async |place| {
        let path = place.file(b"abcdef");
        let mut file = both_ways(&path).await;
        give_up(file.set_len(3)).await;
        assert_eq!(rest_of(&mut file).await, b"abc", "before what comes next");
        give_up(file.write_at(b"X", 1)).await;
        let mut permissions = file.metadata().await.unwrap().permissions();
        assert_eq!(fs::read(&path).await.unwrap(), b"aXc");
        permissions.set_readonly(true);
        give_up(file.set_permissions(permissions)).await;
        assert!(file.metadata().await.unwrap().permissions().readonly());
        give_up(file.into_std()).await;
        let other = place.0.join("other");
        give_up(fs::rename(&path, &other)).await;
        assert!(!fs::try_exists(&path).await.unwrap());
        give_up(fs::remove_file(&other)).await;
        assert!(!fs::try_exists(&other).await.unwrap());
        give_up(fs::write(&path, b"whole")).await;
        assert_eq!(fs::read(&path).await.unwrap(), b"whole");
        give_up(File::create_new(&other)).await;
        assert_eq!(File::create_new(&other).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    });
}

#[test]
#[expect(clippy::await_holding_refcell_ref, reason = "one at a time, and dropped with what is given up")]
fn a_directory_gives_each_entry_once_however_often_it_is_given_up() {
    with_place(async |place| {
        let expected: BTreeSet<_> = (0..100).map(|number| format!("entry-{number}").into()).collect();
        for name in &expected {
            std::fs::write(place.0.join::<&std::ffi::OsString>(name), b"").unwrap();
        }
        let entries = RefCell::new(fs::read_dir(&place.0).await.unwrap());
        let next = async || {
            let mut entries = entries.borrow_mut();
            entries.next_entry().await.unwrap().map(|entry: DirEntry| entry.file_name())
        };
        let mut found = Vec::new();
        while let Some(name) = given_up_at_every_poll(next, async |_| {}).await {
            found.push(name);
        }
        assert_eq!(found.len(), 100);
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(next().await, None);
    });
}

#[test]
fn failures_are_those_of_std() {
    with_place(async |place| {
        let nowhere = place.0.join("nowhere");
        assert_eq!(File::open(&nowhere).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read(&nowhere).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&nowhere).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(fs::create_dir(&place.0).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let path = place.file(&[0xff]);
        assert_eq!(fs::read_to_string(&path).await.unwrap_err().kind(), ErrorKind::InvalidData);
        let mut text = String::from("kept");
        let mut file = File::open(&path).await.unwrap();
        assert_eq!(file.read_to_string(&mut text).await.unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(text, "kept");
        assert_eq!(file.write(b"x").await.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut directory = File::open(&place.0).await.unwrap();
        assert_eq!(directory.read(&mut [0; 1]).await.unwrap_err().kind(), ErrorKind::IsADirectory);
    });
}

#[test]
fn files_go_from_loop_to_loop_and_thread_to_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let place = Place::new();
    let path = place.file(b"abcdef");
    let first = narrow_loop();
    let mut file = run_on(&first, File::open(&path)).unwrap();
    run_on(&first, async { file.read_exact(&mut [0; 3]).await }).unwrap();
    run_on(&first, async { give_up(file.read(&mut [0; 3])).await });
    drop(first);
    let mut file = is_send(file);
    let rest = std::thread::spawn(move || run_on(&new_loop(), async { rest_of(&mut file).await }));
    assert_eq!(rest.join().unwrap(), b"def");
    let entries: ReadDir = run_on(&new_loop(), fs::read_dir(&place.0)).unwrap();
    is_send(entries);
}

#[test]
fn without_a_loop_there_is_an_error_and_no_panic() {
    let mut future = Box::pin(fs::read("Cargo.toml"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(future.as_mut().poll(&mut cx), std::task::Poll::Ready(Err(_))));
}
