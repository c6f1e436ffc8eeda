//! Rare results of system calls, for streams, Unix connections and servers; every operation fails in turn.

use crate::support::Stage;
use mainspring::net::{TcpListener, TcpStream, UnixListener, UnixStream, start_unix_server};
use mainspring::spawn;
use mainspring_engine::testing::{FaultPlan, Op};
use std::io;
use test_support::pattern;
use test_support::{On, guarded, now_testing, open_descriptors};

const LINES: usize = 400;

fn line(number: usize) -> Vec<u8> {
    let mut line = pattern(number % 300).to_vec();
    line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'.');
    line.push(b'\n');
    line
}

/// A conversation in lines over a Unix connection: the server repeats each line.
async fn talk(name: &str) -> io::Result<usize> {
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

fn name_of(what: &str) -> String {
    format!("\0mainspring-faults-{}-{what}", std::process::id())
}

#[test]
fn lines_arrive_through_short_claims_and_false_alarms() {
    guarded(|| {
        for size in [1, 3, 50] {
            let stage = Stage::new(On::Fake, format!("pieces of {size}"));
            stage.control.plan(FaultPlan::short_send(size).times(500));
            stage.control.plan(FaultPlan::short_recv(size).times(500));
            stage.control.plan(FaultPlan::fail(Op::Recv, libc::EAGAIN).times(5));
            stage.control.plan(FaultPlan::fail(Op::Send, libc::EINTR).times(5));
            assert_eq!(stage.run(talk(&name_of("short"))).unwrap(), LINES);
            stage.control.clear_faults();
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn any_operation_may_fail() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "without faults");
        assert_eq!(stage.run(talk(&name_of("sweep"))).unwrap(), LINES);
        let log = stage.control.take_log();
        drop(stage);
        for op in [Op::Update, Op::Recv, Op::Send, Op::Accept] {
            let times = log.iter().filter(|entry| entry.call.op() == op).count().min(60);
            for errno in [libc::ECONNRESET, libc::EPIPE, libc::ENOMEM] {
                for after in 0..times {
                    let before = open_descriptors();
                    let stage = Stage::new(On::Fake, format!("{op:?} number {after} fails with {errno}"));
                    now_testing(stage.name());
                    stage.control.plan(FaultPlan::fail(op, errno).after(after));
                    match stage.run(talk(&name_of("sweep"))) {
                        Ok(count) => assert!(count <= LINES),
                        Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
                    }
                    stage.control.clear_faults();
                    stage.assert_idle();
                    drop(stage);
                    assert_eq!(open_descriptors(), before);
                }
            }
        }
    });
}

#[test]
fn listeners_of_every_kind_rest_when_descriptors_run_out_or_anything_else_is_wrong() {
    guarded(|| {
        for errno in [libc::EMFILE, libc::ENFILE, libc::EPROTO, libc::EPERM] {
            let stage = Stage::new(On::Fake, format!("accept: {errno}"));
            stage.run(async {
                let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let unix = UnixListener::bind(name_of("rest")).unwrap();
                stage.control.plan(FaultPlan::fail(Op::Accept, errno).times(4));
                let client = TcpStream::connect(tcp.local_addr()).await.unwrap();
                let other = UnixStream::connect(name_of("rest")).await.unwrap();
                stage.control.take_log();
                tcp.accept().await.unwrap();
                unix.accept().await.unwrap();
                let accepts =
                    stage.control.take_log().iter().filter(|entry| entry.call.op() == Op::Accept).count();
                assert!(accepts < 20, "they rest between two attempts: {accepts}");
                drop((client, other));
            });
            assert_eq!(stage.control.pending_faults(), 0);
            assert_eq!(stage.reports.take().len(), 4);
            stage.assert_idle();
        }
    });
}

#[test]
fn a_reset_keeps_what_came_before_it() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "a reset after data");
        stage.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            near.write_all(b"one\ntwo\nthr").await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"one\n");
            stage.control.plan(FaultPlan::fail(Op::Recv, libc::ECONNRESET));
            near.write_all(b"x").await.unwrap();
            crate::settle().await;
            assert_eq!(far.read_line().await.unwrap(), b"two\n");
            for _ in 0..2 {
                let error = io::Error::from(far.read_line().await.unwrap_err());
                assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
                let error = io::Error::from(far.read_exactly(4).await.unwrap_err());
                assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
            }
            assert_eq!(far.read_exactly(3).await.unwrap(), b"thr", "an error takes nothing");
            assert_eq!(far.read_some(1).await.unwrap_err().raw_os_error(), Some(libc::ECONNRESET));
        });
        stage.assert_idle();
    });
}
