//! A task waiting in `read()` is woken when the socket is readable and receives into its own buffer. Covers tasks that
//! read at once, late, or not at all.

use crate::on_both;
use crate::support::TestLoop;
use mainspring::net::{Protocol, Transport, UnixStream};
use mainspring_engine::testing::{FaultPlan, Op};
use std::cell::RefCell;
use std::io::{self, Read};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use test_support::{TestBackend, isolated};

/// Counts its wake-ups.
#[derive(Default)]
pub struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl WakeCounter {
    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))))
    }

    pub fn poll_boxed<F: Future>(self: &Arc<Self>, mut future: Pin<Box<F>>) -> Poll<F::Output> {
        self.poll(future.as_mut())
    }

    pub fn take(&self) -> usize {
        self.0.swap(0, SeqCst)
    }
}

/// Two connected streams that have started receiving.
pub fn pair(test_loop: &TestLoop) -> (UnixStream, UnixStream) {
    let pair = test_loop.run(async { UnixStream::pair().unwrap() });
    test_loop.run_iterations(3);
    pair
}

/// Sends, then runs one iteration.
pub fn send(test_loop: &TestLoop, from: &UnixStream, data: &[u8]) {
    from.transport().write(data);
    test_loop.run_once();
}

/// A read that was polled once and is pending.
fn pending_read<'a>(
    wakes: &Arc<WakeCounter>,
    stream: &'a UnixStream,
    buffer: &'a mut [u8],
) -> Pin<Box<impl Future<Output = io::Result<usize>> + 'a>> {
    let mut read = Box::pin(stream.read(buffer));
    assert!(wakes.poll(read.as_mut()).is_pending());
    read
}

pub fn buffered(stream: &UnixStream) -> usize {
    stream.split().0.buffered()
}

#[test]
fn a_waiting_task_is_woken_and_receives() {
    on_both("wake-up", |test_loop| {
        let (near, far) = pair(test_loop);
        let wakes = Arc::new(WakeCounter::default());
        let mut buffer = [0; 8];
        let read = pending_read(&wakes, &near, &mut buffer);
        send(test_loop, &far, b"abc");
        assert_eq!((wakes.take(), buffered(&near)), (1, 0), "the loop has not received");
        assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(3))));
        assert_eq!(&buffer[..3], b"abc");
    });
}

#[test]
fn bytes_for_a_cancelled_read_are_buffered_for_the_next() {
    on_both("cancelled read", |test_loop| {
        let wakes = Arc::new(WakeCounter::default());
        for is_cancelled_before_wakeup in [true, false] {
            for (near, far) in [pair(test_loop), pair(test_loop)] {
                let mut buffer = [0; 8];
                let read = pending_read(&wakes, &near, &mut buffer);
                if is_cancelled_before_wakeup {
                    drop(read);
                    send(test_loop, &far, b"abc");
                } else {
                    send(test_loop, &far, b"abc");
                    drop(read);
                }
                assert_eq!(wakes.take(), usize::from(!is_cancelled_before_wakeup));
                test_loop.until("the bytes are buffered", || buffered(&near) == 3);
                assert_eq!(test_loop.run(near.read_exactly(3)).unwrap(), b"abc");
            }
        }
    });
}

#[test]
fn bytes_for_a_cancelled_read_stay_in_the_socket_for_into_std() {
    on_both("into_std", |test_loop| {
        let (near, far) = pair(test_loop);
        let wakes = Arc::new(WakeCounter::default());
        let mut buffer = [0; 8];
        let read = pending_read(&wakes, &near, &mut buffer);
        send(test_loop, &far, b"abc");
        drop(read);
        assert_eq!((wakes.take(), buffered(&near)), (1, 0));
        let mut plain = near.into_std().unwrap();
        test_loop.run_iterations(3);
        assert_eq!(plain.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
    });
}

#[test]
fn a_task_that_polls_late_finds_the_bytes_buffered_and_is_woken_once() {
    on_both("late poll", |test_loop| {
        for (near, far) in [pair(test_loop), pair(test_loop)] {
            let wakes = Arc::new(WakeCounter::default());
            let mut buffer = [0; 8];
            let read = pending_read(&wakes, &near, &mut buffer);
            send(test_loop, &far, b"abc");
            test_loop.until("the bytes are buffered", || buffered(&near) == 3);
            send(test_loop, &far, b"de");
            test_loop.until("more bytes are buffered", || buffered(&near) == 5);
            assert_eq!(wakes.take(), 1);
            assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(5))));
            assert_eq!(&buffer[..5], b"abcde");
        }
    });
}

