//! Rare results of system calls, for streams, Unix connections and servers; every operation fails in turn.

use crate::support::TestLoop;
use mainspring::net::{TcpListener, TcpStream, UnixListener, UnixStream, start_unix_server};
use mainspring::spawn;
use mainspring_engine::testing::{FaultPlan, Op};
use std::io;
use test_support::pattern;
use test_support::{TestBackend, isolated, now_testing, open_fds};

const LINES: usize = 400;

fn line(number: usize) -> Vec<u8> {
    let mut line = pattern(number % 300).to_vec();
    line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'.');
    line.push(b'\n');
    line
}

/// Exchanges lines over a Unix connection: the server echoes each line.
async fn exchange_lines(name: &str) -> io::Result<usize> {
    let server = start_unix_server(name, |reader, writer| async move {
        loop {
            match reader.read_line().await?.as_slice() {
                [] => return Ok::<(), io::Error>(()),
                line => writer.write_all(line).await?,
            }
        }
    })?;
    let stream = UnixStream::connect(name).await?;
    let (reader, writer) = stream.into_split();
    let writing = spawn(async move {
        for number in 0..LINES {
            writer.write_all(&line(number)).await?;
        }
        Ok::<(), io::Error>(())
    });
    let mut count = 0;
    let outcome = loop {
        match reader.read_line().await {
            Ok(received) if received.is_empty() => break Ok(()),
            Ok(received) => {
                // Truncated at the end, or complete.
                let is_whole = received == line(count);
                assert!(is_whole || line(count).starts_with(&received), "line {count}");
                count += usize::from(is_whole);
            }
            Err(error) => break Err(error),
        }
    };
    writing.cancel();
    drop(writing.await);
    drop(reader);
    server.close();
    server.wait_closed().await;
    outcome?;
    Ok(count)
}

fn abstract_name(what: &str) -> String {
    format!("\0mainspring-faults-{}-{what}", std::process::id())
}

#[test]
fn lines_survive_short_transfers_and_spurious_events() {
    isolated(|| {
        for size in [1, 3, 50] {
            let test_loop = TestLoop::new(TestBackend::Fake, format!("pieces of {size}"));
            test_loop.control.plan(FaultPlan::short_send(size).times(500));
            test_loop.control.plan(FaultPlan::short_recv(size).times(500));
            test_loop.control.plan(FaultPlan::fail(Op::Recv, libc::EAGAIN).times(5));
            test_loop.control.plan(FaultPlan::fail(Op::Send, libc::EINTR).times(5));
            assert_eq!(test_loop.run(exchange_lines(&abstract_name("short"))).unwrap(), LINES);
            test_loop.control.clear_faults();
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn any_operation_may_fail() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "without faults");
        assert_eq!(test_loop.run(exchange_lines(&abstract_name("sweep"))).unwrap(), LINES);
        let log = test_loop.control.take_log();
        drop(test_loop);
        for op in [Op::Update, Op::Recv, Op::Send, Op::Accept] {
            let times = log.iter().filter(|entry| entry.call.op() == op).count().min(60);
            for errno in [libc::ECONNRESET, libc::EPIPE, libc::ENOMEM] {
                for after in 0..times {
                    let before = open_fds();
                    let test_loop =
                        TestLoop::new(TestBackend::Fake, format!("{op:?} number {after} fails with {errno}"));
                    now_testing(test_loop.name());
                    test_loop.control.plan(FaultPlan::fail(op, errno).after(after));
                    match test_loop.run(exchange_lines(&abstract_name("sweep"))) {
                        Ok(count) => assert!(count <= LINES),
                        Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
                    }
                    test_loop.control.clear_faults();
                    test_loop.assert_idle();
                    drop(test_loop);
                    assert_eq!(open_fds(), before);
                }
            }
        }
    });
}

#[test]
fn every_kind_of_listener_pauses_after_a_failed_accept() {
    isolated(|| {
        for errno in [libc::EMFILE, libc::ENFILE, libc::EPROTO, libc::EPERM] {
            let test_loop = TestLoop::new(TestBackend::Fake, format!("accept: {errno}"));
            test_loop.run(async {
                let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let unix = UnixListener::bind(abstract_name("rest")).unwrap();
                test_loop.control.plan(FaultPlan::fail(Op::Accept, errno).times(4));
                let client = TcpStream::connect(tcp.local_addr()).await.unwrap();
                let other = UnixStream::connect(abstract_name("rest")).await.unwrap();
                test_loop.control.take_log();
                tcp.accept().await.unwrap();
                unix.accept().await.unwrap();
                let accepts =
                    test_loop.control.take_log().iter().filter(|entry| entry.call.op() == Op::Accept).count();
                assert!(accepts < 20, "listeners pause between attempts: {accepts}");
                drop((client, other));
            });
            assert_eq!(test_loop.control.pending_faults(), 0);
            assert_eq!(test_loop.reports.take().len(), 4);
            test_loop.assert_idle();
        }
    });
}

#[test]
fn data_received_before_a_reset_can_be_read() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "a reset after data");
        test_loop.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            near.write_all(b"one\ntwo\nthr").await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"one\n");
            test_loop.control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET));
            near.write_all(b"x").await.unwrap();
            crate::settle().await;
            assert_eq!(far.read_line().await.unwrap(), b"two\n");
            for _ in 0..2 {
                let error = io::Error::from(far.read_line().await.unwrap_err());
                assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
                let error = io::Error::from(far.read_exactly(4).await.unwrap_err());
                assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
            }
            assert_eq!(far.read_exactly(3).await.unwrap(), b"thr", "a failed read consumes nothing");
            assert_eq!(far.read_some(1).await.unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
        });
        test_loop.assert_idle();
    });
}
