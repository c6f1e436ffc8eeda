//! Cancels every operation after every number of polls.

use crate::on_both;
use crate::support::TestLoop;
use crate::support::polls::{given_up_after, polled_every_iteration};
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
fn cancel_at_every_poll<T>(test_loop: &TestLoop, operation: impl AsyncFn() -> T) -> T {
    let before = test_loop.event_loop.metrics();
    for polls in 0..MAX_POLLS {
        if let Some(done) = test_loop.run(given_up_after(polls, operation())) {
            return done;
        }
        test_loop
            .until("the loop's metrics are back to the start", || test_loop.event_loop.metrics() == before);
    }
    panic!("{}: not done after {MAX_POLLS} polls", test_loop.name());
}

fn abstract_name(test_loop: &TestLoop) -> String {
    format!("\0mainspring-cancelling-{}-{}", std::process::id(), test_loop.name())
}

#[test]
fn connecting_can_be_cancelled_at_every_poll() {
    on_both("connecting", |test_loop| {
        let listener = test_loop.run(TcpListener::bind("127.0.0.1:0")).unwrap();
        let unix = test_loop.run(async { UnixListener::bind(abstract_name(test_loop)) }).unwrap();
        let address = listener.local_addr();
        let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_millis(1));
        // Connections that were not accepted; the listener holds only a few of them.
        let accept_and_drop = || {
            test_loop.run(given_up_after(
                20,
                polled_every_iteration(async {
                    loop {
                        drop(listener.accept().await);
                    }
                }),
            ));
        };
        drop(cancel_at_every_poll(test_loop, async || open_connection(address).await.unwrap()));
        accept_and_drop();
        let race = async || options.connect(vec![address, address]).await.unwrap();
        drop(cancel_at_every_poll(test_loop, race));
        accept_and_drop();
        let connect = async || UnixStream::connect(abstract_name(test_loop)).await.unwrap();
        let stream = cancel_at_every_poll(test_loop, connect);
        test_loop.run(async {
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
fn listening_and_serving_can_be_cancelled_at_every_poll() {
    on_both("listening", |test_loop| {
        let listen = async || TcpListener::bind("localhost:0").await.unwrap();
        drop(cancel_at_every_poll(test_loop, listen));
        let serve = async || start_server("127.0.0.1:0", |_, _| async {}).await.unwrap();
        let server = cancel_at_every_poll(test_loop, serve);
        let client = test_loop.run(TcpStream::connect(server.local_addr())).unwrap();
        drop(server);
        drop(client);
        let options = ServerOptions::new().start_serving(false);
        let server = test_loop.run(options.start_server("127.0.0.1:0", |_, _| async {})).unwrap();
        for polls in 0..3 {
            let given_up = test_loop.run(given_up_after(polls, server.serve_forever()));
            assert!(given_up.is_none_or(|ended| ended.is_err()));
            assert!(!server.is_serving());
        }
        test_loop.event_loop.shutdown_executor();
    });
}

#[test]
fn writing_draining_and_closing_can_be_cancelled_at_every_poll() {
    on_both("writing", |test_loop| {
        for polls in 0..6 {
            let (near, far) = test_loop.run(async { UnixStream::pair() }).unwrap();
            let written = test_loop
                .run(given_up_after(polls, polled_every_iteration(near.write_all(pattern(2_000_000)))));
            assert!(written.is_none(), "the peer does not read");
            assert!(test_loop.run(given_up_after(polls, polled_every_iteration(near.drain()))).is_none());
            // Cancelling `close()` still closes: the write buffer is sent.
            assert!(test_loop.run(given_up_after(polls, polled_every_iteration(near.close()))).is_none());
            let received = test_loop.run(far.read_to_end());
            // Cancelled before its first poll: dropping it closes too.
            let received = received.unwrap();
            assert!(received.len() < 2_000_000 && received == pattern(received.len()));
            assert_eq!(received.is_empty(), polls == 0);
        }
    });
}

#[test]
fn reads_survive_cancellation_and_spurious_polls() {
    on_both("spurious polls", |test_loop| {
        test_loop.run(async {
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
                let some = given_up_after(polls % 4, polled_every_iteration(far.read_exactly(100)));
                all.extend(some.await.map_or(Vec::new(), Result::unwrap));
            }
            all.extend(polled_every_iteration(far.read_to_end()).await.unwrap());
            assert!(all == pattern(30_000));
            writing.await.unwrap().unwrap();
        });
    });
}

#[test]
fn halves_dropped_in_any_order_close_the_connection() {
    on_both("drop order", |test_loop| {
        test_loop.run(async {
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
