//! Streams over TLS.

use crate::certificates::{acceptor, connector};
use crate::pair::tls_error;
use crate::support::Stage;
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
use test_support::{On, guarded, now_testing, open_descriptors};

const MUCH: usize = 1 << 20;

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
fn on_both(test: impl AsyncFn(&Stage)) {
    guarded(|| {
        for on in On::ALL {
            let stage = Stage::new(on, format!("on {on:?}"));
            stage.run(test(&stage));
            stage.assert_idle();
            stage.assert_reports(&[]);
        }
    });
}

#[test]
fn messages_and_files_of_many_tasks_are_never_mixed() {
    on_both(async |stage| {
        let (near, far) = pair().await;
        let near = Rc::new(near);
        let mut tasks = JoinSet::new();
        for value in 1..=8 {
            let near = Rc::clone(&near);
            tasks.spawn(async move {
                if value % 4 == 0 {
                    // TLS sends a file in chunks.
                    near.sendfile(&File::open("/dev/zero").unwrap(), 0, Some(MUCH as u64)).await.unwrap();
                } else {
                    near.write_all(&vec![value; MUCH]).await.unwrap();
                }
            });
        }
        for value in [1, 2, 3, 0, 5, 6, 7, 0] {
            let message = far.read_exactly(MUCH).await.unwrap();
            assert!(message.iter().all(|&byte| byte == value), "not the message of {value}");
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        drop((near, far));
        stage.event_loop.shutdown_executor();
    });
}

#[test]
fn a_mebibyte_goes_both_ways_and_each_ends_by_itself() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let echoing = spawn(async move {
            let all = far.read_to_end().await?;
            far.write_all(&all).await?;
            far.close().await
        });
        near.write_all(pattern(MUCH)).await.unwrap();
        near.shutdown();
        assert!(near.read_to_end().await.unwrap() == pattern(MUCH));
        near.close().await.unwrap();
        echoing.await.unwrap().unwrap();
    });
}

#[test]
fn the_two_sides_may_be_owned_by_two() {
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
fn a_stream_that_is_cut_does_not_just_end() {
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
fn a_conversation_that_began_in_the_clear_goes_on_securely() {
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
fn what_has_arrived_already_is_the_beginning_of_tls() {
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
fn bytes_that_were_smuggled_in_before_tls_are_not_taken_for_secure_ones() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "smuggled");
        stage.run(async {
            let (near, far) = plain_pair().await;
            near.write_all(b"STARTTLS\nRCPT TO: somebody else\n").await.unwrap();
            assert_eq!(far.read_line().await.unwrap(), b"STARTTLS\n");
            let error = acceptor().accept(far).await.map(drop).unwrap_err();
            assert!(matches!(tls_error(&error), TlsError::NotTls));
        });
        stage.assert_idle();
    });
}

#[test]
fn any_stream_can_be_made_secure_and_more_than_once() {
    on_both(async |_| {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = secure((near.into(), far.into())).await.unwrap();
        assert_eq!(near.peer_addr(), None);
        assert_eq!(near.peer_certificates().len(), 1);
        assert_eq!(near.alpn_protocol(), None);
        let (near, far) = secure((near.into(), far.into())).await.unwrap();
        let writing = spawn(async move {
            near.write_all(pattern(MUCH)).await.unwrap();
            near.close().await.unwrap();
        });
        assert!(far.read_to_end().await.unwrap() == pattern(MUCH));
        far.close().await.unwrap();
        writing.await.unwrap();
    });
}

#[test]
fn a_file_is_sent_through_tls_not_past_it() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let path = std::env::temp_dir().join(format!("mainspring-tls-file-{}", std::process::id()));
        std::fs::write(&path, pattern(MUCH)).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let reading = spawn(async move { far.read_to_end().await.unwrap() });
        assert_eq!(near.sendfile(&file, 0, None).await.unwrap(), MUCH as u64);
        near.shutdown();
        assert!(reading.await.unwrap() == pattern(MUCH));
    });
}

#[test]
fn a_reader_that_stops_makes_the_peer_wait() {
    on_both(async |_| {
        let (near, far) = pair().await;
        let writing = spawn(async move {
            near.write_all(pattern(8 * MUCH)).await.unwrap();
            near.close().await.unwrap();
        });
        for _ in 0..200 {
            mainspring::sleep(std::time::Duration::ZERO).await;
        }
        assert!(!writing.is_finished());
        assert!(far.split().0.buffered() < MUCH);
        assert!(far.read_to_end().await.unwrap() == pattern(8 * MUCH));
        far.close().await.unwrap();
        writing.await.unwrap();
    });
}

#[test]
fn a_server_runs_a_task_for_each_connection() {
    guarded(|| {
        let stage = Stage::new(On::Epoll, "start_server");
        stage.run(async {
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
        stage.assert_idle();
        stage.assert_reports(&["The task of a connection failed: the peer does not speak TLS"]);
    });
}

#[test]
fn a_handshake_that_is_given_up_closes_the_connection() {
    guarded(|| {
        for polls in 0..100 {
            let stage = Stage::new(On::Epoll, format!("given up after {polls} polls"));
            let is_done = stage.run(async {
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
            stage.assert_idle();
            stage.assert_reports(&[]);
            if is_done {
                return;
            }
        }
        panic!("never done");
    });
}

#[test]
fn a_read_that_is_given_up_loses_no_data() {
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

/// A whole conversation; returns what the server received and whether it ended cleanly.
async fn converse() -> (Vec<u8>, io::Result<()>) {
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
fn whatever_fails_a_clean_end_is_the_end_of_everything() {
    guarded(|| {
        let stage = Stage::new(On::Fake, "without faults");
        let (arrived, ended) = stage.run(converse());
        assert!(ended.is_ok() && arrived == pattern(50_000), "{ended:?}");
        stage.assert_idle();
        let log = stage.control.take_log();
        drop(stage);
        for op in [Op::Update, Op::Recv, Op::Send] {
            for after in 0..log.iter().filter(|entry| entry.call.op() == op).count() {
                let before = open_descriptors();
                let stage = Stage::new(On::Fake, format!("{op:?} number {after} fails"));
                now_testing(stage.name());
                stage.control.plan(FaultPlan::fail(op, libc::ECONNRESET).after(after));
                let (arrived, ended) = stage.run(converse());
                assert!(arrived == pattern(arrived.len()), "{}", stage.name());
                assert!(ended.is_err() || arrived.len() == 50_000, "{}: cut off", stage.name());
                stage.control.clear_faults();
                stage.assert_idle();
                drop(stage);
                assert_eq!(open_descriptors(), before);
            }
        }
    });
}