#[test]
fn of_two_waiting_tasks_one_receives_and_the_other_keeps_waiting() {
    on_both("two readers", |test_loop| {
        for (near, far) in [pair(test_loop), pair(test_loop)] {
            let (first_wakes, second_wakes) =
                (Arc::new(WakeCounter::default()), Arc::new(WakeCounter::default()));
            let (mut first, mut second) = ([0; 8], [0; 8]);
            let first_read = pending_read(&first_wakes, &near, &mut first);
            let mut second_read = pending_read(&second_wakes, &near, &mut second);
            send(test_loop, &far, b"abc");
            assert_eq!((first_wakes.take(), second_wakes.take()), (1, 1));
            assert!(matches!(first_wakes.poll_boxed(first_read), Poll::Ready(Ok(3))));
            assert!(second_wakes.poll(second_read.as_mut()).is_pending());
            send(test_loop, &far, b"de");
            assert_eq!(second_wakes.take(), 1);
            assert!(matches!(second_wakes.poll_boxed(second_read), Poll::Ready(Ok(2))));
            assert_eq!((&first[..3], &second[..2]), (&b"abc"[..], &b"de"[..]));
        }
    });
}

#[test]
fn a_paused_transport_delivers_when_it_is_resumed() {
    on_both("pausing", |test_loop| {
        let (near, far) = pair(test_loop);
        let wakes = Arc::new(WakeCounter::default());
        let mut buffer = [0; 8];
        let mut read = pending_read(&wakes, &near, &mut buffer);
        send(test_loop, &far, b"abc");
        near.transport().pause_reading();
        assert!(wakes.poll(read.as_mut()).is_pending());
        test_loop.run_iterations(3);
        assert_eq!((wakes.take(), buffered(&near)), (1, 0));
        near.transport().resume_reading();
        test_loop.until("the task is woken again", || wakes.0.load(SeqCst) == 1);
        assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(3))));
    });
}

/// Collects received data.
#[derive(Default)]
struct Collector(RefCell<Vec<u8>>);

impl Protocol for Collector {
    fn data_received(&self, _: &Transport, data: &[u8]) {
        self.0.borrow_mut().extend_from_slice(data);
    }
}

#[test]
fn a_protocol_set_before_the_woken_task_reads_gets_the_bytes() {
    on_both("set_protocol", |test_loop| {
        let (near, far) = pair(test_loop);
        let wakes = Arc::new(WakeCounter::default());
        let mut buffer = [0; 8];
        let read = pending_read(&wakes, &near, &mut buffer);
        send(test_loop, &far, b"abc");
        drop(read);
        let collector = Rc::new(Collector::default());
        near.transport().set_protocol(Rc::<Collector>::clone(&collector));
        test_loop.until("the protocol has the bytes", || *collector.0.borrow() == b"abc");
        assert_eq!(wakes.take(), 1);
    });
}

#[test]
fn eof_wakes_the_waiting_task() {
    on_both("EOF", |test_loop| {
        for (near, far) in [pair(test_loop), pair(test_loop)] {
            let wakes = Arc::new(WakeCounter::default());
            let mut buffer = [0; 8];
            let read = pending_read(&wakes, &near, &mut buffer);
            far.shutdown();
            test_loop.run_once();
            assert_eq!(wakes.take(), 1);
            assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(0))));
            assert!(near.split().0.at_eof());
        }
        for (near, far) in [pair(test_loop), pair(test_loop)] {
            let wakes = Arc::new(WakeCounter::default());
            let mut buffer = [0; 8];
            let read = pending_read(&wakes, &near, &mut buffer);
            test_loop.run(far.write_all(b"abc")).unwrap();
            far.shutdown();
            test_loop.until("the task is woken", || wakes.0.load(SeqCst) == 1);
            assert!(matches!(wakes.poll_boxed(read), Poll::Ready(Ok(3))));
            assert_eq!(test_loop.run(near.read(&mut buffer)).unwrap(), 0, "EOF arrived with the last bytes");
        }
    });
}

#[test]
fn a_failed_recv_is_returned_or_retried() {
    isolated(|| {
        for errno in [libc::EAGAIN, libc::EINTR, libc::ECONNRESET] {
            let test_loop = TestLoop::new(TestBackend::Fake, format!("errno {errno}"));
            let (near, far) = pair(&test_loop);
            let wakes = Arc::new(WakeCounter::default());
            let mut buffer = [0; 8];
            let mut read = pending_read(&wakes, &near, &mut buffer);
            send(&test_loop, &far, b"abc");
            test_loop.control.plan(FaultPlan::fail(Op::Recv, errno));
            assert!(wakes.poll(read.as_mut()).is_pending());
            wakes.take();
            test_loop.until("the task is woken", || wakes.0.load(SeqCst) == 1);
            assert_eq!(test_loop.control.pending_faults(), 0, "the fault was injected");
            match wakes.poll_boxed(read) {
                Poll::Ready(Ok(count)) => assert_eq!((count, errno != libc::ECONNRESET), (3, true)),
                Poll::Ready(Err(error)) => assert_eq!(error.raw_os_error(), Some(errno)),
                Poll::Pending => panic!("{errno}: woken, but nothing to receive"),
            }
            drop((near, far));
            test_loop.assert_idle();
        }
    });
}
