//! Cancelled file operations: no data is lost, and a change that was started happens.

use super::{one_thread_loop, open_read_write, read_rest, start_and_cancel, with_dir};
use crate::cancel_points::cancel_at_every_poll;
use crate::support::{assert_leaves_nothing, collect_reports, run_on, yield_times};
use mainspring::fs::{self, DirEntry, File, OpenOptions};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{ErrorKind, SeekFrom};

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
