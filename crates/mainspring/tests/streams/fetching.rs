//! A task that waits in `read()` is woken when the socket is readable, and receives into its own buffer: if it comes, comes
//! late, or does not come.

use crate::support::Stage;
use crate::{on_both, on_pairs};
use mainspring::net::{Protocol, Transport, UnixStream};
use mainspring::testing::VirtualClock;
use mainspring::{Builder, spawn, yield_now};
use mainspring_engine::poller::{Backend, Interest, Key, Poller, open_epoll};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use test_support::pattern;
use test_support::{DELIBERATE, On, guarded};

/// Counts how often it was called.
#[derive(Default)]
struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Calls {
    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    fn finish<F: Future>(self: &Arc<Self>, mut future: Pin<Box<F>>) -> Poll<F::Output> {
        self.poll(future.as_mut())
    }

    fn take(&self) -> usize {
        self.0.swap(0, SeqCst)
    }
}

/// Two streams that are connected and have begun to receive.
fn pair(stage: &Stage) -> (UnixStream, UnixStream) {
    let pair = stage.run(async { UnixStream::pair().unwrap() });
    stage.passes(3);
    pair
}

/// Sends, and lets the loop see it once.
fn send(stage: &Stage, from: &UnixStream, data: &[u8]) {
    from.transport().write(data);
    stage.pass();
}

/// A read that was asked for and waits.
fn waiting<'a>(
    calls: &Arc<Calls>,
    stream: &'a UnixStream,
    buffer: &'a mut [u8],
) -> Pin<Box<impl Future<Output = io::Result<usize>> + 'a>> {
    let mut read = Box::pin(stream.read(buffer));
    assert!(calls.poll(read.as_mut()).is_pending());
    read
}

fn kept(stream: &UnixStream) -> usize {
    stream.split().0.buffered()
}

#[test]
fn whatever_the_sizes_all_arrives_and_in_order() {
    on_pairs("sizes", async |near, far| {
        for length in [1, 2, 7, 8, 9, 1019, 1020, 1021, 2040, 5000, 16_384, 70_000, 3] {
            for room in [1, 7, 1019, 1020, 1021, 32_768] {
                let mut buffer = vec![0; room];
                let mut received = Vec::new();
                let sent = pattern(length);
                // It waits when the first byte comes.
                let (reading, writing) = (near.read(&mut buffer), far.write_all(sent));
                let (count, written) = mainspring::join((reading, writing)).await;
                written.unwrap();
                let count = count.unwrap();
                received.extend_from_slice(&buffer[..count]);
                if received.len() < length {
                    received.extend(near.read_exactly(length - received.len()).await.unwrap());
                }
                assert_eq!(received, sent, "{length} bytes, {room} at a time");
            }
        }
    });
}

#[test]
fn a_task_that_waits_is_woken_and_receives() {
    on_both("fetching", |stage| {
        let (near, far) = pair(stage);
        let calls = Arc::new(Calls::default());
        let mut buffer = [0; 8];
        let read = waiting(&calls, &near, &mut buffer);
        send(stage, &far, b"abc");
        assert_eq!((calls.take(), kept(&near)), (1, 0), "nothing is received for it");
        assert!(matches!(calls.finish(read), Poll::Ready(Ok(3))));
        assert_eq!(&buffer[..3], b"abc");
    });
}

#[test]
fn bytes_for_a_cancelled_read_are_buffered_for_the_next() {
    on_both("giving up", |stage| {
        let calls = Arc::new(Calls::default());
        for gives_up_before_it_is_called in [true, false] {
            for (near, far) in [pair(stage), pair(stage)] {
                let mut buffer = [0; 8];
                let read = waiting(&calls, &near, &mut buffer);
                if gives_up_before_it_is_called {
                    drop(read);
                    send(stage, &far, b"abc");
                } else {
                    send(stage, &far, b"abc");
                    drop(read);
                }
                assert_eq!(calls.take(), usize::from(!gives_up_before_it_is_called));
                stage.until("it is kept", || kept(&near) == 3);
                assert_eq!(stage.run(near.read_exactly(3)).unwrap(), b"abc");
            }
        }
    });
}

