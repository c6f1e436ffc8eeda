//! Streams over TLS.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_error;
use crate::support::TestLoop;
use crate::support::polls::given_up_after;
use futures_io::AsyncBufRead;
use mainspring::net::tls::{TlsError, TlsStream};
use mainspring::net::{Stream, TcpListener, TcpStream, UnixStream};
use mainspring::{JoinSet, spawn};
use mainspring_engine::testing::{FaultPlan, Op};
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use test_support::pattern;
use test_support::{TestBackend, isolated, now_testing, open_fds};

const LARGE: usize = 1 << 20;

/// A plain connection.
async fn plain_pair() -> (Stream, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (near.into(), far.into())
}

/// A TLS connection.
async fn pair() -> (TlsStream, TlsStream) {
    secure(plain_pair().await).await.unwrap()
}

async fn secure((near, far): (Stream, Stream)) -> io::Result<(TlsStream, TlsStream)> {
    let accepting = spawn(async move { acceptor().accept(far).await });
    let near = connector().connect("localhost", near).await;
    let far = accepting.await.unwrap();
    Ok((near?, far?))
}

/// Runs `test` on each back end and checks that nothing is left.
fn on_both(test: impl AsyncFn(&TestLoop)) {
    isolated(|| {
        for on in TestBackend::ALL {
            let test_loop = TestLoop::new(on, format!("on {on:?}"));
            test_loop.run(test(&test_loop));
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
        }
    });
}

#[test]
fn messages_and_files_of_several_tasks_do_not_interleave() {
    on_both(async |test_loop| {
        let (near, far) = pair().await;
        let near = Rc::new(near);
        let mut tasks = JoinSet::new();
        for value in 1..=8 {
            let near = Rc::clone(&near);
            tasks.spawn(async move {
                if value % 4 == 0 {
                    // TLS sends a file in chunks.
                    near.sendfile(&File::open("/dev/zero").unwrap(), 0, Some(LARGE as u64)).await.unwrap();
                } else {
                    near.write_all(&vec![value; LARGE]).await.unwrap();
                }
            });
        }
        for value in [1, 2, 3, 0, 5, 6, 7, 0] {
            let message = far.read_exactly(LARGE).await.unwrap();
            assert!(message.iter().all(|&byte| byte == value), "not message {value}");
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        drop((near, far));
        test_loop.event_loop.shutdown_executor();
    });
}

#[test]
fn a_mebibyte_in_both_directions_each_with_its_own_eof() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let echoing = spawn(async move {
            let all = far.read_to_end().await?;
            far.write_all(&all).await?;
            far.close().await
        });
        near.write_all(pattern(LARGE)).await.unwrap();
        near.shutdown();
        assert!(near.read_to_end().await.unwrap() == pattern(LARGE));
        near.close().await.unwrap();
        echoing.await.unwrap().unwrap();
    });
}

#[test]
fn the_halves_may_have_two_owners() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let (reader, writer) = near.into_split();
        writer.write_all(b"the last\n").await.unwrap();
        drop(writer);
        assert_eq!(far.read_to_end().await.unwrap(), b"the last\n");
        far.write_all(b"answer\n").await.unwrap();
        assert_eq!(reader.read_line().await.unwrap(), b"answer\n");
        far.close().await.unwrap();
        assert_eq!(reader.read_line().await.unwrap(), b"");
    });
}

#[test]
fn truncation_is_an_error_and_not_eof() {
    on_both(async |_| {
        let (near, far) = pair().await;
        near.write_all(b"some of it").await.unwrap();
        far.read_exact(&mut [0; 4]).await.unwrap();
        near.transport().abort();
        drop(near);
        let error = far.read_to_end().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(matches!(tls_error(&error), TlsError::Truncated));
        // Data before the failure is delivered.
        assert_eq!(far.read_some(100).await.unwrap(), b" of it");
        assert!(far.close().await.is_err());
    });
}

