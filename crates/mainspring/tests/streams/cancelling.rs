//! Cancels every operation after every number of polls.

use crate::on_both;
use crate::support::Stage;
use crate::support::polls::{given_up_after, restless};
use mainspring::net::{
    ConnectOptions, ServerOptions, TcpListener, TcpStream, UnixListener, UnixStream, open_connection,
    start_server,
};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use test_support::pattern;

const MAX_POLLS: usize = 100;

/// Cancels `operation` after 0, 1, 2, ... polls, until it completes earlier. Each time the loop returns to its former
/// state.
fn give_up_at_every_poll<T>(stage: &Stage, operation: impl AsyncFn() -> T) -> T {
    let before = stage.event_loop.metrics();
    for polls in 0..MAX_POLLS {
        if let Some(done) = stage.run(given_up_after(polls, operation())) {
            return done;
        }
        stage.until("the loop is as it was", || stage.event_loop.metrics() == before);
    }
    panic!("{}: not done after {MAX_POLLS} polls", stage.name());
}

fn name_of(stage: &Stage) -> String {
    format!("\0mainspring-giving-up-{}-{}", std::process::id(), stage.name())
}

#[test]
fn connecting_in_every_way() {
    on_both("connecting", |stage| {
        let listener = stage.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let unix = stage.run(async { UnixListener::bind(name_of(stage)) }).unwrap();
        let address = listener.local_addr();
        let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_millis(1));
        // Connections that were not accepted; the listener holds only a few of them.
        let let_go = || {
            stage.run(given_up_after(
                20,
                restless(async {
                    loop {
                        drop(listener.accept().await);
                    }
                }),
            ));
        };
        drop(give_up_at_every_poll(stage, async || open_connection(address).await.unwrap()));
        let_go();
        let race = async || options.connect(vec![address, address]).await.unwrap();
        drop(give_up_at_every_poll(stage, race));
        let_go();
        let connect = async || UnixStream::connect(name_of(stage)).await.unwrap();
        let stream = give_up_at_every_poll(stage, connect);
        stage.run(async {
            stream.write_all(b"x").await.unwrap();
            loop {
                let accepted = unix.accept().await.unwrap();
                if let Ok(read) = accepted.read_exactly(1).await {
                    assert_eq!(read, b"x");
                    break;
                }
            }
        });
    });
}

#[test]
fn listening_and_serving() {
    on_both("listening", |stage| {
        let listen = async || TcpListener::bind("localhost:0").await.unwrap();
        drop(give_up_at_every_poll(stage, listen));
        let serve = async || start_server("127.0.0.1:0", |_, _| async {}).await.unwrap();
        let server = give_up_at_every_poll(stage, serve);
        let client = stage.run(TcpStream::connect(server.local_addr())).unwrap();
        drop(server);
        drop(client);
        let options = ServerOptions::new().start_serving(false);
        let server = stage.run(options.start_server("127.0.0.1:0", |_, _| async {})).unwrap();
        for polls in 0..3 {
            let given_up = stage.run(given_up_after(polls, server.serve_forever()));
            assert!(given_up.is_none_or(|ended| ended.is_err()));
            assert!(!server.is_serving());
        }
        stage.event_loop.shutdown_executor();
    });
}

#[test]
fn writing_closing_and_draining() {
    on_both("writing", |stage| {
        for polls in 0..6 {
            let (near, far) = stage.run(async { UnixStream::pair() }).unwrap();
            let written = stage.run(given_up_after(polls, restless(near.write_all(pattern(2_000_000)))));
            assert!(written.is_none(), "nobody reads");
            assert!(stage.run(given_up_after(polls, restless(near.drain()))).is_none());
            // Closed in any case: the write buffer is sent.
            assert!(stage.run(given_up_after(polls, restless(near.close()))).is_none());
            let received = stage.run(far.read_to_end());
            // Cancelled before its first poll: dropping it closes too.
            let received = received.unwrap();
            assert!(received.len() < 2_000_000 && received == pattern(received.len()));
            assert_eq!(received.is_empty(), polls == 0);
        }
    });
}

#[test]
fn reading_in_every_way_and_polled_without_reason() {
    on_both("restless readers", |stage| {
        stage.run(async {
            let (near, far) = UnixStream::pair().unwrap();
            let writing = mainspring::spawn(async move {
                for piece in pattern(30_000).chunks(1000) {
                    near.write_all(piece).await?;
                    mainspring::sleep(Duration::ZERO).await;
                }
                Ok::<(), io::Error>(())
            });
            let mut all = Vec::new();
            for polls in 0..40 {
                let some = given_up_after(polls % 4, restless(far.read_exactly(100)));
                all.extend(some.await.map_or(Vec::new(), Result::unwrap));
            }
            all.extend(restless(far.read_to_end()).await.unwrap());
            assert!(all == pattern(30_000));
            writing.await.unwrap().unwrap();
        });
    });
}

#[test]
fn what_is_dropped_in_every_order_closes_once() {
    on_both("orders of dropping", |stage| {
        stage.run(async {
            for order in 0..4 {
                let (near, far) = UnixStream::pair().unwrap();
                let transport = Rc::new(near.transport().clone());
                let (reader, writer) = near.into_split();
                let reading = mainspring::spawn(async move { reader.read_to_end().await });
                crate::settle().await;
                match order {
                    0 => drop(writer),
                    1 => {
                        reading.cancel();
                        drop(writer);
                    }
                    2 => {
                        writer.close();
                        reading.cancel();
                        drop(writer);
                    }
                    _ => {
                        transport.abort();
                        drop(writer);
                    }
                }
                drop(far.read_to_end().await);
                drop(far);
                crate::settle().await;
                assert!(transport.is_closing(), "order {order}");
                drop(reading.await);
            }
        });
    });
}
