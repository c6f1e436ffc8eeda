//! Datagrams with fault injection: transient errors have no effect.

use crate::adversity::{faulty_loop, turns};
use crate::polls::given_up_after;
use crate::support::{Log, assert_leaves_nothing, collect_reports, run_on};
use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport, UdpSocket};
use mainspring::spawn;
use mainspring_engine::testing::{Call, FakeControl, FaultPlan, Op};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Runs a test on a failing loop, and checks that all planned faults happened and nothing is left.
fn with_faults(test: impl AsyncFnOnce(&FakeControl)) {
    let (event_loop, control) = faulty_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, test(&control));
    assert_eq!(control.pending_faults(), 0, "a fault that was planned has not struck");
    assert_leaves_nothing(&event_loop);
    reports.assert([]);
}

async fn pair() -> (UdpSocket, UdpSocket) {
    let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    one.connect(other.local_addr().unwrap()).await.unwrap();
    other.connect(one.local_addr().unwrap()).await.unwrap();
    (one, other)
}

fn sends(control: &FakeControl) -> usize {
    control.take_log().iter().filter(|entry| entry.call.op() == Op::SendTo && entry.result.is_ok()).count()
}

#[test]
fn a_send_that_fails_is_told_and_the_next_one_goes() {
    for errno in [libc::ENOBUFS, libc::ENETUNREACH, libc::EPERM, libc::ECONNREFUSED] {
        with_faults(async |control| {
            let (one, other) = pair().await;
            control.fail_next(Op::SendTo, errno);
            assert_eq!(one.send(b"lost").await.unwrap_err().raw_os_error(), Some(errno));
            one.send(b"sent").await.unwrap();
            let mut buffer = [0; 10];
            assert_eq!(other.recv(&mut buffer).await.unwrap(), 4);
            assert_eq!(&buffer[..4], b"sent");
        });
    }
}

#[test]
fn a_send_that_would_block_waits_and_is_sent_once() {
    for errno in [libc::EAGAIN, libc::EINTR] {
        with_faults(async |control| {
            let (one, other) = pair().await;
            control.plan(FaultPlan::fail(Op::SendTo, errno).times(3));
            assert_eq!(one.send(b"hello").await.unwrap(), 5);
            assert_eq!(sends(control), 1);
            let mut buffer = [0; 10];
            assert_eq!(other.recv(&mut buffer).await.unwrap(), 5);
        });
    }
}

#[test]
fn a_send_that_is_given_up_while_it_waits_was_not_sent() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        for polls in 1..4 {
            control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).every_time());
            assert!(given_up_after(polls, one.send(b"given up")).await.is_none());
            control.clear_faults();
        }
        assert_eq!(sends(control), 0);
        one.send(b"sent").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 4);
    });
}

#[test]
fn several_that_wait_to_send_are_all_sent() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        let one = Rc::new(one);
        control.fail_next(Op::SendTo, libc::EAGAIN);
        let tasks: Vec<_> = (0..5_u8)
            .map(|number| {
                let one = Rc::clone(&one);
                spawn(async move { one.send(&[number]).await.unwrap() })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut received = Vec::new();
        for _ in 0..5 {
            let mut buffer = [0; 1];
            other.recv(&mut buffer).await.unwrap();
            received.push(buffer[0]);
        }
        assert_eq!(received, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn an_event_without_a_datagram_is_waited_out() {
    for errno in [libc::EAGAIN, libc::EINTR] {
        with_faults(async |control| {
            let (one, other) = pair().await;
            one.send(b"hello").await.unwrap();
            control.plan(FaultPlan::fail(Op::RecvFrom, errno).times(3));
            assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
        });
    }
}

#[test]
fn an_error_of_receiving_is_told_and_no_datagram_is_lost_by_it() {
    for errno in [libc::ECONNREFUSED, libc::ENOMEM, libc::EHOSTUNREACH] {
        with_faults(async |control| {
            let (one, other) = pair().await;
            one.send(b"hello").await.unwrap();
            control.fail_next(Op::RecvFrom, errno);
            assert_eq!(other.recv(&mut [0; 10]).await.unwrap_err().raw_os_error(), Some(errno));
            assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
        });
    }
}

#[test]
fn a_socket_that_the_kernel_does_not_watch_tells_so_and_may_be_tried_again() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        one.send(b"hello").await.unwrap();
        control.fail_next(Op::Update, libc::ENOMEM);
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
        // Also for sending.
        control.fail_next(Op::SendTo, libc::EAGAIN);
        control.fail_next(Op::Update, libc::ENOSPC);
        assert_eq!(one.send(b"again").await.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        one.send(b"again").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
    });
}

#[test]
fn a_steady_conversation_changes_no_registration() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        let talk = async || {
            one.send(b"ping").await.unwrap();
            other.recv(&mut [0; 10]).await.unwrap();
        };
        talk().await;
        control.take_log();
        for _ in 0..50 {
            talk().await;
        }
        let log = control.take_log();
        assert_eq!(log.iter().filter(|entry| matches!(entry.call, Call::Update { .. })).count(), 0);
    });
}

