//! Datagrams with fault injection: send, receive and registration errors.

use crate::polls::given_up_after;
use crate::support::{Log, assert_leaves_nothing, collect_reports, faulty_loop, run_on, yield_times};
use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport, UdpSocket};
use mainspring::spawn;
use mainspring_engine::testing::{Call, FakeControl, FaultPlan, Op};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Runs a test on a fault-injecting loop, and checks that all planned faults happened and nothing is left.
fn with_faults(test: impl AsyncFnOnce(&FakeControl)) {
    let (event_loop, control) = faulty_loop();
    let reports = collect_reports(&event_loop);
    run_on(&event_loop, test(&control));
    assert_eq!(control.pending_faults(), 0, "a planned fault did not happen");
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

fn successful_sends(control: &FakeControl) -> usize {
    control.take_log().iter().filter(|entry| entry.call.op() == Op::SendTo && entry.result.is_ok()).count()
}

#[test]
fn a_send_error_is_returned_and_the_next_send_works() {
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
fn a_send_that_would_block_waits_and_sends_once() {
    for errno in [libc::EAGAIN, libc::EINTR] {
        with_faults(async |control| {
            let (one, other) = pair().await;
            control.plan(FaultPlan::fail(Op::SendTo, errno).times(3));
            assert_eq!(one.send(b"hello").await.unwrap(), 5);
            assert_eq!(successful_sends(control), 1);
            let mut buffer = [0; 10];
            assert_eq!(other.recv(&mut buffer).await.unwrap(), 5);
        });
    }
}

#[test]
fn a_send_cancelled_while_waiting_sends_nothing() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        for polls in 1..4 {
            control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).every_time());
            assert!(given_up_after(polls, one.send(b"cancelled")).await.is_none());
            control.clear_faults();
        }
        assert_eq!(successful_sends(control), 0);
        one.send(b"sent").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 4);
    });
}

#[test]
fn all_waiting_sends_are_sent_in_order() {
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
fn recv_waits_again_after_an_event_without_a_datagram() {
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
fn a_receive_error_is_returned_and_loses_no_datagram() {
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
fn a_registration_error_is_returned_and_the_operation_can_be_retried() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        one.send(b"hello").await.unwrap();
        control.fail_next(Op::Update, libc::ENOMEM);
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
        // The same for sending.
        control.fail_next(Op::SendTo, libc::EAGAIN);
        control.fail_next(Op::Update, libc::ENOSPC);
        assert_eq!(one.send(b"again").await.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        one.send(b"again").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 5);
    });
}

#[test]
fn repeated_send_and_recv_change_no_registration() {
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
struct Recorder(Log<String>);

impl DatagramProtocol for Recorder {
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

async fn recording_endpoint() -> (DatagramTransport, Log<String>, SocketAddr) {
    let log = Log::new();
    let options = DatagramOptions::new().local_addr("127.0.0.1:0");
    let event_loop = mainspring::EventLoop::current();
    let (transport, _) =
        event_loop.create_datagram_endpoint(options, || Recorder(log.clone())).await.unwrap();
    let address = transport.local_addr().unwrap();
    (transport, log, address)
}

/// Runs the loop until `log` has `count` entries.
async fn wait_for_entries(log: &Log<String>, count: usize) {
    while log.entries().len() < count {
        yield_times(1).await;
    }
}

#[test]
fn error_received_reports_errors_and_the_endpoint_stays_open() {
    with_faults(async |control| {
        let (transport, log, address) = recording_endpoint().await;
        control.fail_next(Op::SendTo, libc::ECONNREFUSED);
        transport.send_to(b"lost", address);
        transport.send_to(b"sent", address);
        wait_for_entries(&log, 2).await;
        control.fail_next(Op::RecvFrom, libc::ECONNREFUSED);
        transport.send_to(b"again", address);
        wait_for_entries(&log, 4).await;
        transport.close();
        wait_for_entries(&log, 5).await;
        let refused = "error ConnectionRefused";
        log.assert([refused, "received sent", refused, "received again", "lost None"].map(String::from));
    });
}

#[test]
fn datagrams_that_would_block_are_queued_and_pause_writing() {
    with_faults(async |control| {
        let (transport, log, address) = recording_endpoint().await;
        transport.set_write_buffer_limits(Some(30), Some(10)).unwrap();
        control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).times(2));
        for data in ["one", "two", "three"] {
            transport.send_to(data.as_bytes(), address);
        }
        assert_eq!(transport.get_write_buffer_size(), 3 * 8 + 11);
        log.assert(["pause".to_owned()]);
        transport.close();
        assert!(transport.is_closing() && !transport.is_reading());
        wait_for_entries(&log, 3).await;
        log.assert(["pause", "resume", "lost None"].map(String::from));
    });
}

#[test]
fn an_error_of_a_queued_datagram_is_reported_and_later_ones_are_sent() {
    with_faults(async |control| {
        let (transport, log, address) = recording_endpoint().await;
        control.fail_next(Op::SendTo, libc::EAGAIN);
        control.fail_next(Op::SendTo, libc::ENOBUFS);
        for data in ["one", "two"] {
            transport.send_to(data.as_bytes(), address);
        }
        wait_for_entries(&log, 2).await;
        transport.abort();
        wait_for_entries(&log, 3).await;
        let entries = log.entries();
        assert!(entries[0].starts_with("error "), "{entries:?}");
        assert_eq!(entries[1..], ["received two", "lost None"]);
    });
}

#[test]
fn an_endpoint_that_cannot_be_registered_is_lost_with_the_error() {
    with_faults(async |control| {
        let log = Log::new();
        let options = DatagramOptions::new().local_addr("127.0.0.1:0");
        control.fail_next(Op::Update, libc::ENOMEM);
        let event_loop = mainspring::EventLoop::current();
        let (transport, _) =
            event_loop.create_datagram_endpoint(options, || Recorder(log.clone())).await.unwrap();
        wait_for_entries(&log, 1).await;
        assert!(transport.is_closing());
        log.assert([format!("lost {:?}", Some(ErrorKind::OutOfMemory))]);
    });
}

thread_local! {
    static SOCKET: RefCell<Option<Rc<UdpSocket>>> = const { RefCell::new(None) };
}

/// A waker that sends and receives on the socket.
struct UsesSocket;

impl Wake for UsesSocket {
    fn wake(self: Arc<Self>) {
        let socket = SOCKET.with_borrow(Clone::clone).unwrap();
        assert_eq!(socket.try_send(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket.try_recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_waker_may_use_the_socket_and_later_waiters_are_woken() {
    with_faults(async |control| {
        let (one, other) = pair().await;
        let one = Rc::new(one);
        SOCKET.set(Some(Rc::clone(&one)));
        control.plan(FaultPlan::fail(Op::SendTo, libc::EAGAIN).times(2));
        let mut sending = Box::pin(one.send(b"cancelled"));
        let waker = Waker::from(Arc::new(UsesSocket));
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        while control.pending_faults() > 0 {
            yield_times(1).await;
        }
        drop(sending);
        one.send(b"sent").await.unwrap();
        assert_eq!(other.recv(&mut [0; 10]).await.unwrap(), 4);
        SOCKET.set(None);
    });
}
