//! A writer shared by several tasks: messages are not interleaved.

use crate::{on_both, on_pairs, settle};
use futures_io::AsyncWrite;
use mainspring::net::{Stream, StreamReader, StreamWriter, TcpListener, TcpStream, UnixStream};
use mainspring::process::{Command, Stdio};
use mainspring::{JoinSet, pipe, spawn};
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use test_support::isolated;
use test_support::pattern;

/// Lengths around the chunk size of `write_all`.
const LENGTHS: [usize; 8] = [1, 1_000_000, 70_000, 262_144, 262_145, 600_000, 3, 1_500_000];

const TASKS: usize = 12;

/// A message with its length and its sender.
fn message(sender: usize, length: usize) -> Vec<u8> {
    let mut message = u32::try_from(length).unwrap().to_le_bytes().to_vec();
    message.resize(4 + length, u8::try_from(sender).unwrap());
    message
}

/// Many tasks write many messages, in all available ways.
async fn write_from_many_tasks(writer: Rc<StreamWriter>) {
    let mut tasks = JoinSet::new();
    for sender in 0..TASKS {
        let writer = Rc::clone(&writer);
        tasks.spawn(async move {
            for turn in 0..LENGTHS.len() {
                let message = message(sender, LENGTHS[(sender + turn) % LENGTHS.len()]);
                if (sender + turn) % 4 == 3 {
                    writer.write(&message);
                    writer.drain().await.unwrap();
                } else {
                    writer.write_all(&message).await.unwrap();
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    writer.close();
    writer.wait_closed().await.unwrap();
}

/// Reads the messages in small pieces.
async fn read_messages(reader: &StreamReader) {
    let mut counts = [0; TASKS];
    let mut buffer = [0; 50_000];
    for number in 0..TASKS * LENGTHS.len() {
        let mut length = [0; 4];
        reader.read_exact(&mut length).await.unwrap();
        let mut left = u32::from_le_bytes(length) as usize;
        assert!(LENGTHS.contains(&left), "message {number} starts inside another");
        let mut sender = None;
        while left > 0 {
            let some = left.min(buffer.len());
            let count = reader.read(&mut buffer[..some]).await.unwrap();
            assert!(count > 0, "message {number} ends early");
            let expected = *sender.get_or_insert(buffer[0]);
            assert!(
                buffer[..count].iter().all(|&byte| byte == expected),
                "message {number} is interleaved with another"
            );
            left -= count;
        }
        counts[usize::from(sender.unwrap())] += 1;
    }
    assert_eq!(counts, [LENGTHS.len(); TASKS]);
    assert_eq!(reader.read_some(1).await.unwrap(), b"");
}

async fn assert_messages_do_not_interleave(near: Stream, far: Stream) {
    let (_reader, writer) = near.into_split();
    let writer_task = spawn(write_from_many_tasks(Rc::new(writer)));
    read_messages(far.split().0).await;
    writer_task.await.unwrap();
}

#[test]
fn messages_do_not_interleave_on_a_unix_connection() {
    on_pairs("shared, Unix", async |near, far| {
        assert_messages_do_not_interleave(near.into(), far.into()).await
    });
}

#[test]
fn messages_do_not_interleave_on_a_tcp_connection() {
    on_both("shared, TCP", |test_loop| {
        test_loop.run(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let near = TcpStream::connect(listener.local_addr()).await.unwrap();
            let (far, _) = listener.accept().await.unwrap();
            assert_messages_do_not_interleave(near.into(), far.into()).await;
        });
    });
}

#[test]
fn messages_do_not_interleave_on_a_pipe() {
    on_both("shared, pipe", |test_loop| {
        test_loop.run(async {
            let (reader, writer) = io::pipe().unwrap();
            let (reader, writer) = (pipe::reader(reader).unwrap(), pipe::writer(writer).unwrap());
            let writer_task = spawn(write_from_many_tasks(Rc::new(writer)));
            read_messages(&reader).await;
            writer_task.await.unwrap();
        });
    });
}

#[test]
fn messages_do_not_interleave_on_a_childs_stdin() {
    isolated(|| {
        mainspring::run(async {
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let writer_task = spawn(write_from_many_tasks(Rc::new(stdin)));
            read_messages(&stdout).await;
            writer_task.await.unwrap();
            assert!(child.wait().await.unwrap().success());
        })
        .unwrap();
    });
}

/// Polls once.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// A task that writes `count` bytes, all `value`.
fn spawn_write(near: &Rc<UnixStream>, value: u8, count: usize) -> mainspring::Task<Result<(), io::Error>> {
    let near = Rc::clone(near);
    spawn(async move { near.write_all(&vec![value; count]).await })
}

#[test]
fn messages_arrive_in_the_order_of_their_write_calls() {
    on_pairs("order", async |near, far| {
        let near = Rc::new(near);
        let tasks = [1, 2, 3, 4, 5].map(|value| spawn_write(&near, value, 700_000));
        for value in [1, 2, 3, 4, 5] {
            let message = far.read_exactly(700_000).await.unwrap();
            assert!(message.iter().all(|&byte| byte == value), "not message {value}");
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_write_cancelled_while_queued_writes_nothing_and_blocks_no_other() {
    on_pairs("cancelled while queued", async |near, far| {
        let near = Rc::new(near);
        let first = spawn_write(&near, 1, 1_000_000);
        let cancelled = spawn_write(&near, 2, 1_000_000);
        let last = spawn_write(&near, 3, 1_000_000);
        settle().await;
        cancelled.cancel();
        settle().await;
        assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![1; 1_000_000]);
        assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![3; 1_000_000]);
        first.await.unwrap().unwrap();
        last.await.unwrap().unwrap();
        assert!(cancelled.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn a_write_cancelled_when_its_turn_comes_passes_the_turn_on() {
    on_pairs("cancelled when its turn comes", async |near, far| {
        let near = Rc::new(near);
        let first = spawn_write(&near, 1, 1_000_000);
        let data = vec![2; 1_000_000];
        {
            let mut cancelled = pin!(near.write_all(&data));
            let last = spawn_write(&near, 3, 1_000_000);
            // `cancelled` waits for its turn behind `first` and `last`.
            settle().await;
            assert!(is_pending(cancelled.as_mut()).await);
            let fourth = spawn_write(&near, 4, 10);
            assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![1; 1_000_000]);
            first.await.unwrap().unwrap();
            assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![3; 1_000_000]);
            last.await.unwrap().unwrap();
            settle().await;
            assert!(!fourth.is_finished(), "the turn belongs to the cancelled write, which is not polled");
        }
        assert_eq!(far.read_exactly(10).await.unwrap(), vec![4; 10]);
    });
}

#[test]
fn a_write_cancelled_halfway_lets_the_next_through() {
    on_pairs("cancelled halfway", async |near, far| {
        let near = Rc::new(near);
        let cancelled = spawn_write(&near, 1, 5_000_000);
        let next = spawn_write(&near, 2, 1_000_000);
        settle().await;
        cancelled.cancel();
        let received = spawn(async move { far.read_to_end().await.unwrap() });
        next.await.unwrap().unwrap();
        near.shutdown();
        let received = received.await.unwrap();
        let begun = received.len() - 1_000_000;
        assert!(begun > 0 && begun < 5_000_000);
        assert!(received[..begun].iter().all(|&byte| byte == 1));
        assert!(received[begun..].iter().all(|&byte| byte == 2));
    });
}

#[test]
fn every_waiting_writer_fails_when_the_connection_is_lost() {
    on_pairs("lost", async |near, far| {
        let near = Rc::new(near);
        let tasks = [1, 2, 3, 4].map(|value| spawn_write(&near, value, 1_000_000));
        let draining = spawn({
            let near = Rc::clone(&near);
            async move {
                near.split().1.write(b"behind the first");
                near.drain().await
            }
        });
        settle().await;
        // Unread bytes turn the close into a reset.
        far.transport().abort();
        for task in tasks.into_iter().chain([draining]) {
            let error = task.await.unwrap().unwrap_err();
            assert!(
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
                "{error}"
            );
        }
        assert!(near.write_all(b"x").await.is_err());
    });
}

#[test]
fn writers_queued_behind_an_unpolled_write_fail_when_the_connection_is_lost() {
    on_pairs("lost behind an unpolled write", async |near, far| {
        let near = Rc::new(near);
        let data = vec![1; 1_000_000];
        let mut unpolled = pin!(near.write_all(&data));
        assert!(is_pending(unpolled.as_mut()).await);
        let tasks = [2, 3].map(|value| spawn_write(&near, value, 10));
        settle().await;
        drop(far);
        for task in tasks {
            assert!(task.await.unwrap().is_err());
        }
    });
}

#[test]
fn close_fails_waiting_writes_and_sends_buffered_data() {
    on_pairs("closed", async |near, far| {
        let near = Rc::new(near);
        let tasks = [1, 2, 3].map(|value| spawn_write(&near, value, 1_000_000));
        settle().await;
        near.split().1.write(b"goodbye");
        near.split().1.close();
        let received = far.read_to_end().await.unwrap();
        assert!(received.len() < 1_000_000 && received.ends_with(b"goodbye"));
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    });
}

#[test]
fn a_synchronous_write_follows_the_current_message_and_is_drained() {
    on_pairs("write in the middle", async |near, far| {
        let near = Rc::new(near);
        let first = spawn_write(&near, 1, 1_000_000);
        let second = spawn_write(&near, 2, 1_000_000);
        settle().await;
        let writer = near.split().1;
        writer.write(b"one ");
        writer.writelines(&[b"two ", b"three"]);
        {
            let mut draining = pin!(writer.drain());
            assert!(is_pending(draining.as_mut()).await);
            assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![1; 1_000_000]);
            assert_eq!(far.read_exactly(13).await.unwrap(), b"one two three");
            assert_eq!(far.read_exactly(1_000_000).await.unwrap(), vec![2; 1_000_000]);
            draining.await.unwrap();
        }
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
    });
}

/// An unnamed file with `count` bytes of `value`.
fn file_of(value: u8, count: usize) -> File {
    let path = std::env::temp_dir().join(format!("mainspring-shared-{}-{value}", std::process::id()));
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(&vec![value; count]).unwrap();
    file
}

#[test]
fn files_and_devices_queue_with_messages() {
    on_both("files", |test_loop| {
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            let near = Rc::new(near);
            let sending = |file: File, count| {
                let near = Rc::clone(&near);
                spawn(async move { near.sendfile(&file, 0, Some(count)).await.map(drop) })
            };
            let tasks = [
                spawn_write(&near, 1, 1_000_000),
                sending(file_of(2, 1_000_000), 1_000_000),
                spawn_write(&near, 3, 1_000_000),
                // The kernel cannot send this file: it is read in chunks.
                sending(File::open("/dev/zero").unwrap(), 1_000_000),
                sending(file_of(4, 1_000_000), 1_000_000),
                spawn_write(&near, 5, 10),
            ];
            for value in [1, 2, 3, 0, 4] {
                let message = far.read_exactly(1_000_000).await.unwrap();
                assert!(message.iter().all(|&byte| byte == value), "not message {value}");
            }
            assert_eq!(far.read_exactly(10).await.unwrap(), [5; 10]);
            for task in tasks {
                task.await.unwrap().unwrap();
            }
        });
        test_loop.event_loop.shutdown_executor();
    });
}

#[test]
fn poll_write_works_after_a_cancelled_write_all() {
    on_pairs("polled", async |mut near, far| {
        {
            let mut cancelled = pin!(near.write_all(pattern(1_000_000)));
            assert!(is_pending(cancelled.as_mut()).await);
        }
        let reading = spawn(async move { far.read_to_end().await.unwrap() });
        let written = poll_fn(|cx| Pin::new(&mut near).poll_write(cx, b"polled")).await.unwrap();
        assert_eq!(written, 6);
        near.close().await.unwrap();
        assert!(reading.await.unwrap().ends_with(b"polled"));
    });
}
