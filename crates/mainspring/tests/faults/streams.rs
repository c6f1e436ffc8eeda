//! The faults of `recv` and `send`, seen by streams.

use crate::support::TestLoop;
use mainspring::net::{TcpListener, TcpStream};
use mainspring_engine::testing::{FakeControl, FaultPlan, Op};
use std::io::ErrorKind;
use std::os::fd::RawFd;
use test_support::pattern;
use test_support::{TestBackend, isolated};

/// A connected pair of streams, and the fd of the first.
async fn pair(control: &FakeControl) -> (TcpStream, TcpStream, RawFd) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    control.take_log();
    let near = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    // After one byte in each direction, both have started receiving.
    near.write_all(b"1").await.unwrap();
    far.read_exact(&mut [0]).await.unwrap();
    far.write_all(b"2").await.unwrap();
    near.read_exact(&mut [0]).await.unwrap();
    let log = control.take_log();
    let first_send = log.iter().find(|entry| entry.call.op() == Op::Send).unwrap();
    (near, far, first_send.call.fd().unwrap())
}

fn on_a_pair(name: &str, test: impl AsyncFnOnce(&FakeControl, TcpStream, TcpStream, RawFd)) {
    let test_loop = TestLoop::new(TestBackend::Fake, name);
    let control = test_loop.control.clone();
    test_loop.run(async {
        let (near, far, fd) = pair(&control).await;
        test(&control, near, far, fd).await;
    });
    assert_eq!(control.pending_faults(), 0, "{name}: not every fault was injected");
    test_loop.assert_idle();
    test_loop.assert_reports(&[]);
}

#[test]
fn streams_survive_interruptions_and_short_transfers() {
    isolated(|| {
        for size in [1, 2, 7, 64, 1000] {
            on_a_pair(&format!("pieces of {size}"), async |control, near, far, fd| {
                control.plan(FaultPlan::fail(Op::Recv, libc::EINTR).times(2));
                control.plan(FaultPlan::fail(Op::Send, libc::EAGAIN));
                control.plan(FaultPlan::short_send(size).on(fd).times(300));
                control.plan(FaultPlan::short_recv(size).times(300));
                near.write_all(pattern(300 * size)).await.unwrap();
                near.shutdown();
                assert!(far.read_to_end().await.unwrap() == pattern(300 * size));
                control.clear_faults();
            });
        }
    });
}

#[test]
fn a_reset_is_returned_after_the_data_before_it() {
    isolated(|| {
        on_a_pair("a reset while reading", async |control, near, far, fd| {
            control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET).on(fd).after(1));
            far.write_all(b"abc").await.unwrap();
            near.read_exact(&mut [0]).await.unwrap();
            far.write_all(b"d").await.unwrap();
            let mut rest = [0; 2];
            near.read_exact(&mut rest).await.unwrap();
            assert_eq!(&rest, b"bc");
            for _ in 0..2 {
                assert_eq!(near.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            }
            assert_eq!(near.write_all(b"x").await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(near.drain().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(near.close().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn a_failed_write_is_not_read_as_eof() {
    isolated(|| {
        for errno in [libc::ECONNRESET, libc::EPIPE] {
            on_a_pair("a reset while writing", async |control, near, _far, fd| {
                control.plan(FaultPlan::fail(Op::Send, errno).on(fd));
                let error = near.write_all(b"x").await.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(errno));
                let error = near.read(&mut [0]).await.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(errno));
            });
        }
    });
}

#[test]
fn a_waiting_writer_gets_the_reset_of_the_connection() {
    isolated(|| {
        on_a_pair("a reset of a queue", async |control, near, far, fd| {
            control.plan(FaultPlan::short_send(1000).on(fd));
            control.plan(FaultPlan::short_send(0).on(fd));
            control.plan(FaultPlan::fail(Op::Send, libc::ECONNRESET).on(fd));
            let error = near.write_all(pattern(1_000_000)).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
            drop(near);
            let mut received = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = far.read(&mut piece).await {
                received.extend_from_slice(&piece[..count]);
            }
            assert_eq!(received, pattern(1000));
        });
    });
}

#[test]
fn a_locally_closed_stream_reads_eof() {
    isolated(|| {
        on_a_pair("closed through its transport", async |_, near, far, _| {
            near.transport().close();
            assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
            far.transport().abort();
            assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
        });
    });
}