#[test]
fn bytes_for_a_cancelled_read_leave_the_loop_with_the_socket() {
    on_both("leaving", |stage| {
        let (near, far) = pair(stage);
        let calls = Arc::new(Calls::default());
        let mut buffer = [0; 8];
        let read = waiting(&calls, &near, &mut buffer);
        send(stage, &far, b"abc");
        drop(read);
        assert_eq!((calls.take(), kept(&near)), (1, 0));
        let mut plain = near.into_std().unwrap();
        stage.passes(3);
        assert_eq!(plain.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
    });
}

#[test]
fn a_task_that_comes_late_finds_them_buffered_and_is_woken_once() {
    on_both("coming late", |stage| {
        for (near, far) in [pair(stage), pair(stage)] {
            let calls = Arc::new(Calls::default());
            let mut buffer = [0; 8];
            let read = waiting(&calls, &near, &mut buffer);
            send(stage, &far, b"abc");
            stage.until("it is kept", || kept(&near) == 3);
            send(stage, &far, b"de");
            stage.until("more is kept", || kept(&near) == 5);
            assert_eq!(calls.take(), 1);
            assert!(matches!(calls.finish(read), Poll::Ready(Ok(5))));
            assert_eq!(&buffer[..5], b"abcde");
        }
    });
}

#[test]
fn of_two_tasks_that_wait_one_receives_and_the_other_waits_on() {
    on_both("two readers", |stage| {
        for (near, far) in [pair(stage), pair(stage)] {
            let (first_calls, second_calls) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
            let (mut first, mut second) = ([0; 8], [0; 8]);
            let first_read = waiting(&first_calls, &near, &mut first);
            let mut second_read = waiting(&second_calls, &near, &mut second);
            send(stage, &far, b"abc");
            assert_eq!((first_calls.take(), second_calls.take()), (1, 1));
            assert!(matches!(first_calls.finish(first_read), Poll::Ready(Ok(3))));
            assert!(second_calls.poll(second_read.as_mut()).is_pending());
            send(stage, &far, b"de");
            assert_eq!(second_calls.take(), 1);
            assert!(matches!(second_calls.finish(second_read), Poll::Ready(Ok(2))));
            assert_eq!((&first[..3], &second[..2]), (&b"abc"[..], &b"de"[..]));
        }
    });
}

#[test]
fn a_reader_by_lines_and_one_by_bytes_find_the_same_stream() {
    on_pairs("lines and bytes", async |near, far| {
        let sending = spawn(async move {
            for piece in [&b"abc"[..], b"de\nfg", b"h\ni", b"j", b"k\n"] {
                far.write_all(piece).await.unwrap();
                crate::settle().await;
            }
            far
        });
        let mut buffer = [0; 2];
        assert_eq!(near.read(&mut buffer).await.unwrap(), 2);
        assert_eq!(&buffer, b"ab");
        assert_eq!(near.read_line().await.unwrap(), b"cde\n");
        assert_eq!(near.read(&mut buffer).await.unwrap(), 2);
        assert_eq!(near.read_line().await.unwrap(), b"h\n");
        assert_eq!(near.read(&mut buffer[..1]).await.unwrap(), 1);
        assert_eq!(near.read_line().await.unwrap(), b"jk\n");
        drop(sending.await.unwrap());
        assert_eq!(near.read(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn small_buffers_get_everything_in_order_and_in_few_calls() {
    for limit in [1, 100, 64 * 1024] {
        guarded(|| {
            let stage = Stage::new(On::Fake, format!("small buffers, limit {limit}"));
            stage.run(async {
                let (near, far) = UnixStream::pair().unwrap();
                near.split().0.set_limit(limit);
                let sending = spawn(async move { far.write_all(pattern(100_000)).await });
                let (mut received, mut buffer) = (Vec::new(), [0; 7]);
                while let count @ 1.. = near.read(&mut buffer).await.unwrap() {
                    received.extend_from_slice(&buffer[..count]);
                }
                assert_eq!(received, pattern(100_000));
                sending.await.unwrap().unwrap();
            });
            let log = stage.control.take_log();
            let claims = log.iter().filter(|entry| entry.call.op() == Op::Recv).count();
            assert!(claims < 100, "{claims} claims");
            stage.assert_idle();
        });
    }
}

#[test]
fn bytes_for_a_paused_transport_come_when_it_is_resumed() {
    on_both("pausing", |stage| {
        let (near, far) = pair(stage);
        let calls = Arc::new(Calls::default());
        let mut buffer = [0; 8];
        let mut read = waiting(&calls, &near, &mut buffer);
        send(stage, &far, b"abc");
        near.transport().pause_reading();
        assert!(calls.poll(read.as_mut()).is_pending());
        stage.passes(3);
        assert_eq!((calls.take(), kept(&near)), (1, 0));
        near.transport().resume_reading();
        stage.until("it is called again", || calls.0.load(SeqCst) == 1);
        assert!(matches!(calls.finish(read), Poll::Ready(Ok(3))));
    });
}

/// Keeps what it receives.
#[derive(Default)]
struct Keeper(RefCell<Vec<u8>>);

impl Protocol for Keeper {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.0.borrow_mut().extend_from_slice(data);
    }
}

#[test]
fn a_protocol_that_takes_over_before_the_woken_task_gets_them() {
    on_both("taking over", |stage| {
        let (near, far) = pair(stage);
        let calls = Arc::new(Calls::default());
        let mut buffer = [0; 8];
        let read = waiting(&calls, &near, &mut buffer);
        send(stage, &far, b"abc");
        drop(read);
        let keeper = Rc::new(Keeper::default());
        near.transport().set_protocol(Rc::<Keeper>::clone(&keeper));
        stage.until("it has got it", || *keeper.0.borrow() == b"abc");
        assert_eq!(calls.take(), 1);
    });
}

#[test]
fn the_end_is_told_as_bytes_are() {
    on_both("the end", |stage| {
        for (near, far) in [pair(stage), pair(stage)] {
            let calls = Arc::new(Calls::default());
            let mut buffer = [0; 8];
            let read = waiting(&calls, &near, &mut buffer);
            far.shutdown();
            stage.pass();
            assert_eq!(calls.take(), 1);
            assert!(matches!(calls.finish(read), Poll::Ready(Ok(0))));
            assert!(near.split().0.at_eof());
        }
        for (near, far) in [pair(stage), pair(stage)] {
            let calls = Arc::new(Calls::default());
            let mut buffer = [0; 8];
            let read = waiting(&calls, &near, &mut buffer);
            stage.run(far.write_all(b"abc")).unwrap();
            far.shutdown();
            stage.until("it is called", || calls.0.load(SeqCst) == 1);
            assert!(matches!(calls.finish(read), Poll::Ready(Ok(3))));
            assert_eq!(stage.run(near.read(&mut buffer)).unwrap(), 0, "it came with the last bytes");
        }
    });
}

#[test]
fn receiving_that_fails_is_told_or_repeated() {
    guarded(|| {
        for errno in [libc::EAGAIN, libc::EINTR, libc::ECONNRESET] {
            let stage = Stage::new(On::Fake, format!("errno {errno}"));
            let (near, far) = pair(&stage);
            let calls = Arc::new(Calls::default());
            let mut buffer = [0; 8];
            let mut read = waiting(&calls, &near, &mut buffer);
            send(&stage, &far, b"abc");
            stage.control.plan(FaultPlan::fail(Op::Recv, errno));
            assert!(calls.poll(read.as_mut()).is_pending());
            calls.take();
            stage.until("it is called", || calls.0.load(SeqCst) == 1);
            assert_eq!(stage.control.pending_faults(), 0, "it has struck");
            match calls.finish(read) {
                Poll::Ready(Ok(count)) => assert_eq!((count, errno != libc::ECONNRESET), (3, true)),
                Poll::Ready(Err(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                Poll::Pending => panic!("{errno}: it was called for nothing"),
            }
            drop((near, far));
            stage.assert_idle();
        }
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(DELIBERATE);
    }
}

#[test]
fn a_waker_that_panics_is_reported_and_loses_nothing() {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("a waker that panics, on {on:?}"));
            for (near, far) in [pair(&stage), pair(&stage)] {
                let mut buffer = [0; 8];
                let mut read = Box::pin(near.read(&mut buffer));
                let waker = Waker::from(Arc::new(Panics));
                assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                send(&stage, &far, b"abc");
                stage.until("it is kept", || kept(&near) == 3);
                stage.assert_reports(&["A waker panicked: panic: deliberate"]);
                drop(read);
                assert_eq!(stage.run(near.read_exactly(3)).unwrap(), b"abc");
            }
            stage.assert_idle();
        }
    });
}

#[test]
fn a_waker_that_panics_keeps_none_of_the_same_wait_from_being_called() {
    guarded(|| {
        for (on, place) in On::ALL.into_iter().flat_map(|on| (0..3).map(move |place| (on, place))) {
            let stage = Stage::new(on, format!("the waker at place {place} panics, on {on:?}"));
            let pairs = [(); 3].map(|()| pair(&stage)).map(|(near, far)| (near, far.into_std().unwrap()));
            let calls = Arc::new(Calls::default());
            let mut buffers = [[0; 8]; 3];
            let mut reads: Vec<_> =
                pairs.iter().zip(&mut buffers).map(|((near, _), room)| Box::pin(near.read(room))).collect();
            for (index, read) in reads.iter_mut().enumerate() {
                let waker =
                    if index == place { Waker::from(Arc::new(Panics)) } else { Arc::clone(&calls).into() };
                assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            for mut far in pairs.iter().map(|(_, far)| far) {
                far.write_all(b"abc").unwrap();
            }
            stage.passes(1);
            assert_eq!(calls.take(), 2);
            stage.assert_reports(&["A waker panicked: panic: deliberate"]);
            for read in reads {
                assert!(matches!(calls.finish(read), Poll::Ready(Ok(3))));
            }
            drop(pairs);
            stage.assert_idle();
        }
    });
}

/// A back end on which every stream has always as much as it is asked for.
struct Endless(Box<dyn Poller>);

impl Poller for Endless {
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()> {
        self.0.update(fd, key, old, new)
    }

    fn recv(&mut self, _: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

#[test]
fn a_peer_who_sends_without_end_lets_the_others_have_their_turns() {
    guarded(|| {
        let Backend { poller, parker } = open_epoll().unwrap();
        let backend = Backend { poller: Box::new(Endless(poller)), parker };
        let event_loop = Builder::new().clock(VirtualClock::default()).backend(backend).build().unwrap();
        event_loop
            .run_until_complete(async {
                let (near, far) = UnixStream::pair().unwrap();
                let reading = spawn(async move {
                    let mut buffer = vec![0; 1024];
                    while near.read(&mut buffer).await.is_ok() {}
                });
                far.write_all(b"x").await.unwrap();
                for _ in 0..100 {
                    yield_now().await;
                }
                reading.cancel();
            })
            .unwrap();
    });
}