/// Logs its callbacks.
struct Telling(Log<String>);

impl DatagramProtocol for Telling {
    fn datagram_received(&self, _: &DatagramTransport, data: &[u8], _: SocketAddr) {
        self.0.add(format!("received {}", String::from_utf8_lossy(data)));
    }

    fn error_received(&self, _: &DatagramTransport, error: io::Error) {
        self.0.add(format!("error {:?}", error.kind()));
    }

    fn connection_lost(&self, _: &DatagramTransport, error: Option<io::Error>) {
        self.0.add(format!("lost {:?}", error.map(|error| error.kind())));
    }

    fn pause_writing(&self, _: &DatagramTransport) {
        self.0.add("pause");
    }

    fn resume_writing(&self, _: &DatagramTransport) {
        self.0.add("resume");
    }
}

async fn telling() -> (DatagramTransport, Log<String>, SocketAddr) {
    let log = Log::new();
    let options = DatagramOptions::new().local_addr("127.0.0.1:0");
    let event_loop = mainspring::EventLoop::current();
    let (transport, _) = event_loop.create_datagram_endpoint(options, || Telling(log.clone())).await.unwrap();
    let address = transport.local_addr().unwrap();
    (transport, log, address)
}

/// Runs the loop until `log` has `count` entries.
async fn until_told(log: &Log<String>, count: usize) {
    while log.entries().len() < count {
        turns(1).await;
    }
}

#[test]
fn a_protocol_is_told_of_a_send_that_fails_and_the_endpoint_goes_on() {
    with_faults(async |control| {
        let (transport, log, here) = telling().await;
        control.fail_next(Op::SendTo, libc::ECONNREFUSED);
        transport.send_to(b"lost", here);
        transport.send_to(b"sent", here);
        until_told(&log, 2).await;
        control.fail_next(Op::RecvFrom, libc::ECONNREFUSED);
        transport.send_to(b"again", here);
        until_told(&log, 4).await;
        transport.close();
        until_told(&log, 5).await;
        let refused = "error ConnectionRefused";
        log.assert([refused, "received sent", refused, "received again", "lost None"].map(String::from));
    });
}

#[test]
fn what_the_kernel_does_not_take_waits_in_order_and_pauses_the_protocol() {
    with_faults(async |control| {
        let (transport, log, here) = telling().await;
        transport.set_write_buffer_limits(Some(30), Some(10)).unwrap();
        control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).times(2));
        for data in ["one", "two", "three"] {
            transport.send_to(data.as_bytes(), here);
        }
        assert_eq!(transport.get_write_buffer_size(), 3 * 8 + 11);
        log.assert(["pause".to_owned()]);
        transport.close();
        assert!(transport.is_closing() && !transport.is_reading());
        until_told(&log, 3).await;
        log.assert(["pause", "resume", "lost None"].map(String::from));
    });
}

#[test]
fn a_datagram_that_fails_in_the_queue_is_told_and_those_behind_it_are_sent() {
    with_faults(async |control| {
        let (transport, log, here) = telling().await;
        control.fail_next(Op::SendTo, libc::EAGAIN);
        control.fail_next(Op::SendTo, libc::ENOBUFS);
        for data in ["one", "two"] {
            transport.send_to(data.as_bytes(), here);
        }
        until_told(&log, 2).await;
        transport.abort();
        until_told(&log, 3).await;
        let entries = log.entries();
        assert!(entries[0].starts_with("error "), "{entries:?}");
        assert_eq!(entries[1..], ["received two", "lost None"]);
    });
}

#[test]
fn an_endpoint_that_the_kernel_does_not_watch_is_lost_with_the_reason() {
    with_faults(async |control| {
        let log = Log::new();
        let options = DatagramOptions::new().local_addr("127.0.0.1:0");
        control.fail_next(Op::Update, libc::ENOMEM);
        let event_loop = mainspring::EventLoop::current();
        let (transport, _) =
            event_loop.create_datagram_endpoint(options, || Telling(log.clone())).await.unwrap();
        until_told(&log, 1).await;
        assert!(transport.is_closing());
        log.assert([format!("lost {:?}", Some(ErrorKind::OutOfMemory))]);
    });
}

thread_local! {
    static SENDING: RefCell<Option<Rc<UdpSocket>>> = const { RefCell::new(None) };
}

/// A waker that uses the socket in both directions while it is woken.
struct Reenters;

impl Wake for Reenters {
    fn wake(self: Arc<Self>) {
        let socket = SENDING.with_borrow(Clone::clone).unwrap();
        assert_eq!(socket.try_send(b"too early").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.try_recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_waker_may_use_the_socket_and_those_who_wait_after_it_are_woken() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        let one = Rc::new(one);
        SENDING.set(Some(Rc::clone(&one)));
        control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).times(2));
        let mut sending = Box::pin(one.send(b"given up"));
        let waker = Waker::from(Arc::new(Reenters));
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        while control.pending_faults() > 0 {
            turns(1).await;
        }
        drop(sending);
        one.send(b"sent").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 4);
        SENDING.set(None);
    });
}