#[test]
fn a_plain_stream_can_be_upgraded() {
    on_both(async |_| {
        let (near, far) = plain_pair().await;
        let serving = spawn(async move {
            assert_eq!(far.read_line().await.unwrap(), b"STARTTLS\n");
            far.write_all(b"go ahead\n").await.unwrap();
            let far = acceptor().accept(far).await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"secret\n");
            far.close().await.unwrap();
        });
        near.write_all(b"STARTTLS\n").await.unwrap();
        assert_eq!(near.read_line().await.unwrap(), b"go ahead\n");
        let near = connector().connect("localhost", near).await.unwrap();
        near.write_all(b"secret\n").await.unwrap();
        assert_eq!(near.read_to_end().await.unwrap(), b"");
        // The server waits for this close_notify.
        near.close().await.unwrap();
        serving.await.unwrap();
    });
}

#[test]
fn data_buffered_before_the_upgrade_is_part_of_the_handshake() {
    on_both(async |_| {
        for is_shown in [false, true] {
            let (near, mut far) = plain_pair().await;
            near.write_all(b"STARTTLS\n").await.unwrap();
            // It does not wait for the server's answer.
            let connecting = spawn(async move { connector().connect("localhost", near).await });
            assert_eq!(far.read_line().await.unwrap(), b"STARTTLS\n");
            while far.split().0.buffered() < 100 {
                mainspring::sleep(std::time::Duration::ZERO).await;
            }
            if is_shown {
                // Buffered by `fill_buf`, but not consumed.
                let seen =
                    poll_fn(|cx| Pin::new(&mut far).poll_fill_buf(cx).map(|seen| seen.unwrap().len())).await;
                assert!(seen >= 100);
            }
            let far = acceptor().accept(far).await.unwrap();
            let near = connecting.await.unwrap().unwrap();
            near.write_all(b"secret\n").await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"secret\n");
        }
    });
}

#[test]
fn plain_bytes_sent_before_the_handshake_are_not_read_as_plaintext() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "smuggled");
        test_loop.run(async {
            let (near, far) = plain_pair().await;
            near.write_all(b"STARTTLS\nRCPT TO: somebody else\n").await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"STARTTLS\n");
            let error = acceptor().accept(far).await.map(drop).unwrap_err();
            assert!(matches!(tls_error(&error), TlsError::NotTls));
        });
        test_loop.assert_idle();
    });
}

#[test]
fn tls_can_be_nested_over_any_stream() {
    on_both(async |_| {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = secure((near.into(), far.into())).await.unwrap();
        assert_eq!(near.peer_addr(), None);
        assert_eq!(near.peer_certificates().len(), 1);
        assert_eq!(near.alpn_protocol(), None);
        let (near, far) = secure((near.into(), far.into())).await.unwrap();
        let writing = spawn(async move {
            near.write_all(pattern(LARGE)).await.unwrap();
            near.close().await.unwrap();
        });
        assert!(far.read_to_end().await.unwrap() == pattern(LARGE));
        far.close().await.unwrap();
        writing.await.unwrap();
    });
}

#[test]
fn sendfile_encrypts_the_file() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let path = std::env::temp_dir().join(format!("mainspring-tls-file-{}", std::process::id()));
        std::fs::write(&path, pattern(LARGE)).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let reading = spawn(async move { far.read_to_end().await.unwrap() });
        assert_eq!(near.sendfile(&file, 0, None).await.unwrap(), LARGE as u64);
        near.shutdown();
        assert!(reading.await.unwrap() == pattern(LARGE));
    });
}

#[test]
fn a_reader_that_does_not_read_blocks_the_peer() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let writing = spawn(async move {
            near.write_all(pattern(8 * LARGE)).await.unwrap();
            near.close().await.unwrap();
        });
        for _ in 0..200 {
            mainspring::sleep(std::time::Duration::ZERO).await;
        }
        assert!(!writing.is_finished());
        assert!(far.split().0.buffered() < LARGE);
        assert!(far.read_to_end().await.unwrap() == pattern(8 * LARGE));
        far.close().await.unwrap();
        writing.await.unwrap();
    });
}

#[test]
fn a_server_runs_a_task_for_each_connection() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Epoll, "start_server");
        test_loop.run(async {
            let server = acceptor()
                .start_server("127.0.0.1:0", |stream| async move {
                    let line = stream.read_line().await?;
                    stream.write_all(&line).await?;
                    stream.close().await
                })
                .await
                .unwrap();
            let address = server.local_addr();
            // One side does not speak TLS.
            let plain = TcpStream::connect(address).await.unwrap();
            plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            let clients = (0..20).map(|_| {
                spawn(async move {
                    let stream = connector().open_connection(address, "localhost").await.unwrap();
                    stream.write_all(b"hello\n").await.unwrap();
                    stream.read_to_end().await.unwrap()
                })
            });
            for client in clients.collect::<Vec<_>>() {
                assert_eq!(client.await.unwrap(), b"hello\n");
            }
            drop(plain);
            server.close();
            server.wait_closed().await;
        });
        test_loop.assert_idle();
        test_loop.assert_reports(&["The task of a connection failed: the peer does not speak TLS"]);
    });
}

#[test]
fn a_cancelled_handshake_closes_the_connection() {
    isolated(|| {
        for polls in 0..100 {
            let test_loop = TestLoop::new(TestBackend::Epoll, format!("cancelled after {polls} polls"));
            let is_done = test_loop.run(async {
                let (near, far) = plain_pair().await;
                let accepting = spawn(async move { acceptor().accept(far).await });
                let connecting = async { connector().connect("localhost", near).await };
                let connected = given_up_after(polls, connecting).await;
                let accepted = accepting.await.unwrap();
                // The server may be done already; otherwise it gets an error.
                drop(accepted);
                match connected {
                    Some(near) => {
                        near.unwrap().close().await.unwrap();
                        true
                    }
                    None => false,
                }
            });
            test_loop.assert_idle();
            test_loop.assert_reports(&[]);
            if is_done {
                return;
            }
        }
        panic!("never done");
    });
}

#[test]
fn a_cancelled_read_loses_no_data() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let mut received = Vec::new();
        for round in 0..30 {
            let mut piece = vec![0; round % 7 + 1];
            if let Some(count) = given_up_after(round % 3, near.read(&mut piece)).await {
                received.extend_from_slice(&piece[..count.unwrap()]);
            }
            let from = round * 5;
            far.write_all(&pattern(from + 5)[from..]).await.unwrap();
        }
        far.close().await.ok();
        received.extend(near.read_to_end().await.unwrap());
        assert_eq!(received, pattern(150));
    });
}

/// Exchanges data; returns the bytes that the server received and whether its stream ended cleanly.
async fn exchange() -> (Vec<u8>, io::Result<()>) {
    let mut arrived = Vec::new();
    let listener = match TcpListener::bind("127.0.0.1:0").await {
        Ok(listener) => listener,
        Err(error) => return (arrived, Err(error)),
    };
    let address = listener.local_addr();
    let client = spawn(async move {
        let stream = connector().open_connection(address, "localhost").await?;
        stream.write_all(pattern(50_000)).await?;
        stream.shutdown();
        stream.read_to_end().await?;
        stream.close().await
    });
    let limit = std::time::Duration::from_secs(300);
    let held = mainspring::timeout(limit, async {
        let (stream, _) = listener.accept().await?;
        let stream = acceptor().accept(stream).await?;
        loop {
            match stream.read_some(10_000).await? {
                piece if piece.is_empty() => break,
                piece => arrived.extend(piece),
            }
        }
        stream.close().await
    })
    .await
    .unwrap_or_else(|elapsed| Err(elapsed.into()));
    client.cancel();
    drop(client.await);
    (arrived, held)
}

#[test]
fn a_clean_eof_means_that_everything_arrived() {
    isolated(|| {
        let test_loop = TestLoop::new(TestBackend::Fake, "without faults");
        let (arrived, ended) = test_loop.run(exchange());
        assert!(ended.is_ok() && arrived == pattern(50_000), "{ended:?}");
        test_loop.assert_idle();
        let log = test_loop.control.take_log();
        drop(test_loop);
        for op in [Op::Update, Op::Recv, Op::Send] {
            for after in 0..log.iter().filter(|entry| entry.call.op() == op).count() {
                let before = open_fds();
                let test_loop = TestLoop::new(TestBackend::Fake, format!("{op:?} number {after} fails"));
                now_testing(test_loop.name());
                test_loop.control.plan(FaultPlan::fail(op, libc::ECONNRESET).after(after));
                let (arrived, ended) = test_loop.run(exchange());
                assert!(arrived == pattern(arrived.len()), "{}", test_loop.name());
                assert!(ended.is_err() || arrived.len() == 50_000, "{}: data is missing", test_loop.name());
                test_loop.control.clear_faults();
                test_loop.assert_idle();
                drop(test_loop);
                assert_eq!(open_fds(), before);
            }
        }
    });
}
